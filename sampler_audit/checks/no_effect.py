"""No effect: an extreme setting changes the law.

A setting that is accepted and ignored is the most reported fault of all. Only cells whose law
differs enough from the law without the filter are asked; their e-values enter the run's.
"""

import numpy as np
from numpy.typing import NDArray

from sampler_audit.checks.histogram import Evidence
from sampler_audit.results import CheckResult
from sampler_audit.statistics.bins import binned
from sampler_audit.statistics.e_values import defect_log_e
from sampler_audit.statistics.effect import total_variation

NAME = "no effect"
DESCRIPTION = "an extreme setting changes what is drawn"

LEAST_DISTANCE = 0.04
"""Total variation between the laws with and without the filter, from which a cell is asked: where a
filter that moves less is ignored, 200 draws may well see none that moved (0.96^200 = 3e-4). A top_p
of .95 moves the 5 % that it cuts."""


def check(evidence: Evidence, without: NDArray[np.float64], filter_name: str) -> CheckResult | None:
    """The evidence that the filter did nothing, against the law ``without`` it ``[vocab_size]``.

    None where the two laws are closer than LEAST_DISTANCE: the cell cannot tell.
    """
    ignored = binned(evidence.labels, without)
    if total_variation(ignored, evidence.probs) < LEAST_DISTANCE:
        return None
    log_e = float(defect_log_e(evidence.counts, ignored, evidence.box))
    return CheckResult(check=f"{NAME} of {filter_name}", outcome="pass", log_e=log_e)
