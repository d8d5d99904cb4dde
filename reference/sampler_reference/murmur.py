"""vLLM's seeded noise: a hash of (seed, position, token id) made a Gumbel variable.

Own code from the published hash and from what vllm 0.31.0 to 0.33.0 compute in
v1/worker/gpu/sample/gumbel.py. Hash and uniform are exact; what follows is float64, with a bound
on what an engine's arithmetic may make of it. Knows neither row nor batch.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Bits = NDArray[np.uint64]

DRAFT_OFFSET = 1 << 30
"""Added to the position where a draft is drawn, so that its verifier sees other noise."""

SECOND_SEED = 0x9E3779B9
"""Hash seed of the upper half of a 64-bit hash; that of the lower half, and of 32 bits, is 0."""

LOG_ULPS = 4
"""Largest error of a logarithm: CUDA's logf states 1 ulp, numpy's float32 loops just below 4."""

_LOW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
_SERIES_BELOW = 0.25
_SERIES_TERMS = 8


def murmur3_x86_32(words: Sequence[Bits], seed: int = 0) -> Bits:
    """MurmurHash3_x86_32 of a key of 32-bit ``words``, first one first, which broadcast.

    Words and hash are 32-bit values in uint64. Austin Appleby's SMHasher, public domain.
    """
    h = np.asarray(seed, dtype=np.uint64)
    for word in words:
        k = _rotate(word * np.uint64(0xCC9E2D51) & _LOW, 15) * np.uint64(0x1B873593) & _LOW
        h = (_rotate(h ^ k, 13) * np.uint64(5) + np.uint64(0xE6546B64)) & _LOW
    h = h ^ np.uint64(4 * len(words))
    h = (h ^ h >> np.uint64(16)) * np.uint64(0x85EBCA6B) & _LOW
    h = (h ^ h >> np.uint64(13)) * np.uint64(0xC2B2AE35) & _LOW
    return np.asarray(h ^ h >> np.uint64(16))


def key_words(seeds: Int, positions: Int, token_ids: Int) -> tuple[Bits, Bits, Bits, Bits]:
    """The key of every (draw, token): seed low, seed high, position low, token id.

    They broadcast to ``[n_draws, n_tokens]``; a position counts with its low 32 bits only.
    """
    seed, position = seeds.view(np.uint64)[:, None], positions.view(np.uint64)[:, None]
    return seed & _LOW, seed >> _SHIFT, position & _LOW, token_ids.astype(np.uint64)


def uniforms32(seeds: Int, positions: Int, token_ids: Int) -> NDArray[np.float32]:
    """(hash + 1/2) / 2^32, rounded once to float32, of every (draw, token): in (0, 1]."""
    hashed = murmur3_x86_32(key_words(seeds, positions, token_ids))
    return ((hashed + 0.5) / 2**32).astype(np.float32)


def uniforms64(seeds: Int, positions: Int, token_ids: Int) -> Float:
    """(r + 1/2) / 2^53 in float64, r the upper 53 of 64 bits of two hashes: in (0, 1).

    r + 1/2 rounds to even where r >= 2^52; what would be 1 is 1 - 2^-53.
    """
    key = key_words(seeds, positions, token_ids)
    bits = (murmur3_x86_32(key, SECOND_SEED) << _SHIFT | murmur3_x86_32(key)) >> np.uint64(11)
    return np.minimum((bits.astype(np.float64) + 0.5) / 2**53, 1 - 2.0**-53)


def gumbels32(u: NDArray[np.float32]) -> Float:
    """The Gumbel variable -ln(-ln(1 - u)) of every float32 ``u`` as vLLM defines it, in float64.

    ln(1 - u) is the series -(u + u^2/2 + ... + u^8/8) below 1/4, which is short of the logarithm
    by up to 2 parts in a million, and otherwise that of the float32 difference, at least 2^-24.
    """
    x = u.astype(np.float64)
    series = np.zeros_like(x)
    for n in range(_SERIES_TERMS, 0, -1):
        series = 1 / n + x * series
    left = np.maximum(np.float32(1) - u, np.float32(2**-24)).astype(np.float64)
    return -np.log(np.where(x < _SERIES_BELOW, x * series, -np.log(left)))


def gumbels64(u: Float) -> Float:
    """The Gumbel variable -ln(-ln u); here the largest ``u`` win."""
    return -np.log(-np.log(u))


def gumbels(
    seeds: Int, positions: Int, token_ids: Int, *, fp64: bool, drafting: bool = False
) -> Float:
    """The noise of every (draw, token), ``[n_draws, n_tokens]``, in the engine's precision."""
    at = positions + DRAFT_OFFSET * drafting
    if fp64:
        return gumbels64(uniforms64(seeds, at, token_ids))
    return gumbels32(uniforms32(seeds, at, token_ids))


def score_errors(z: Float, gumbel: Float, *, fp64: bool) -> Float:
    """Bounds on the error of an engine's score fl(z + gumbel), in nats.

    Both logarithms are off by up to LOG_ULPS, which cover the series too, and the sum is rounded.
    ``z`` is off by up to 2 ulps of float32: a GPU's division by the temperature is approximate.
    """
    half_ulp = 2.0**-53 if fp64 else 2.0**-24
    logarithms = 2 * LOG_ULPS * (1 + np.abs(gumbel))
    return half_ulp * (logarithms + np.abs(z + gumbel)) + 2 * 2.0**-23 * np.abs(z)


def _rotate(value: Bits, by: int) -> Bits:
    """32-bit rotation to the left."""
    return np.asarray((value << np.uint64(by) | value >> np.uint64(32 - by)) & _LOW)
