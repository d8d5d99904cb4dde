"""Noise: every seeded draw is the token that the reference's own noise picks.

Token by token against the named noise of ``sampler_reference.noise``: float64 there, fp32 in the
engine, so a token is also right when its score is within the stated rounding bound of the best.
"""

import numpy as np
from numpy.typing import NDArray

from sampler_audit.results import CheckResult
from sampler_reference import noise

DESCRIPTION = "each seeded token is the one that the reference's noise picks"


END_VOCAB_SIZE = 128


def end_values(noise_name: str) -> dict[str, tuple[NDArray[np.float64], int, int]]:
    """Rows ``[END_VOCAB_SIZE]`` with a seed and position that meet the ends of the uniform.

    A uniform near 0 must win by a gap of 18 nats, which it does only with more than 24 bits, and
    must not win by 40, which it does as an exact 0. One near 1 must still be a finite time, or
    a row in which that token alone is left has no winner. Empty for a noise whose ends are unknown.
    """
    if noise_name not in noise.ENDS:
        return {}
    (seed, position, token), high = noise.ENDS[noise_name]
    near, far, alone = (np.full(END_VOCAB_SIZE, -np.inf) for _ in range(3))
    near[[0, token]] = 0.0, -18.0
    far[[0, token]] = 0.0, -40.0
    high_seed, high_position, high_token = high
    alone[high_token] = 0.0
    return {
        "uniform near 0, gap 18": (near, seed, position),
        "uniform near 0, gap 40": (far, seed, position),
        "uniform near 1": (alone, high_seed, high_position),
    }


def check(
    tokens: NDArray[np.int64],
    z: NDArray[np.float64],
    seeds: NDArray[np.int64],
    positions: NDArray[np.int64],
    *,
    noise_name: str = "philox",
    domain: int = noise.DRAW,
    source: str,
) -> CheckResult:
    """Compare ``tokens`` ``[n]`` with the race over ``z`` ``[vocab_size]``, -inf where masked.

    ``noise_name`` is that of the conventions, ``domain`` the stream of the seed; ``source`` says,
    in a reason, how the tokens were drawn.
    """
    wrong = np.flatnonzero(~noise.accepts(tokens, z, seeds, positions, noise_name, domain))
    if not wrong.size:
        return CheckResult(check="noise", outcome="pass")
    at = int(wrong[0])
    return CheckResult(
        check="noise",
        outcome="fail",
        reason=f"{source}: {wrong.size} of {tokens.size} tokens are not those of their noise; seed "
        f"{seeds[at]}, position {positions[at]} gave {tokens[at]}, the reference "
        f"{noise.race(z, seeds[at : at + 1], positions[at : at + 1], noise_name, domain)[0]}",
    )
