"""The counter-based noise of a seeded draw, so that one draw can be checked token by token.

The noise of a token is a pure function of (seed, position, token id): it knows neither row nor
batch. Integers are those of Philox4x32-10 (Salmon et al. 2011); everything after is float64.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Words = NDArray[np.uint32]

U_MAX = 1 - 2.0**-24
"""Largest uniform: the float32 kernels cannot tell a larger one from 1, whose noise is infinite."""

TOLERANCE = 2e-6
"""Relative error of one float32 score E * exp(zmax - z): about 1e-6 each for E and for exp."""

U_ERROR = 2.0**-23
"""Relative error of a uniform in float32: two roundings, of its high and of its low half."""

LOW_END = (1337225, 0, 12)
"""Seed, position and token of a uniform of 1.76e-9: 0 where it is kept in 24 bits."""

HIGH_END = (13045, 0, 69)
"""Seed, position and token of a uniform of 1 - 9.4e-9: 1 where it is rounded to float32."""

_HALF_ULP = 2.0**-24
_ROUNDS = 10
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
_CHUNK = 1 << 20


def philox4x32(counter: Words, key: Words) -> Words:
    """Philox4x32-10 of ``counter`` [n, 4] under ``key`` [n, 2], as [n, 4] uint32 words.

    Both broadcast over their leading axes. Random123's reference (Salmon et al., SC 2011).
    """
    c0, c1, c2, c3 = np.moveaxis(counter.astype(np.uint64), -1, 0)
    k0, k1 = np.moveaxis(key.astype(np.uint64), -1, 0)
    for i in range(_ROUNDS):
        r0, r1 = (k0 + np.uint64(i * _WEYL[0])) & _LOW, (k1 + np.uint64(i * _WEYL[1])) & _LOW
        p0, p1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = (p1 >> _SHIFT) ^ c1 ^ r0, p1 & _LOW, (p0 >> _SHIFT) ^ c3 ^ r1, p0 & _LOW
    return np.stack((c0, c1, c2, c3), axis=-1).astype(np.uint32)


def uniforms(seeds: Int, positions: Int, token_ids: Int) -> Float:
    """The uniform in (0, 1 - 2^-24] of every (draw, token), ``[n_draws, n_tokens]``.

    Key: the seed's 64 bits (low word first). Counter: (token >> 1, position low, position high,
    0). An even token takes words 0 and 1 as high and low half, an odd one 2 and 3; the value is
    (high + (low + 1/2) / 2^32) / 2^32.
    """
    pairs, where = np.unique(token_ids >> 1, return_inverse=True)
    counter = np.zeros((seeds.size, pairs.size, 4), dtype=np.uint32)
    counter[..., 0] = pairs
    counter[..., 1:3] = _halves(positions)[:, None, :]
    words = philox4x32(counter, _halves(seeds)[:, None, :]).reshape(seeds.size, pairs.size, 2, 2)
    drawn = words[:, where, token_ids & 1, :].astype(np.float64)
    u = (drawn[..., 0] + (drawn[..., 1] + 0.5) / 2**32) / 2**32
    return np.minimum(u, U_MAX)


def exponentials(seeds: Int, positions: Int, token_ids: Int) -> Float:
    """Exp(1) noise ``-log1p(-u)`` of every (draw, token), ``[n_draws, n_tokens]``; never 0."""
    return -np.log1p(-uniforms(seeds, positions, token_ids))


def race(z: Float, seeds: Int, positions: Int) -> Int:
    """The token drawn by every (seed, position) ``[n]``; -1 where all of ``z`` [V] is masked.

    The token that arrives first in a race of exponentials with rates exp(z) is drawn from
    softmax(z). Equal arrival: the lowest id.
    """
    ids = np.flatnonzero(z > -np.inf)
    tokens = np.full(seeds.size, -1, dtype=np.int64)
    for part in _chunks(seeds.size, ids.size):
        scores, _ = _arrivals(z, ids, seeds[part], positions[part])
        tokens[part] = ids[scores.argmin(axis=1)]
    return tokens


def accepts(tokens: Int, z: Float, seeds: Int, positions: Int) -> NDArray[np.bool_]:
    """Whether each token ``[n]`` could have won its race in float32 arithmetic.

    It could if its arrival, lowered by its error, is not after the earliest time by which some
    token has surely arrived. The relative error of one arrival is TOLERANCE, plus what U_ERROR
    does to E near u = 1, plus what rounding max(z) - z does to its exponential.
    Where all of ``z`` is masked only -1 is accepted.
    """
    ids = np.flatnonzero(z > -np.inf)
    accepted = np.full(seeds.size, False) if ids.size else tokens == -1
    for part in _chunks(seeds.size, ids.size):
        scores, errors = _arrivals(z, ids, seeds[part], positions[part])
        possible = scores - errors <= (scores + errors).min(axis=1, keepdims=True)
        accepted[part] = (possible & (ids == tokens[part, None])).any(axis=1)
    return accepted


def _arrivals(z: Float, ids: Int, seeds: Int, positions: Int) -> tuple[Float, Float]:
    """Log arrival times of the tokens ``ids`` and bounds on their float32 error, ``[n, ids]``."""
    distance = z[ids].max() - z[ids]
    u = uniforms(seeds, positions, ids)
    exponential = -np.log1p(-u)
    relative = TOLERANCE + U_ERROR * u / ((1 - u) * exponential)
    return np.log(exponential) + distance, -np.log1p(-relative) + _HALF_ULP * distance


def _halves(values: Int) -> Words:
    """The low and high 32 bits of every 64-bit value, ``[..., 2]``; negative ones wrap."""
    bits = values.astype(np.int64).view(np.uint64)
    return np.stack((bits & _LOW, bits >> _SHIFT), axis=-1).astype(np.uint32)


def _chunks(n_draws: int, n_tokens: int) -> Iterator[slice]:
    """Runs of draws whose noise fits in memory; none where there is no token to draw."""
    step = max(1, _CHUNK // max(1, n_tokens))
    for start in range(0, n_draws if n_tokens else 0, step):
        yield slice(start, start + step)
