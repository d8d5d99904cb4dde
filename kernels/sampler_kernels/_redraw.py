"""The draw that ends a verification: plain, without one token, or from a residual.

A plain draw is that of ``gumbel_draw``. A residual p - q is raced with times E / (p - q).
"""

import torch

from sampler_kernels._keys import load_logits
from sampler_kernels._philox import pair_bits_torch, token_bits
from sampler_kernels._race import (
    exponential,
    exponential_torch,
    inverse_weight_torch,
    score,
    uniform,
    uniform_torch,
)
from sampler_kernels._residual import residual_prob
from sampler_kernels._row_race import earlier
from sampler_kernels._triton import jit, tl


@jit
def draw_without(
    row_ptr: tl.tensor,
    vocab_size: tl.tensor,
    z_max: tl.tensor,
    excluded: tl.tensor,
    seed: tl.tensor,
    position: tl.tensor,
    domain: tl.tensor,
    BLOCK_SIZE: tl.constexpr,
) -> tl.tensor:
    """A token of the row's softmax law without one token (-1: none); -1 if nothing is left."""
    best = tl.full([], float("inf"), tl.float32)
    winner = tl.full([], -1, tl.int32)
    for start in range(0, vocab_size, BLOCK_SIZE):
        token_ids = start + tl.arange(0, BLOCK_SIZE)
        z = load_logits(row_ptr, token_ids, vocab_size)
        z = tl.where(token_ids == excluded, -float("inf"), z)
        # Noise costs more than reading: a masked tile has none.
        if tl.max(z, 0) > -float("inf"):
            hi, lo = token_bits(seed, position, token_ids, domain)
            scores = score(exponential(uniform(hi, lo)), z, z_max)
            best, winner = earlier(scores, token_ids, best, winner)
    return winner


@jit
def draw_residual(
    row_ptr: tl.tensor,
    draft_row_ptr: tl.tensor,
    vocab_size: tl.tensor,
    z_max: tl.tensor,
    scale: tl.tensor,
    draft_z_max: tl.tensor,
    draft_scale: tl.tensor,
    seed: tl.tensor,
    position: tl.tensor,
    domain: tl.tensor,
    BLOCK_SIZE: tl.constexpr,
) -> tl.tensor:
    """A token of the law in proportion to max(p - q, 0); -1 if it is 0 everywhere."""
    best = tl.full([], float("inf"), tl.float32)
    winner = tl.full([], -1, tl.int32)
    for start in range(0, vocab_size, BLOCK_SIZE):
        token_ids = start + tl.arange(0, BLOCK_SIZE)
        z = load_logits(row_ptr, token_ids, vocab_size)
        draft_z = load_logits(draft_row_ptr, token_ids, vocab_size)
        left = residual_prob(z, z_max, scale, draft_z, draft_z_max, draft_scale)
        if tl.max(left, 0) > 0.0:
            hi, lo = token_bits(seed, position, token_ids, domain)
            times = tl.div_rn(exponential(uniform(hi, lo)), tl.where(left > 0.0, left, 1.0))
            scores = tl.where(left > 0.0, times, float("inf"))
            best, winner = earlier(scores, token_ids, best, winner)
    return winner


def exponentials_torch(
    seeds: torch.Tensor, positions: torch.Tensor, domain: torch.Tensor, vocab_size: int
) -> torch.Tensor:
    """The fp32 exponentials of every token for draws ``[n]``, ``[n, vocab_size]``."""
    pairs = torch.arange((vocab_size + 1) // 2, device=seeds.device)
    hi, lo = pair_bits_torch(seeds, positions, pairs, domain[:, None])
    return exponential_torch(uniform_torch(hi, lo)).flatten(1)[:, :vocab_size]


def draw_without_torch(
    z: torch.Tensor, z_max: torch.Tensor, excluded: torch.Tensor, e: torch.Tensor
) -> torch.Tensor:
    """Twin of ``draw_without`` for rows ``[n, V]`` and their exponentials."""
    token_ids = torch.arange(z.shape[1], device=z.device)
    z = torch.where(token_ids == excluded[:, None], -torch.inf, z)
    return winners_torch(e * inverse_weight_torch(z, z_max[:, None]))


def draw_residual_torch(left: torch.Tensor, e: torch.Tensor) -> torch.Tensor:
    """Twin of ``draw_residual`` from what is left, ``[n, V]``."""
    possible = left > 0.0
    return winners_torch(torch.where(possible, e / torch.where(possible, left, 1.0), torch.inf))


def winners_torch(scores: torch.Tensor) -> torch.Tensor:
    """The token of the least score in each row, the lowest of equal ones; -1 if all are inf."""
    best = scores.min(1)
    return torch.where(best.values < torch.inf, scores.argmin(1), -1)
