"""exp(z - z_max) as an integer, so that a sum of weights is the same in every order.

Only IEEE additions and multiplications of fp32 and integer operations are used, never a fused
multiply-add or a device's exp: the interpreter, every GPU and the torch twin get the same bits.
Integer addition is associative, so no mass depends on tile size, batch, split or atomics order.

A weight has the scale 2^40. Its relative error is at most ``WEIGHT_ERROR`` (measured against
float64; tests/kernels repeats it), plus truncations below two units of 2^-40. The weight of the
maximum is exactly 2^40, so a cumulative probability of a row is wrong by at most
``mass_error(vocab_size)``; a kept set that differs from exact arithmetic differs only within it.
"""

import torch

from sampler_kernels._triton import jit, tl

WEIGHT_ERROR = 2e-8
MAX_VOCAB_SIZE = 1 << 18
"""Keeps the sum of a row's weights below 2^58."""

LN2_HI = 0.693145751953125
"""The 15 leading bits of ln 2: n * LN2_HI is exact in fp32 for abs(n) below 512."""

LN2_LO = 1.428606765330187e-06
LOG2_E = 1.4426950216293335
EXP_SERIES = (
    0.5,
    0.1666666716337204,
    0.0416666679084301,
    0.008333333767950535,
    0.0013888889225199819,
    0.00019841270113829523,
    2.4801587642286904e-05,
)
"""1/2! to 1/8!, rounded to fp32."""

LOG_FLOOR = -40.0
"""At and below this distance from the maximum the integer is zero."""

_LN2_HI = tl.constexpr(LN2_HI)
_LN2_LO = tl.constexpr(LN2_LO)
_LOG2_E = tl.constexpr(LOG2_E)
_C2, _C3, _C4, _C5, _C6, _C7, _C8 = (tl.constexpr(c) for c in EXP_SERIES)
_LOG_FLOOR = tl.constexpr(LOG_FLOOR)
_SCALE = tl.constexpr(float(1 << 40))
_ONE = tl.constexpr(1 << 40)


def mass_error(vocab_size: int) -> float:
    """Bound on the error of a cumulative probability of a row, absolute, in [0, 1]."""
    return 2 * WEIGHT_ERROR + vocab_size * 2.0**-39


@jit
def difference(a: tl.tensor, b: tl.tensor) -> tuple[tl.tensor, tl.tensor]:
    """The difference a - b as rounded value and rounding error (Knuth's TwoSum)."""
    d = a - b
    back = d - a
    return d, (a - (d - back)) + ((-b) - back)


@jit
def exp_parts(d: tl.tensor, error: tl.tensor) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """(n, r, t) with exp(d + error) = 2^n (1 + r + t), abs(r) < 0.36, r exact, t small."""
    n = tl.floor(d * _LOG2_E + 0.5)
    r = d - n * _LN2_HI
    rest = error - n * _LN2_LO
    s = r + rest
    series = _C2 + s * (_C3 + s * (_C4 + s * (_C5 + s * (_C6 + s * (_C7 + s * _C8)))))
    return n, r, rest + s * s * series


@jit
def weight(z: tl.tensor, z_max: tl.tensor) -> tl.tensor:
    """int64 weight of a canonical logit; 0 for a masked token."""
    d, error = difference(z, z_max)
    counts = d > _LOG_FLOOR
    n, r, t = exp_parts(tl.where(counts, d, 0.0), tl.where(counts, error, 0.0))
    mantissa = _ONE + (r * _SCALE).to(tl.int64) + (t * _SCALE).to(tl.int64)
    return tl.where(counts, mantissa >> (-n).to(tl.int32).to(tl.int64), 0)


@jit
def target_mass(p: tl.tensor, total: tl.tensor) -> tl.tensor:
    """Least integer t in [1, total] such that a mass before a token is < p*total iff it is < t.

    p is the fp32 value widened to fp64, and p*total is computed in fp64, to 2^-52 of it.
    """
    wanted = tl.ceil(p.to(tl.float64) * total.to(tl.float64)).to(tl.int64)
    return tl.maximum(tl.minimum(wanted, total), 1)


def difference_torch(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Twin of ``difference``."""
    d = a - b
    back = d - a
    return d, (a - (d - back)) + ((-b) - back)


def exp_parts_torch(
    d: torch.Tensor, error: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Twin of ``exp_parts``."""
    n = torch.floor(d * LOG2_E + 0.5)
    r = d - n * LN2_HI
    rest = error - n * LN2_LO
    s = r + rest
    series = torch.full_like(s, EXP_SERIES[-1])
    for coefficient in reversed(EXP_SERIES[:-1]):
        series = s * series + coefficient
    return n, r, rest + s * s * series


def weight_torch(z: torch.Tensor, z_max: torch.Tensor) -> torch.Tensor:
    """Twin of ``weight``."""
    d, error = difference_torch(z, z_max)
    counts = d > LOG_FLOOR
    zero = torch.zeros_like(d)
    n, r, t = exp_parts_torch(torch.where(counts, d, zero), torch.where(counts, error, zero))
    scale = float(1 << 40)
    mantissa = (1 << 40) + (r * scale).long() + (t * scale).long()
    return torch.where(counts, mantissa >> (-n).long(), 0)


def target_mass_torch(p: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
    """Twin of ``target_mass``."""
    wanted = torch.ceil(p.double() * total.double()).long()
    return torch.minimum(wanted, total).clamp(min=1)
