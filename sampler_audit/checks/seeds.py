"""Seeds: a request's token depends on its own seed and position, and on nothing else.

Exact: the same (seed, position) gives the same token alone, in a batch, in another row and in
another order. Statistical: different seeds, and different positions, are exchangeable; that
e-value enters the run's.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sampler_audit.results import CheckResult
from sampler_audit.statistics.e_values import log_mean_exp
from sampler_audit.statistics.independence import exchangeability_log_e

DESCRIPTION = "a token depends on its seed and position, not on row, batch or order"

INDEPENDENCE = "independence"
"""Name of the statistical check; its e-values enter the run's."""


@dataclass(frozen=True, eq=False)
class SeededDraws:
    """The same (seed, position) pairs drawn in different surroundings, each ``[n]`` int64.

    ``by_kernel`` is drawn the other way where a target has two, else the same way again;
    ``by_seed`` holds consecutive seeds at one position and ``by_position`` one seed at
    consecutive positions.
    """

    alone: NDArray[np.int64]
    one_by_one: NDArray[np.int64]
    in_batch: NDArray[np.int64]
    other_row: NDArray[np.int64]
    permuted: NDArray[np.int64]
    by_kernel: NDArray[np.int64]
    by_seed: NDArray[np.int64]
    by_position: NDArray[np.int64]


def check_equal(draws: SeededDraws) -> CheckResult:
    """Fails where the same seed and position gave different tokens."""
    surroundings = {
        "drawn one request at a time": draws.one_by_one,
        "in a batch": draws.in_batch,
        "in another row": draws.other_row,
        "in another order": draws.permuted,
        "where the kernel draws": draws.by_kernel,
    }
    for where, tokens in surroundings.items():
        differs = int((tokens != draws.alone).sum())
        if differs:
            return CheckResult(
                check="seeds",
                outcome="fail",
                reason=f"{differs} of {tokens.size} seeded tokens change {where}",
            )
    return CheckResult(check="seeds", outcome="pass")


def check_independent(draws: SeededDraws) -> CheckResult:
    """The mean e-value of the two orders in which a fault would tie draws together.

    A sequence that never changes has no order to test. It fails where no token takes more than half
    of the other one. Both at once have a chance below 1e-23 under any law, of which a token of mass
    3/4 is the worst: the first is q^128, the second by Chernoff's bound (4 q (1 - q))^64.
    """
    sequences = {"seeds": draws.by_seed, "positions": draws.by_position}
    for name, tokens in sequences.items():
        other = draws.by_position if name == "seeds" else draws.by_seed
        if np.unique(tokens).size == 1 and _flat(other):
            return CheckResult(
                check=INDEPENDENCE,
                outcome="fail",
                reason=f"{tokens.size} different {name} all give token {tokens[0]}",
            )
    log_es = np.array([exchangeability_log_e(tokens) for tokens in sequences.values()])
    return CheckResult(check=INDEPENDENCE, outcome="pass", log_e=float(log_mean_exp(log_es)))


def _flat(tokens: NDArray[np.int64]) -> bool:
    """Whether no token takes more than half of the draws."""
    return bool(np.unique(tokens, return_counts=True)[1].max() <= tokens.size / 2)
