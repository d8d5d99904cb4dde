"""What a rejected draft leaves of the target's law: max(scale * p - q, 0), token by token.

p and q are fp32 softmax probabilities; equal rows give exactly equal ones, so of equal laws nothing
is left. The sum over a row is of integers, the same for every tile.
"""

import torch

from sampler_kernels._fixed_point import difference, difference_torch, exp_parts, exp_parts_torch
from sampler_kernels._float64 import exp_fp64, exp_fp64_torch
from sampler_kernels._race import SCORE_RANGE
from sampler_kernels._triton import jit, tl

_SCORE_RANGE = tl.constexpr(SCORE_RANGE)
_2_POW_40 = tl.constexpr(2.0**40)


@jit
def relative_prob(z: tl.tensor, z_max: tl.tensor) -> tl.tensor:
    """Fp32 exp(z - z_max); 0 for masked tokens and below -87, the end of fp32."""
    d, error = difference(z, z_max)
    counts = d > -_SCORE_RANGE
    n, r, t = exp_parts(tl.where(counts, d, 0.0), tl.where(counts, error, 0.0))
    power = ((n.to(tl.int32) + 127) << 23).to(tl.float32, bitcast=True)
    return tl.where(counts, (1.0 + (r + t)) * power, 0.0)


@jit
def prob_scale(log_ratio: tl.tensor, log_mass: tl.tensor) -> tl.tensor:
    """Fp32 r / M: what makes relative probabilities those of r times a law; 0 without a law."""
    exists = log_mass > -float("inf")
    return tl.where(exists, exp_fp64(log_ratio - tl.where(exists, log_mass, 0.0)), 0.0).to(
        tl.float32
    )


@jit
def residual_prob(
    z: tl.tensor,
    z_max: tl.tensor,
    scale: tl.tensor,
    draft_z: tl.tensor,
    draft_z_max: tl.tensor,
    draft_scale: tl.tensor,
) -> tl.tensor:
    """max(p - q, 0) in fp32; scales are those of ``prob_scale``."""
    left = relative_prob(z, z_max) * scale - relative_prob(draft_z, draft_z_max) * draft_scale
    return tl.maximum(left, 0.0)


@jit
def fixed_prob(prob: tl.tensor) -> tl.tensor:
    """An fp32 probability as int64 in units of 2^-40, rounded down."""
    return (prob * _2_POW_40).to(tl.int64)


def relative_prob_torch(z: torch.Tensor, z_max: torch.Tensor) -> torch.Tensor:
    """Twin of ``relative_prob``."""
    d, error = difference_torch(z, z_max)
    counts = d > -SCORE_RANGE
    n, r, t = exp_parts_torch(torch.where(counts, d, 0.0), torch.where(counts, error, 0.0))
    power = ((n.int() + 127) << 23).view(torch.float32)
    return torch.where(counts, (1.0 + (r + t)) * power, 0.0)


def prob_scale_torch(log_ratio: torch.Tensor, log_mass: torch.Tensor) -> torch.Tensor:
    """Twin of ``prob_scale``."""
    exists = log_mass > -torch.inf
    scale = exp_fp64_torch(log_ratio - torch.where(exists, log_mass, 0.0))
    return torch.where(exists, scale, 0.0).float()


def residual_prob_torch(
    z: torch.Tensor,
    z_max: torch.Tensor,
    scale: torch.Tensor,
    draft_z: torch.Tensor,
    draft_z_max: torch.Tensor,
    draft_scale: torch.Tensor,
) -> torch.Tensor:
    """Twin of ``residual_prob``."""
    p = relative_prob_torch(z, z_max) * scale
    return (p - relative_prob_torch(draft_z, draft_z_max) * draft_scale).clamp(min=0.0)


def fixed_prob_torch(prob: torch.Tensor) -> torch.Tensor:
    """Twin of ``fixed_prob``."""
    return (prob * 2.0**40).long()
