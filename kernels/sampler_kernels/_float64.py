"""Logarithm and exponential in float64, the same bits everywhere.

As in ``_fixed_point``: IEEE additions, multiplications and divisions only, so that interpreter,
GPUs and twins agree. For numbers of which a row has a few, and for noise that asks for float64.
Relative errors are below ``LOG_ERROR`` and ``EXP_ERROR`` (measured against decimals;
tests/kernels repeats it).
"""

import torch

from sampler_kernels._triton import jit, tl

LOG_ERROR = 2e-16
EXP_ERROR = 2e-16

LN2_HI = float.fromhex("0x1.62e42feep-1")
"""The 32 leading bits of ln 2: n * LN2_HI is exact for every exponent n of float64."""

LN2_LO = float.fromhex("0x1.a39ef35793c76p-33")
LOG2_E = float.fromhex("0x1.71547652b82fep+0")
SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
LEAST_EXPONENT = -700.0
"""Below it ``exp_fp64`` is zero."""

ATANH_SERIES = tuple(2 / n for n in range(3, 22, 2))
"""2/3 to 2/21: the next term is below 2^-57 of the sum."""

EXP_SERIES = (1 / 2, 1 / 6, 1 / 24, 1 / 120, 1 / 720, 1 / 5040, 1 / 40320, 1 / 362880,
              1 / 3628800, 1 / 39916800, 1 / 479001600, 1 / 6227020800)  # fmt: skip
"""1/2! to 1/13!: the next term is below 2^-57 of the sum."""

_LN2_HI = tl.constexpr(LN2_HI)
_LN2_LO = tl.constexpr(LN2_LO)
_LOG2_E = tl.constexpr(LOG2_E)
_SQRT_HALF_BITS = tl.constexpr(SQRT_HALF_BITS)
_LEAST_EXPONENT = tl.constexpr(LEAST_EXPONENT)
_A3, _A5, _A7, _A9, _A11, _A13, _A15, _A17, _A19, _A21 = (tl.constexpr(c) for c in ATANH_SERIES)
_E2, _E3, _E4, _E5, _E6, _E7, _E8, _E9, _E10, _E11, _E12, _E13 = (
    tl.constexpr(c) for c in EXP_SERIES
)


@jit
def log_fp64(x: tl.tensor) -> tl.tensor:
    """Natural logarithm of positive, normal float64."""
    bits = x.to(tl.int64, bitcast=True)
    exponent = (bits - _SQRT_HALF_BITS) >> 52
    f = (bits - (exponent << 52)).to(tl.float64, bitcast=True) - 1.0
    s = f / (f + 2.0)
    s2 = s * s
    tail = _A13 + s2 * (_A15 + s2 * (_A17 + s2 * (_A19 + s2 * _A21)))
    series = s2 * (_A3 + s2 * (_A5 + s2 * (_A7 + s2 * (_A9 + s2 * (_A11 + s2 * tail)))))
    half = 0.5 * f * f
    n = exponent.to(tl.float64)
    # log(1 + f) = 2 atanh(s) = f - f^2/2 + s (f^2/2 + series): f itself is exact.
    return n * _LN2_HI - ((half - (s * (half + series) + n * _LN2_LO)) - f)


@jit
def exp_fp64(x: tl.tensor) -> tl.tensor:
    """Exponential of float64 up to 700; 0 below -700 and for NaN."""
    counts = x > _LEAST_EXPONENT
    x = tl.where(counts, x, 0.0)
    n = tl.floor(x * _LOG2_E + 0.5)
    r = (x - n * _LN2_HI) - n * _LN2_LO
    tail = _E8 + r * (_E9 + r * (_E10 + r * (_E11 + r * (_E12 + r * _E13))))
    series = _E2 + r * (_E3 + r * (_E4 + r * (_E5 + r * (_E6 + r * (_E7 + r * tail)))))
    power = ((n.to(tl.int64) + 1023) << 52).to(tl.float64, bitcast=True)
    return tl.where(counts, (1.0 + (r + r * r * series)) * power, 0.0)


def log_fp64_torch(x: torch.Tensor) -> torch.Tensor:
    """Twin of ``log_fp64``."""
    bits = x.view(torch.int64)
    exponent = (bits - SQRT_HALF_BITS) >> 52
    f = (bits - (exponent << 52)).view(torch.float64) - 1.0
    s = f / (f + 2.0)
    s2 = s * s
    series = s2 * _horner(s2, ATANH_SERIES)
    half = 0.5 * f * f
    n = exponent.double()
    return n * LN2_HI - ((half - (s * (half + series) + n * LN2_LO)) - f)


def exp_fp64_torch(x: torch.Tensor) -> torch.Tensor:
    """Twin of ``exp_fp64``."""
    counts = x > LEAST_EXPONENT
    x = torch.where(counts, x, 0.0)
    n = torch.floor(x * LOG2_E + 0.5)
    r = (x - n * LN2_HI) - n * LN2_LO
    power = ((n.long() + 1023) << 52).view(torch.float64)
    return torch.where(counts, (1.0 + (r + r * r * _horner(r, EXP_SERIES))) * power, 0.0)


def _horner(x: torch.Tensor, coefficients: tuple[float, ...]) -> torch.Tensor:
    total = torch.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = x * total + coefficient
    return total
