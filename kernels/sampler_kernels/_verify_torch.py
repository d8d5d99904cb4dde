"""The twin of the verification kernels: all requests at once, each with as many rows as any."""

import torch

from sampler_kernels._accept import (
    acceptance_uniform_torch,
    block_threshold_torch,
    cumulative_torch,
)
from sampler_kernels._drafts import Padded
from sampler_kernels._float64 import exp_fp64_torch, log_fp64_torch
from sampler_kernels._log_sum import LogSums
from sampler_kernels._philox import DRAW_DOMAIN, RESIDUAL_DOMAIN
from sampler_kernels._redraw import draw_residual_torch, draw_without_torch, exponentials_torch
from sampler_kernels._residual import fixed_prob_torch, prob_scale_torch, residual_prob_torch


def accept_torch(padded: Padded, *, in_blocks: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """How many drafts each request keeps, and the log of the ratio that scales its residual."""
    log_p = _log_probs(padded.z[:, :-1], padded.sums[:, :-1], padded.token_ids)
    log_ratio = log_p
    if padded.draft_z is not None and padded.draft_sums is not None:
        log_ratio = log_p - _log_probs(padded.draft_z, padded.draft_sums, padded.token_ids)
    if in_blocks:
        return _accept_block(padded, log_p, log_ratio)
    passes = (padded.token_ids >= 0) & (log_ratio > log_fp64_torch(_uniforms(padded)))
    n_accepted = passes.long().cumprod(1).sum(1)
    return n_accepted, torch.zeros_like(n_accepted, dtype=torch.float64)


def last_token_torch(
    padded: Padded, n_accepted: torch.Tensor, log_ratio: torch.Tensor
) -> torch.Tensor:
    """The token behind the accepted drafts, ``[n]``."""
    max_drafts = padded.token_ids.shape[1]
    replaced = n_accepted < (padded.token_ids >= 0).sum(1)
    z = padded.z[torch.arange(len(padded.z), device=replaced.device), n_accepted]
    z_max = z.max(1).values
    domain = torch.where(replaced, RESIDUAL_DOMAIN, DRAW_DOMAIN)
    e = exponentials_torch(padded.seeds, padded.positions + n_accepted, domain, z.shape[1])
    plain = draw_without_torch(z, z_max, torch.full_like(n_accepted, -1), e)
    if not max_drafts:
        return plain
    rejected = n_accepted.clamp(max=max_drafts - 1)[:, None]
    if padded.draft_z is None:
        redrawn = draw_without_torch(z, z_max, padded.token_ids.gather(1, rejected)[:, 0], e)
    else:
        redrawn = draw_residual_torch(_left(padded, rejected, log_ratio[:, None])[:, 0], e)
    return torch.where(replaced & (redrawn >= 0), redrawn, plain)


def _accept_block(
    padded: Padded, log_p: torch.Tensor, log_ratio: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    n, max_drafts = padded.token_ids.shape
    running = [torch.zeros((n, 1), dtype=torch.float64, device=log_p.device)]
    for j in range(max_drafts):
        running.append(cumulative_torch(running[-1], log_ratio[:, j : j + 1]))
    after_each = torch.cat(running, 1)
    before, after = after_each[:, :-1], after_each[:, 1:]
    steps = torch.arange(max_drafts, device=log_p.device)
    if padded.draft_z is None:
        mass = exp_fp64_torch(before) * (1.0 - exp_fp64_torch(log_p))
    else:
        left = _left(padded, steps.expand(n, max_drafts), before)
        mass = fixed_prob_torch(left).sum(2).double() * 2.0**-40
    valid = padded.token_ids >= 0
    threshold = exp_fp64_torch(after)
    of_next = block_threshold_torch(after[:, :-1], mass[:, 1:])
    threshold[:, :-1] = torch.where(valid[:, 1:], of_next, threshold[:, :-1])
    lengths = torch.where(valid & (_uniforms(padded) <= threshold), steps + 1, 0)
    n_accepted = torch.cat((lengths.new_zeros(n, 1), lengths), 1).max(1).values
    return n_accepted, after_each.gather(1, n_accepted[:, None])[:, 0]


def _uniforms(padded: Padded) -> torch.Tensor:
    n, max_drafts = padded.token_ids.shape
    positions = padded.positions[:, None] + torch.arange(max_drafts, device=padded.z.device)
    seeds = padded.seeds[:, None].expand_as(positions)
    return acceptance_uniform_torch(seeds.flatten(), positions.flatten()).view(n, max_drafts)


def _left(padded: Padded, rows: torch.Tensor, log_ratio: torch.Tensor) -> torch.Tensor:
    """max(r p - q, 0) at the draft rows ``[n, m]`` of each request, ``[n, m, V]``."""
    assert padded.draft_z is not None
    assert padded.draft_sums is not None
    which = torch.arange(len(rows), device=rows.device)[:, None]
    sums, draft_sums = padded.sums[which, rows], padded.draft_sums[which, rows]
    return residual_prob_torch(
        padded.z[which, rows],
        sums.z_max[..., None],
        prob_scale_torch(log_ratio, sums.log_mass)[..., None],
        padded.draft_z[which, rows],
        draft_sums.z_max[..., None],
        prob_scale_torch(torch.zeros_like(log_ratio), draft_sums.log_mass)[..., None],
    )


def _log_probs(z: torch.Tensor, sums: LogSums, token_ids: torch.Tensor) -> torch.Tensor:
    return sums.log_probs(z.gather(2, token_ids.clamp(min=0)[..., None]))[..., 0]
