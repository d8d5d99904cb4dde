"""The noise of vLLM's seeded draws, so that they can be predicted token by token.

Facts from vllm 0.31.0 to 0.33.0, v1/worker/gpu/sample/gumbel.py: a MurmurHash3 (x86, 32 bits) of
the words (seed low, seed high, position low, token id) becomes a Gumbel variable, which is added
to the logit; the largest sum wins, the lowest id among equal ones. Drafts are drawn at their
position plus 2^30. Positions 2^32 apart share their noise, and 32 bits end at noise of 22.9.

In fp32 the winning tail is u -> 0, and ln(1 - u) below 1/4 is a series to u^8, short of it by 2e-6
of its size there. In fp64 it is u -> 1, with 53 of the bits of two hashes. vLLM's logarithms are
its device's, within 4 ulp of the right ones; here they are IEEE arithmetic within one, so that a
draw may differ from vLLM's where two sums are a few ulp apart.
"""

import torch

from sampler_kernels._fixed_point import LN2_HI, LN2_LO
from sampler_kernels._float64 import log_fp64, log_fp64_torch
from sampler_kernels._philox import DRAFT_DOMAIN
from sampler_kernels._race import SQRT_HALF_BITS
from sampler_kernels._triton import jit, tl

DRAFT_OFFSET = 1 << 30
HASH_SEED_HI = 0x9E3779B9
"""Hash seed of the upper word of fp64 noise; that of the lower word, and of fp32 noise, is 0."""

LOG_ERROR_FP32 = 1e-7
"""Relative error of ``log_fp32``, measured against float64 (tests/kernels)."""

_MASK = 0xFFFFFFFF
_DRAFT_OFFSET = tl.constexpr(DRAFT_OFFSET)
_DRAFT_DOMAIN = tl.constexpr(DRAFT_DOMAIN)
_HASH_SEED_HI = tl.constexpr(HASH_SEED_HI)
_LN2_HI = tl.constexpr(LN2_HI)
_LN2_LO = tl.constexpr(LN2_LO)
_SQRT_HALF_BITS = tl.constexpr(SQRT_HALF_BITS)
_2_POW_MINUS_16 = tl.constexpr(2.0**-16)
_2_POW_MINUS_24 = tl.constexpr(2.0**-24)
_2_POW_MINUS_32 = tl.constexpr(2.0**-32)
_2_POW_MINUS_53 = tl.constexpr(2.0**-53)


@jit
def murmur_scores(
    z: tl.tensor,
    token_ids: tl.tensor,
    seed: tl.tensor,
    position: tl.tensor,
    DOMAIN: tl.constexpr,
    FP64: tl.constexpr,
) -> tl.tensor:
    """-(z + G), the least of which wins; +inf for masked tokens."""
    if DOMAIN == _DRAFT_DOMAIN:
        position += _DRAFT_OFFSET
    lo = _token_hash(seed, position, token_ids, 0)
    if FP64:
        hi = _token_hash(seed, position, token_ids, _HASH_SEED_HI)
        bits = ((hi.to(tl.int64) << 21) | (lo.to(tl.int64) >> 11)).to(tl.float64)
        u = (bits + 0.5) * _2_POW_MINUS_53
        u = tl.where(u < 1.0, u, u - _2_POW_MINUS_53)
        scores = log_fp64(-log_fp64(u)) - z.to(tl.float64)
    else:
        high = (lo >> 16).to(tl.int32).to(tl.float32)
        low = (lo & 0xFFFF).to(tl.int32).to(tl.float32)
        u = high * _2_POW_MINUS_16 + (low + 0.5) * _2_POW_MINUS_32
        scores = log_fp32(-_log_of_rest(u)) - z
    return scores


@jit
def _mix(h: tl.tensor, word: tl.tensor) -> tl.tensor:
    word *= 0xCC9E2D51
    word = (word << 15) | (word >> 17)
    h ^= word * 0x1B873593
    return ((h << 13) | (h >> 19)) * 5 + 0xE6546B64


@jit
def _token_hash(
    seed: tl.tensor, position: tl.tensor, token_ids: tl.tensor, HASH_SEED: tl.constexpr
) -> tl.tensor:
    """uint32 MurmurHash3 of each token's 16 bytes."""
    h = tl.full([], HASH_SEED, tl.uint32)
    h = _mix(h, (seed & 0xFFFFFFFF).to(tl.uint32))
    h = _mix(h, ((seed >> 32) & 0xFFFFFFFF).to(tl.uint32))
    h = _mix(h, (position & 0xFFFFFFFF).to(tl.uint32))
    h = _mix(h, token_ids.to(tl.uint32)) ^ 16
    h = (h ^ (h >> 16)) * 0x85EBCA6B
    h = (h ^ (h >> 13)) * 0xC2B2AE35
    return h ^ (h >> 16)


