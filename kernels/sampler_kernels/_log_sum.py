"""Largest logit and log-mass of rows: what a log-prob is measured against.

The mass is the integer sum of ``_fixed_point``, so it is the same for every tile, batch and place
in it, and wrong by ``mass_error(vocab_size)`` of its size at most.
"""

from dataclasses import dataclass

import torch

from sampler_kernels._fixed_point import weight, weight_torch
from sampler_kernels._float64 import log_fp64, log_fp64_torch
from sampler_kernels._keys import canonical_logits_torch, load_logits
from sampler_kernels._triton import jit, launch, tl

_2_POW_MINUS_40 = tl.constexpr(2.0**-40)


@dataclass(frozen=True, eq=False)
class LogSums:
    """The logarithm of sum(exp(z)) of each row in two parts, whose sum would lose the second.

    Attributes:
        z_max: ``[n_rows]`` fp32, or with more axes of rows: the largest canonical logit; -inf
            where all are masked.
        log_mass: The same of fp64 ln sum(exp(z - z_max)), at least 0; -inf where all are masked.
    """

    z_max: torch.Tensor
    log_mass: torch.Tensor

    def log_probs(self, z: torch.Tensor) -> torch.Tensor:
        """Fp64 log-probs of canonical logits ``[n_rows, m]``; -inf where masked."""
        d = z.double() - self.z_max.double()[..., None]
        return torch.where(z > -torch.inf, d - self.log_mass[..., None], -torch.inf)

    def __getitem__(self, rows: tuple[torch.Tensor | slice, ...]) -> "LogSums":
        """The sums of some rows."""
        return LogSums(self.z_max[rows], self.log_mass[rows])


def log_sums(logits: torch.Tensor, *, block_size: int) -> LogSums:
    """The sums of checked logits ``[n_rows, vocab_size]``."""
    n_rows, vocab_size = logits.shape
    z_max = torch.empty(n_rows, dtype=torch.float32, device=logits.device)
    log_mass = torch.empty(n_rows, dtype=torch.float64, device=logits.device)
    launch(
        _log_sum_kernel,
        (n_rows,),
        logits,
        logits.stride(0),
        vocab_size,
        z_max,
        log_mass,
        BLOCK_SIZE=block_size,
    )
    return LogSums(z_max, log_mass)


def log_sums_torch(logits: torch.Tensor) -> LogSums:
    """The twin of ``log_sums``, also of rows that have more axes than one."""
    z = canonical_logits_torch(logits)
    z_max = z.max(-1).values
    mass = weight_torch(z, z_max[..., None]).sum(-1)
    log_mass = log_fp64_torch(mass.clamp(min=1).double() * 2.0**-40)
    return LogSums(z_max, torch.where(mass > 0, log_mass, -torch.inf))


@jit
def _log_sum_kernel(
    logits_ptr: tl.tensor,
    row_stride: tl.tensor,
    vocab_size: tl.tensor,
    z_max_ptr: tl.tensor,
    log_mass_ptr: tl.tensor,
    BLOCK_SIZE: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    row_ptr = logits_ptr + row * row_stride
    lanes = tl.arange(0, BLOCK_SIZE)
    z_max_lanes = tl.full([BLOCK_SIZE], -float("inf"), tl.float32)
    for start in range(0, vocab_size, BLOCK_SIZE):
        z_max_lanes = tl.maximum(z_max_lanes, load_logits(row_ptr, start + lanes, vocab_size))
    z_max = tl.max(z_max_lanes, 0)
    mass_lanes = tl.zeros([BLOCK_SIZE], tl.int64)
    for start in range(0, vocab_size, BLOCK_SIZE):
        mass_lanes += weight(load_logits(row_ptr, start + lanes, vocab_size), z_max)
    mass = tl.sum(mass_lanes, 0)
    log_mass = log_fp64(tl.maximum(mass, 1).to(tl.float64) * _2_POW_MINUS_40)
    tl.store(z_max_ptr + row, z_max)
    tl.store(log_mass_ptr + row, tl.where(mass > 0, log_mass, -float("inf")))
