"""What decides whether a draft is accepted: its ratio p / q, its uniform, and block's threshold.

Scalars in fp64, one of each a draft: the same bits everywhere, and no worse than the log-masses.
"""

from dataclasses import dataclass

import torch

from sampler_kernels._drafts import Drafts
from sampler_kernels._float64 import exp_fp64, exp_fp64_torch
from sampler_kernels._keys import load_logits
from sampler_kernels._philox import ACCEPTANCE_DOMAIN, pair_bits_torch, token_bits
from sampler_kernels._race_fp64 import uniform_fp64, uniform_fp64_torch
from sampler_kernels._residual import fixed_prob, prob_scale, residual_prob
from sampler_kernels._triton import jit, launch, tl

_ACCEPTANCE_DOMAIN = tl.constexpr(ACCEPTANCE_DOMAIN)
_2_POW_MINUS_40 = tl.constexpr(2.0**-40)


@dataclass(frozen=True, eq=False)
class Ratios:
    """What is known of each draft before any is accepted.

    Attributes:
        log_p: ``[n_requests, max_drafts]`` fp64, undefined behind n_valid.
        log_ratio: The same of ln p - ln q, or of ln p where drafts come without q.
        n_valid: ``[n_requests]`` int32: drafts before the first placeholder; -1 for a request that
            emits nothing.
        residual_mass: As log_p, the sum of max(r p - q, 0) over the row of each draft but the
            first, r the running ratio before it; undefined where it was not asked for.
    """

    log_p: torch.Tensor
    log_ratio: torch.Tensor
    n_valid: torch.Tensor
    residual_mass: torch.Tensor


def ratios(
    drafts: Drafts,
    rows: tuple[torch.Tensor | int, ...],
    *,
    want_residual_mass: bool,
    block_size: int,
) -> Ratios:
    """The ratios of checked drafts; ``rows`` are ``drafts.with_sums``."""
    n_requests, device = len(drafts.token_ids), drafts.logits.device
    log_p, log_ratio, residual_mass = (
        torch.empty(drafts.token_ids.shape, dtype=torch.float64, device=device) for _ in range(3)
    )
    n_valid = torch.empty(n_requests, dtype=torch.int32, device=device)
    launch(
        _ratio_kernel,
        (n_requests,),
        *rows,
        len(drafts.logits),
        log_p,
        log_ratio,
        n_valid,
        HAS_DRAFT_LOGITS=drafts.draft_rows is not None,
    )
    if want_residual_mass:
        launch(
            _residual_mass_kernel,
            (residual_mass.numel(),),
            *rows,
            log_ratio,
            n_valid,
            residual_mass,
            BLOCK_SIZE=block_size,
        )
    return Ratios(log_p, log_ratio, n_valid, residual_mass)


@jit
def acceptance_uniform(seed: tl.tensor, position: tl.tensor) -> tl.tensor:
    """The fp64 uniform of a position: the bits of token 0 in a domain of its own."""
    domain = tl.full([], _ACCEPTANCE_DOMAIN, tl.uint32)
    hi, lo = token_bits(seed, position, tl.full([], 0, tl.int32), domain)
    return uniform_fp64(hi, lo)


@jit
def cumulative(log_ratio: tl.tensor, step: tl.tensor) -> tl.tensor:
    """The running log-ratio after one step more, at most 0.

    Where p is 0 it is -inf for good, also where q is 0 as well, or was before.
    """
    total = log_ratio + step
    return tl.minimum(tl.where(total == total, total, -float("inf")), 0.0)


@jit
def block_threshold(log_ratio: tl.tensor, residual_mass: tl.tensor) -> tl.tensor:
    """S / (S + 1 - r): below it a uniform accepts the prefix whose running ratio is r.

    Where nothing is left and r is 1 the next row's laws are equal, and accept whatever comes.
    """
    left = residual_mass + (1.0 - exp_fp64(log_ratio))
    return tl.where(left > 0.0, residual_mass / tl.where(left > 0.0, left, 1.0), 1.0)


@jit
def _log_prob_at(
    row_ptr: tl.tensor,
    vocab_size: tl.tensor,
    token_id: tl.tensor,
    z_max: tl.tensor,
    log_mass: tl.tensor,
) -> tl.tensor:
    """Fp64 log-prob of one token of one row; -inf where it is masked."""
    z = load_logits(row_ptr, token_id, vocab_size)
    d = z.to(tl.float64) - z_max.to(tl.float64)
    return tl.where(z > -float("inf"), d - log_mass, -float("inf"))


