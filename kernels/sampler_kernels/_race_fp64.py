"""The exponential race of ``_race`` in float64: the same 64 bits, scores to 1e-15.

For whoever wants no rounding of the noise: u is clamped to 1 - 2^-53 instead of 1 - 2^-24. It
costs what float64 costs on the device.
"""

import torch

from sampler_kernels._float64 import exp_fp64, exp_fp64_torch, log_fp64, log_fp64_torch
from sampler_kernels._race import SCORE_RANGE
from sampler_kernels._triton import jit, tl

SCORE_ERROR_FP64 = 1e-15
"""Relative error of a score given u, measured against extended precision (tests/kernels)."""

LARGEST_U_FP64 = 1 - 2.0**-53

_LARGEST_U = tl.constexpr(LARGEST_U_FP64)
_SCORE_RANGE = tl.constexpr(SCORE_RANGE)
_2_POW_32 = tl.constexpr(2.0**32)
_2_POW_MINUS_64 = tl.constexpr(2.0**-64)


@jit
def uniform_fp64(hi: tl.tensor, lo: tl.tensor) -> tl.tensor:
    """(hi 2^32 + lo + 1/2) / 2^64 in fp64, at most 1 - 2^-53, from two uint32 words."""
    u = (hi.to(tl.float64) * _2_POW_32 + (lo.to(tl.float64) + 0.5)) * _2_POW_MINUS_64
    # A literal beside a tensor takes the tensor's type; one handed to tl.minimum would be fp32.
    return tl.where(u < 1.0, u, u - (1.0 - _LARGEST_U))


@jit
def exponential_fp64(u: tl.tensor) -> tl.tensor:
    """-log(1 - u) for u in [2^-65, 1 - 2^-53]."""
    t = 1.0 - u
    lost = (1.0 - t) - u
    return -(log_fp64(t) + lost / t)


@jit
def score_fp64(e: tl.tensor, z: tl.tensor, z_max: tl.tensor) -> tl.tensor:
    """Ringing time e * exp(z_max - z) of fp32 logits; +inf for masked tokens and far ones."""
    d = z_max.to(tl.float64) - z.to(tl.float64)
    reachable = d < _SCORE_RANGE
    return tl.where(reachable, e * exp_fp64(tl.where(reachable, d, 0.0)), float("inf"))


def uniform_fp64_torch(hi: torch.Tensor, lo: torch.Tensor) -> torch.Tensor:
    """Twin of ``uniform_fp64``; the words are uint32 values in int64."""
    return ((hi.double() * 2.0**32 + (lo.double() + 0.5)) * 2.0**-64).clamp(max=LARGEST_U_FP64)


def exponential_fp64_torch(u: torch.Tensor) -> torch.Tensor:
    """Twin of ``exponential_fp64``."""
    t = 1.0 - u
    lost = (1.0 - t) - u
    return -(log_fp64_torch(t) + lost / t)


def inverse_weight_fp64_torch(z: torch.Tensor, z_max: torch.Tensor) -> torch.Tensor:
    """exp(z_max - z) as in ``score_fp64``, which multiplies it with the exponential."""
    d = z_max.double() - z.double()
    reachable = d < SCORE_RANGE
    return torch.where(reachable, exp_fp64_torch(torch.where(reachable, d, 0.0)), torch.inf)
