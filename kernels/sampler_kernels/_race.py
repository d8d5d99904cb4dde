"""The exponential race that draws a token: the first of independent exponential clocks.

A token with weight exp(z) rings after E / exp(z - z_max), E exponential with mean 1, and the first
to ring has the softmax law (Gumbel-max in another scale, without its cancellation at large
scores). E = -log1p(-u) with u in (0, 1) of 64 bits; small u win, and there fp32 keeps its relative
precision, so rare tokens are drawn as often as they should be: u >= 2^-65, never 0, never 1.

As in ``_fixed_point``: IEEE additions, multiplications and divisions only, the same bits
everywhere. Relative errors, measured against float64 (tests/kernels repeats it): u against its 64
bits below ``UNIFORM_ERROR``, except for the clamp to 1 - 2^-24 (a losing clock, 16.6 against up to
45, once in 2^24); E given u below ``EXPONENTIAL_ERROR``; a score given u below ``SCORE_ERROR``.
Against the 64 bits a score is thus wrong by SCORE_ERROR + UNIFORM_ERROR u / ((1 - u) E) at most.
"""

import torch

from sampler_kernels._fixed_point import (
    LN2_HI,
    LN2_LO,
    difference,
    difference_torch,
    exp_parts,
    exp_parts_torch,
)
from sampler_kernels._triton import jit, tl

UNIFORM_ERROR = 1e-7
EXPONENTIAL_ERROR = 2.5e-7
SCORE_ERROR = 4e-7

SCORE_RANGE = 87.0
"""A token this far below the maximum has an infinite score: exp(87) is the end of fp32, and no
token below 49 can win, since E lies between 2^-65 and 16.7."""

LARGEST_U = 1 - 2.0**-24
SQRT_HALF_BITS = 0x3F3504F3
ATANH_SERIES = (
    0.3333333432674408,
    0.20000000298023224,
    0.1428571492433548,
    0.1111111119389534,
)
"""1/3, 1/5, 1/7, 1/9, rounded to fp32."""

_LN2_HI = tl.constexpr(LN2_HI)
_LN2_LO = tl.constexpr(LN2_LO)
_SCORE_RANGE = tl.constexpr(SCORE_RANGE)
_LARGEST_U = tl.constexpr(LARGEST_U)
_SQRT_HALF_BITS = tl.constexpr(SQRT_HALF_BITS)
_A3, _A5, _A7, _A9 = (tl.constexpr(c) for c in ATANH_SERIES)
_2_POW_MINUS_32 = tl.constexpr(2.0**-32)


@jit
def uniform(hi: tl.tensor, lo: tl.tensor) -> tl.tensor:
    """(hi 2^32 + lo + 1/2) / 2^64 in fp32, at most 1 - 2^-24, from two uint32 words."""
    fraction = (hi & 0xFFFF).to(tl.float32) + (lo.to(tl.float32) + 0.5) * _2_POW_MINUS_32
    u = ((hi >> 16).to(tl.float32) * 65536.0 + fraction) * _2_POW_MINUS_32
    return tl.minimum(u, _LARGEST_U)


@jit
def exponential(u: tl.tensor) -> tl.tensor:
    """-log(1 - u) for u in [2^-65, 1 - 2^-24]."""
    t = 1.0 - u
    bits = t.to(tl.int32, bitcast=True)
    halvings = ((_SQRT_HALF_BITS - 1 - bits) >> 23) + 1
    m = (bits + (halvings << 23)).to(tl.float32, bitcast=True)
    # Near 1, t has lost the low bits of a small u; -u / (2 - u) still has them.
    near = halvings == 0
    s = tl.div_rn(tl.where(near, -u, m - 1.0), tl.where(near, 2.0 - u, m + 1.0))
    s2 = s * s
    log_m = 2.0 * (s + s * s2 * (_A3 + s2 * (_A5 + s2 * (_A7 + s2 * _A9))))
    n = halvings.to(tl.float32)
    return n * _LN2_HI + (n * _LN2_LO - log_m)


@jit
def score(e: tl.tensor, z: tl.tensor, z_max: tl.tensor) -> tl.tensor:
    """Ringing time e * exp(z_max - z); +inf for masked tokens and beyond SCORE_RANGE."""
    d, error = difference(z_max, z)
    reachable = d < _SCORE_RANGE
    n, r, t = exp_parts(tl.where(reachable, d, 0.0), tl.where(reachable, error, 0.0))
    power = ((n.to(tl.int32) + 127) << 23).to(tl.float32, bitcast=True)
    return tl.where(reachable, e * ((1.0 + (r + t)) * power), float("inf"))


def uniform_torch(hi: torch.Tensor, lo: torch.Tensor) -> torch.Tensor:
    """Twin of ``uniform``; the words are uint32 values in int64."""
    fraction = (hi & 0xFFFF).float() + (lo.float() + 0.5) * 2.0**-32
    u = ((hi >> 16).float() * 65536.0 + fraction) * 2.0**-32
    return u.clamp(max=LARGEST_U)


def exponential_torch(u: torch.Tensor) -> torch.Tensor:
    """Twin of ``exponential``."""
    bits = (1.0 - u).view(torch.int32)
    halvings = ((SQRT_HALF_BITS - 1 - bits) >> 23) + 1
    m = (bits + (halvings << 23)).view(torch.float32)
    near = (halvings - 1) >> 31
    s = _select(near, -u, m - 1.0) / _select(near, 2.0 - u, m + 1.0)
    s2 = s * s
    series = torch.full_like(s2, ATANH_SERIES[-1])
    for coefficient in reversed(ATANH_SERIES[:-1]):
        series = s2 * series + coefficient
    log_m = 2.0 * (s + s * s2 * series)
    n = halvings.float()
    return n * LN2_HI + (n * LN2_LO - log_m)


def _select(bits: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """A where all bits are set, b where none is: on a CPU 10 times as fast as torch.where."""
    other = b.view(torch.int32)
    return (((a.view(torch.int32) ^ other) & bits) ^ other).view(torch.float32)


def inverse_weight_torch(z: torch.Tensor, z_max: torch.Tensor) -> torch.Tensor:
    """exp(z_max - z) as in ``score``, which multiplies it with the exponential."""
    d, error = difference_torch(z_max, z)
    reachable = d < SCORE_RANGE
    zero = torch.zeros_like(d)
    n, r, t = exp_parts_torch(torch.where(reachable, d, zero), torch.where(reachable, error, zero))
    power = ((n.int() + 127) << 23).view(torch.float32)
    return torch.where(reachable, (1.0 + (r + t)) * power, torch.inf)
