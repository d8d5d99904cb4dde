"""Noise: every seeded draw is the token that the reference's own noise picks.

Token by token against ``sampler_reference.noise``: float64 there, fp32 in the engine, so a token
is also right when its score is within the stated rounding bound of the best.
"""

import numpy as np
from numpy.typing import NDArray

from sampler_audit.results import CheckResult
from sampler_reference import noise

DESCRIPTION = "each seeded token is the one that the reference's noise picks"


def check(
    tokens: NDArray[np.int64],
    z: NDArray[np.float64],
    seeds: NDArray[np.int64],
    positions: NDArray[np.int64],
    *,
    source: str,
) -> CheckResult:
    """Compare ``tokens`` ``[n]`` with the race over ``z`` ``[vocab_size]``, -inf where masked."""
    wrong = np.flatnonzero(~noise.accepts(tokens, z, seeds, positions))
    if not wrong.size:
        return CheckResult(check=f"noise ({source})", outcome="pass")
    at = int(wrong[0])
    return CheckResult(
        check=f"noise ({source})",
        outcome="fail",
        reason=f"{wrong.size} of {tokens.size} tokens are not those of their noise; seed "
        f"{seeds[at]}, position {positions[at]} gave {tokens[at]}, the reference "
        f"{noise.race(z, seeds[at : at + 1], positions[at : at + 1])[0]}",
    )
