"""The counter-based noise of a seeded draw, so that one draw can be checked token by token.

The noise of a token is a pure function of (seed, position, token id): it knows neither row nor
batch. Ours is Philox4x32-10 (Salmon et al. 2011), vLLM's is in ``murmur``; integers are exact,
everything after is float64, with a bound on what an engine's arithmetic makes of it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sampler_reference import murmur

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Words = NDArray[np.uint32]

Arrivals = Callable[[Float, Int, Int, Int, int], tuple[Float, Float]]
"""``(z [V], ids, seeds, positions, domain)`` to the log arrival time of every (draw, token) and a
bound on an engine's error in it, ``[n_draws, n_ids]``."""

DRAW, ACCEPTANCE, RESIDUAL, DRAFT = range(4)
"""Streams of one seed: a draw from the target (the bonus token too), the uniform that accepts a
draft, the draw that replaces a rejected one, and the draft's own draw."""


@dataclass(frozen=True)
class Arithmetic:
    """What one precision does to a score E * exp(zmax - z).

    Attributes:
        u_max: Largest uniform: it cannot tell a larger one from 1, whose noise is infinite.
        score_error: Relative error of a score, of E and of exp together.
        u_error: Relative error of a uniform: two roundings, of its high and of its low half.
        half_ulp: Relative error of one rounding.
    """

    u_max: float
    score_error: float
    u_error: float
    half_ulp: float


FLOAT32 = Arithmetic(u_max=1 - 2.0**-24, score_error=2e-6, u_error=2.0**-23, half_ulp=2.0**-24)
FLOAT64 = Arithmetic(u_max=1 - 2.0**-53, score_error=4e-15, u_error=2.0**-52, half_ulp=2.0**-53)

ENDS = {
    "philox": ((1337225, 0, 12), (13045, 0, 69)),
    "murmur": ((4630410, 0, 2), (384739, 0, 75)),
}
"""By noise the seed, position and token of a uniform near 0 and of one near 1.

The first is about 1.7e-9, which is 0 where it is kept in 24 bits; the second is 1 where it is
rounded to float32."""

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


def uniforms(seeds: Int, positions: Int, token_ids: Int, domain: int = DRAW) -> Float:
    """The float64 uniform in (0, 1 - 2^-53] of every (draw, token), ``[n_draws, n_tokens]``.

    Key: the seed's 64 bits (low word first). Counter: (token >> 1, position low, position high,
    domain). An even token takes words 0 and 1 as high and low half, an odd one 2 and 3; the value
    is (high + (low + 1/2) / 2^32) / 2^32.
    """
    pairs, where = np.unique(token_ids >> 1, return_inverse=True)
    counter = np.zeros((seeds.size, pairs.size, 4), dtype=np.uint32)
    counter[..., 0] = pairs
    counter[..., 1:3] = _halves(positions)[:, None, :]
    counter[..., 3] = domain
    words = philox4x32(counter, _halves(seeds)[:, None, :]).reshape(seeds.size, pairs.size, 2, 2)
    drawn = words[:, where, token_ids & 1, :].astype(np.float64)
    u = (drawn[..., 0] + (drawn[..., 1] + 0.5) / 2**32) / 2**32
    return np.minimum(u, FLOAT64.u_max)


def race(z: Float, seeds: Int, positions: Int, noise: str = "philox", domain: int = DRAW) -> Int:
    """The token drawn by every (seed, position) ``[n]``; -1 where all of ``z`` [V] is masked.

    The token that arrives first in a race of exponentials with rates exp(z) is drawn from
    softmax(z). Equal arrival: the lowest id.

    Raises:
        ValueError: unknown noise.
    """
    ids = np.flatnonzero(z > -np.inf)
    tokens = np.full(seeds.size, -1, dtype=np.int64)
    arrivals = _find(noise)
    for part in _chunks(seeds.size, ids.size):
        scores, _ = arrivals(z, ids, seeds[part], positions[part], domain)
        tokens[part] = ids[scores.argmin(axis=1)]
    return tokens