@jit
def _ratio_kernel(
    logits_ptr: tl.tensor,
    row_stride: tl.tensor,
    vocab_size: tl.tensor,
    z_max_ptr: tl.tensor,
    log_mass_ptr: tl.tensor,
    draft_logits_ptr: tl.tensor,
    draft_stride: tl.tensor,
    draft_z_max_ptr: tl.tensor,
    draft_log_mass_ptr: tl.tensor,
    row_starts_ptr: tl.tensor,
    draft_ids_ptr: tl.tensor,
    max_drafts: tl.tensor,
    n_rows: tl.tensor,
    log_p_ptr: tl.tensor,
    log_ratio_ptr: tl.tensor,
    n_valid_ptr: tl.tensor,
    HAS_DRAFT_LOGITS: tl.constexpr,
) -> None:
    request = tl.program_id(0).to(tl.int64)
    first = tl.load(row_starts_ptr + request)
    last = tl.load(row_starts_ptr + request + 1)
    n_drafts = last - first - 1
    exists = (first >= 0) & (last <= n_rows) & (n_drafts >= 0) & (n_drafts <= max_drafts)
    n_valid = tl.full([], 0, tl.int32)
    for i in range(0, tl.where(exists, n_drafts, 0).to(tl.int32)):
        place = request * max_drafts + i
        token_id = tl.load(draft_ids_ptr + place)
        # A placeholder hides every draft behind it.
        if (n_valid == i) & (token_id >= 0) & (token_id < vocab_size):
            n_valid += 1
            row = first + i
            log_p = _log_prob_at(
                logits_ptr + row * row_stride,
                vocab_size,
                token_id,
                tl.load(z_max_ptr + row),
                tl.load(log_mass_ptr + row),
            )
            log_ratio = log_p
            if HAS_DRAFT_LOGITS:
                log_ratio = log_p - _log_prob_at(
                    draft_logits_ptr + place * draft_stride,
                    vocab_size,
                    token_id,
                    tl.load(draft_z_max_ptr + place),
                    tl.load(draft_log_mass_ptr + place),
                )
            tl.store(log_p_ptr + place, log_p)
            tl.store(log_ratio_ptr + place, log_ratio)
    tl.store(n_valid_ptr + request, tl.where(exists, n_valid, -1))


@jit
def _residual_mass_kernel(
    logits_ptr: tl.tensor,
    row_stride: tl.tensor,
    vocab_size: tl.tensor,
    z_max_ptr: tl.tensor,
    log_mass_ptr: tl.tensor,
    draft_logits_ptr: tl.tensor,
    draft_stride: tl.tensor,
    draft_z_max_ptr: tl.tensor,
    draft_log_mass_ptr: tl.tensor,
    row_starts_ptr: tl.tensor,
    draft_ids_ptr: tl.tensor,  # noqa: ARG001 - the three kernels of a call share their rows
    max_drafts: tl.tensor,
    log_ratio_ptr: tl.tensor,
    n_valid_ptr: tl.tensor,
    residual_mass_ptr: tl.tensor,
    BLOCK_SIZE: tl.constexpr,
) -> None:
    place = tl.program_id(0).to(tl.int64)
    request = place // max_drafts
    step = (place - request * max_drafts).to(tl.int32)
    if (step > 0) & (step < tl.load(n_valid_ptr + request)):
        running = tl.full([], 0.0, tl.float64)
        for i in range(0, step):
            running = cumulative(running, tl.load(log_ratio_ptr + request * max_drafts + i))
        row = tl.load(row_starts_ptr + request) + step
        z_max, draft_z_max = tl.load(z_max_ptr + row), tl.load(draft_z_max_ptr + place)
        scale = prob_scale(running, tl.load(log_mass_ptr + row))
        draft_scale = prob_scale(tl.full([], 0.0, tl.float64), tl.load(draft_log_mass_ptr + place))
        total = tl.full([], 0, tl.int64)
        for start in range(0, vocab_size, BLOCK_SIZE):
            token_ids = start + tl.arange(0, BLOCK_SIZE)
            z = load_logits(logits_ptr + row * row_stride, token_ids, vocab_size)
            draft_z = load_logits(draft_logits_ptr + place * draft_stride, token_ids, vocab_size)
            left = residual_prob(z, z_max, scale, draft_z, draft_z_max, draft_scale)
            total += tl.sum(fixed_prob(left), 0)
        tl.store(residual_mass_ptr + place, total.to(tl.float64) * _2_POW_MINUS_40)


def acceptance_uniform_torch(seeds: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """Twin of ``acceptance_uniform``, ``[n]``."""
    token = torch.zeros(1, dtype=torch.int64, device=seeds.device)
    hi, lo = pair_bits_torch(seeds, positions, token, ACCEPTANCE_DOMAIN)
    return uniform_fp64_torch(hi[:, 0, 0], lo[:, 0, 0])


def cumulative_torch(log_ratio: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
    """Twin of ``cumulative``."""
    total = log_ratio + step
    return torch.where(total.isnan(), -torch.inf, total).clamp(max=0.0)


def block_threshold_torch(log_ratio: torch.Tensor, residual_mass: torch.Tensor) -> torch.Tensor:
    """Twin of ``block_threshold``."""
    left = residual_mass + (1.0 - exp_fp64_torch(log_ratio))
    return torch.where(left > 0.0, residual_mass / torch.where(left > 0.0, left, 1.0), 1.0)
