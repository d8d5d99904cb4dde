"""Support: no draw falls on a token that must be dropped.

A draw of a must-drop token has probability zero under every admissible distribution, so one is
enough; the audit repeats it on a fresh sample before it counts. A may-keep token never fails.
"""

import numpy as np
from numpy.typing import NDArray

from sampler_audit.results import CheckResult
from sampler_reference.distribution import Distribution

DESCRIPTION = "no draw falls outside the tokens that may be kept"


def outside(tokens: NDArray[np.int64], distribution: Distribution) -> NDArray[np.int64]:
    """The drawn tokens that must not occur."""
    return tokens[~inside(tokens, distribution)]


def inside(tokens: NDArray[np.int64], distribution: Distribution) -> NDArray[np.bool_]:
    """Which of ``tokens`` ``[n]`` may occur; -1 may only where nothing is left to keep."""
    vocab_size = distribution.may_keep.size
    in_range = (tokens >= 0) & (tokens < vocab_size)
    allowed = np.zeros(tokens.shape, dtype=bool)
    allowed[in_range] = distribution.may_keep[tokens[in_range]]
    if not distribution.may_keep.any():
        allowed |= tokens == -1
    return allowed


def check(
    tokens: NDArray[np.int64], fresh: NDArray[np.int64], distribution: Distribution
) -> CheckResult:
    """Fails where both the sample and the fresh one hold a token that must be dropped."""
    first, second = outside(tokens, distribution), outside(fresh, distribution)
    if not first.size:
        return CheckResult(check="support", outcome="pass")
    worst = int(np.unique(first, return_counts=True)[0][0])
    seen = f"{first.size} of {tokens.size} draws fall on tokens that must be dropped, as {worst}"
    if not second.size:
        return CheckResult(
            check="support",
            outcome="inconclusive",
            reason=f"{seen}; none of {fresh.size} fresh draws does",
        )
    return CheckResult(
        check="support",
        outcome="fail",
        reason=f"{seen}; a fresh sample confirms it with {second.size} of {fresh.size}",
    )