def accepts(
    tokens: Int, z: Float, seeds: Int, positions: Int, noise: str = "philox", domain: int = DRAW
) -> NDArray[np.bool_]:
    """Whether each token ``[n]`` could have won its race in the arithmetic of the noise.

    It could if its arrival, lowered by its error, is not after the earliest time by which some
    token has surely arrived. Where all of ``z`` is masked only -1 is accepted.

    Raises:
        ValueError: unknown noise.
    """
    ids = np.flatnonzero(z > -np.inf)
    accepted = np.full(seeds.size, False) if ids.size else tokens == -1
    arrivals = _find(noise)
    for part in _chunks(seeds.size, ids.size):
        scores, errors = arrivals(z, ids, seeds[part], positions[part], domain)
        possible = scores - errors <= (scores + errors).min(axis=1, keepdims=True)
        accepted[part] = (possible & (ids == tokens[part, None])).any(axis=1)
    return accepted


def predict(
    noise: str, z: Float, seed: int, position: int, domain: int = DRAW
) -> tuple[int, float]:
    """The token of one draw from ``z`` [V], and the margin by which it must win, in nats.

    The margin is its lead over the nearest rival less what the errors of both may be: 0 or below
    is a near tie, which an engine may settle either way; inf is a token without rival, or no
    token (-1).

    Raises:
        ValueError: unknown noise.
    """
    ids = np.flatnonzero(z > -np.inf)
    if not ids.size:
        return -1, np.inf
    scores, errors = _find(noise)(z, ids, np.array([seed]), np.array([position]), domain)
    winner = int(scores[0].argmin())
    rivals = np.delete(scores[0] - errors[0], winner)
    latest = scores[0, winner] + errors[0, winner]
    return int(ids[winner]), float(rivals.min(initial=np.inf) - latest)


def _race_of_exponentials(arithmetic: Arithmetic) -> Arrivals:
    """Arrivals E * exp(max(z) - z), E = -log1p(-u) of Philox.

    The relative error of one arrival is that of its score, plus what the uniform's does to E near
    u = 1, plus what rounding max(z) - z does to its exponential.
    """

    def arrivals(
        z: Float, ids: Int, seeds: Int, positions: Int, domain: int
    ) -> tuple[Float, Float]:
        distance = z[ids].max() - z[ids]
        u = np.minimum(uniforms(seeds, positions, ids, domain), arithmetic.u_max)
        exponential = -np.log1p(-u)
        relative = arithmetic.score_error + arithmetic.u_error * u / ((1 - u) * exponential)
        errors = -np.log1p(-relative) + arithmetic.half_ulp * distance
        return np.log(exponential) + distance, errors

    return arrivals


def _gumbel_max(*, fp64: bool) -> Arrivals:
    """Arrivals -(z + G), G of vLLM, which has a stream for drafts and one for all else."""

    def arrivals(
        z: Float, ids: Int, seeds: Int, positions: Int, domain: int
    ) -> tuple[Float, Float]:
        drafting = domain == DRAFT
        gumbel = murmur.gumbels(seeds, positions, ids, fp64=fp64, drafting=drafting)
        return -(z[ids] + gumbel), murmur.score_errors(z[ids], gumbel, fp64=fp64)

    return arrivals


NOISES: dict[str, Arrivals] = {
    "philox": _race_of_exponentials(FLOAT32),
    "philox-fp64": _race_of_exponentials(FLOAT64),
    "murmur": _gumbel_max(fp64=False),
    "murmur-fp64": _gumbel_max(fp64=True),
}
"""Every seeded noise by name."""


def _find(noise: str) -> Arrivals:
    if noise not in NOISES:
        raise ValueError(f"unknown noise {noise!r}; known: {', '.join(NOISES)}")
    return NOISES[noise]


def _halves(values: Int) -> Words:
    """The low and high 32 bits of every 64-bit value, ``[..., 2]``; negative ones wrap."""
    bits = values.astype(np.int64).view(np.uint64)
    return np.stack((bits & _LOW, bits >> _SHIFT), axis=-1).astype(np.uint32)


def _chunks(n_draws: int, n_tokens: int) -> Iterator[slice]:
    """Runs of draws whose noise fits in memory; none where there is no token to draw."""
    step = max(1, _CHUNK // max(1, n_tokens))
    for start in range(0, n_draws if n_tokens else 0, step):
        yield slice(start, start + step)