@jit
def _log_of_rest(u: tl.tensor) -> tl.tensor:
    """ln(1 - u) as vLLM computes it in fp32."""
    series = 1.0 / 7.0 + u * (1.0 / 8.0)
    series = 1.0 / 5.0 + u * (1.0 / 6.0 + u * series)
    series = 1.0 / 3.0 + u * (1.0 / 4.0 + u * series)
    series = 1.0 + u * (1.0 / 2.0 + u * series)
    return tl.where(u < 0.25, -u * series, log_fp32(tl.maximum(1.0 - u, _2_POW_MINUS_24)))


@jit
def log_fp32(x: tl.tensor) -> tl.tensor:
    """Natural logarithm of positive, normal fp32."""
    bits = x.to(tl.int32, bitcast=True)
    exponent = (bits - _SQRT_HALF_BITS) >> 23
    f = (bits - (exponent << 23)).to(tl.float32, bitcast=True) - 1.0
    s = tl.div_rn(f, f + 2.0)
    s2 = s * s
    series = s2 * (2.0 / 3.0 + s2 * (2.0 / 5.0 + s2 * (2.0 / 7.0 + s2 * (2.0 / 9.0))))
    half = 0.5 * f * f
    n = exponent.to(tl.float32)
    return n * _LN2_HI - ((half - (s * (half + series) + n * _LN2_LO)) - f)


def murmur_scores_torch(
    z: torch.Tensor,
    token_ids: torch.Tensor,
    seeds: torch.Tensor,
    positions: torch.Tensor,
    *,
    domain: int,
    fp64: bool,
) -> torch.Tensor:
    """Twin of ``murmur_scores`` for many draws of one row, ``[n, len(token_ids)]``."""
    if domain == DRAFT_DOMAIN:
        positions = positions + DRAFT_OFFSET
    lo = _token_hash_torch(seeds, positions, token_ids, 0)
    if fp64:
        hi = _token_hash_torch(seeds, positions, token_ids, HASH_SEED_HI)
        u = (((hi << 21) | (lo >> 11)).double() + 0.5) * 2.0**-53
        u = torch.where(u < 1.0, u, u - 2.0**-53)
        return log_fp64_torch(-log_fp64_torch(u)) - z.double()
    u = (lo >> 16).float() * 2.0**-16 + ((lo & 0xFFFF).float() + 0.5) * 2.0**-32
    return log_fp32_torch(-_log_of_rest_torch(u)) - z


def log_fp32_torch(x: torch.Tensor) -> torch.Tensor:
    """Twin of ``log_fp32``."""
    bits = x.view(torch.int32)
    exponent = (bits - SQRT_HALF_BITS) >> 23
    f = (bits - (exponent << 23)).view(torch.float32) - 1.0
    s = f / (f + 2.0)
    s2 = s * s
    series = s2 * (2.0 / 3.0 + s2 * (2.0 / 5.0 + s2 * (2.0 / 7.0 + s2 * (2.0 / 9.0))))
    half = 0.5 * f * f
    n = exponent.float()
    return n * LN2_HI - ((half - (s * (half + series) + n * LN2_LO)) - f)


def _log_of_rest_torch(u: torch.Tensor) -> torch.Tensor:
    series = torch.full_like(u, 1.0 / 8.0)
    for n in range(7, 0, -1):
        series = 1.0 / n + u * series
    return torch.where(u < 0.25, -u * series, log_fp32_torch((1.0 - u).clamp(min=2.0**-24)))


def _mix_torch(h: torch.Tensor, word: torch.Tensor) -> torch.Tensor:
    # Products exceed 64 bits and wrap, which their low 32 bits do not see.
    word = word * 0xCC9E2D51 & _MASK
    word = (word << 15 | word >> 17) & _MASK
    h = h ^ word * 0x1B873593 & _MASK
    return ((h << 13 | h >> 19) & _MASK) * 5 + 0xE6546B64 & _MASK


def _token_hash_torch(
    seeds: torch.Tensor, positions: torch.Tensor, token_ids: torch.Tensor, hash_seed: int
) -> torch.Tensor:
    h = torch.full_like(seeds, hash_seed)
    for word in (seeds, seeds >> 32, positions):
        h = _mix_torch(h, word & _MASK)
    h = _mix_torch(h[:, None], token_ids[None, :]) ^ 16
    h = (h ^ h >> 16) * 0x85EBCA6B & _MASK
    h = (h ^ h >> 13) * 0xC2B2AE35 & _MASK
    return h ^ h >> 16
