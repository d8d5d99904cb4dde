"""Verifies drafted tokens so that what is emitted has the target's law, whatever was drafted.

``standard`` accepts token by token (Leviathan et al., ICML 2023; Chen et al., 2023), ``block`` the
longest prefix that passes (Sun et al., ICLR 2025, arXiv 2403.10444, algorithm 2). A request's
outcome depends on its rows, its seed and its positions only. The uniforms that accept, the draws
that replace and the draft's own draws are streams of their own (``_philox``). It filters nothing
and knows no request: rows come filtered, each for the drafts before it.
"""

from typing import Literal, NamedTuple, get_args

import torch

from sampler_kernels._accept import acceptance_uniform, block_threshold, cumulative, ratios
from sampler_kernels._arguments import check_choice, check_kernel_device, choose_block_size
from sampler_kernels._drafts import check_drafts, pad
from sampler_kernels._float64 import exp_fp64, log_fp64
from sampler_kernels._philox import DRAW_DOMAIN, RESIDUAL_DOMAIN
from sampler_kernels._redraw import draw_residual, draw_without
from sampler_kernels._residual import prob_scale
from sampler_kernels._rows import DEFAULT_BLOCK_SIZE
from sampler_kernels._triton import jit, launch, tl
from sampler_kernels._verify_torch import accept_torch, last_token_torch

_DRAW_DOMAIN = tl.constexpr(DRAW_DOMAIN)
_RESIDUAL_DOMAIN = tl.constexpr(RESIDUAL_DOMAIN)

VerifyMethod = Literal["standard", "block"]


class Verified(NamedTuple):
    """What a verification emits.

    Attributes:
        token_ids: ``[n_requests, max_drafts + 1]`` int64: the accepted drafts, one token more, and
            -1 behind them. The one more is -1 too where its row is all masked.
        n_accepted: ``[n_requests]`` int64.
    """

    token_ids: torch.Tensor
    n_accepted: torch.Tensor


def verify_drafts(
    target_logits: torch.Tensor,
    draft_token_ids: torch.Tensor,
    draft_logits: torch.Tensor | None,
    row_starts: torch.Tensor,
    seeds: torch.Tensor,
    positions: torch.Tensor,
    *,
    method: VerifyMethod = "standard",
    block_size: int | None = None,
) -> Verified:
    """Accepted drafts of each request and one token more.

    A draft is accepted iff ln p - ln q > ln u, p and q its probabilities in the target's and in the
    draft's row, so never where p is 0, and always where q is 0 and p is not. A rejected one is
    replaced by a draw from max(p - q, 0), or from p without it where the draft has no logits. After
    the last draft a bonus token is drawn from its row. A draft of -1, or out of the vocabulary,
    is a placeholder: it is rejected, its row is drawn from as it is, and none behind it is looked
    at. In ``block`` the prefix with the running ratio r = min(1, r p / q) at its last draft passes
    iff u <= S / (S + 1 - r), S the sum of max(r p - q, 0) over the next row, and iff u <= r where
    no draft is behind it; the longest that passes is kept, then max(r p - q, 0) is drawn from.
    Where rounding leaves nothing of a residual, p itself is drawn from. NaN is masked, +inf is
    FLT_MAX. A greedy row is one with a single unmasked token: only it is emitted.

    Args:
        target_logits: ``[n_rows, vocab_size]``, after temperature and filters, fp32, bf16 or fp16.
        draft_token_ids: ``[n_requests, max_drafts]`` int32; what is behind a request's drafts does
            not matter.
        draft_logits: ``[n_requests, max_drafts, vocab_size]``, what each draft was drawn from,
            after its temperature and filters; None where drafts come without, and count as certain.
        row_starts: ``[n_requests + 1]`` int64. Request i has the rows ``row_starts[i]`` up to
            ``row_starts[i + 1]``: one for each draft, then the bonus token's. A request with no
            row, with more than max_drafts + 1, or beyond n_rows emits nothing.
        seeds: ``[n_requests]`` int64, as in ``gumbel_draw``.
        positions: ``[n_requests]`` int64, of the request's first row; each row has one more.
        method: ``standard`` or ``block``, which accepts more on average.
        block_size: Tile of the sweeps. The result is the same.

    Raises:
        TypeError, ValueError: shapes, dtypes or devices do not fit together, or a name is unknown.
        InterpreterUnsupported: there is no GPU, and Triton's interpreter cannot run.
    """
    check_choice("method", method, get_args(VerifyMethod))
    drafts = check_drafts(
        target_logits, draft_token_ids, draft_logits, row_starts, seeds, positions
    )
    check_kernel_device(drafts.logits)
    n_requests, max_drafts = drafts.token_ids.shape
    device, has_draft_logits = drafts.logits.device, drafts.draft_rows is not None
    in_blocks = method == "block"
    block_size = choose_block_size(block_size, DEFAULT_BLOCK_SIZE, drafts.logits.shape[1])
    rows = drafts.with_sums(block_size)
    of_drafts = ratios(
        drafts, rows, want_residual_mass=in_blocks and has_draft_logits, block_size=block_size
    )
    token_ids = torch.empty((n_requests, max_drafts + 1), dtype=torch.int64, device=device)
    n_accepted = torch.empty(n_requests, dtype=torch.int64, device=device)
    launch(
        _verify_kernel,
        (n_requests,),
        *rows,
        of_drafts.log_p,
        of_drafts.log_ratio,
        of_drafts.n_valid,
        of_drafts.residual_mass,
        drafts.seeds,
        drafts.positions,
        token_ids,
        n_accepted,
        HAS_DRAFT_LOGITS=has_draft_logits,
        BLOCK_METHOD=in_blocks,
        BLOCK_SIZE=block_size,
    )
    return Verified(token_ids, n_accepted)


def verify_drafts_torch(
    target_logits: torch.Tensor,
    draft_token_ids: torch.Tensor,
    draft_logits: torch.Tensor | None,
    row_starts: torch.Tensor,
    seeds: torch.Tensor,
    positions: torch.Tensor,
    *,
    method: VerifyMethod = "standard",
) -> Verified:
    """The twin of ``verify_drafts`` in plain torch: all requests at once, draft after draft."""
    check_choice("method", method, get_args(VerifyMethod))
    drafts = check_drafts(
        target_logits, draft_token_ids, draft_logits, row_starts, seeds, positions
    )
    padded = pad(drafts)
    n_accepted, log_ratio = accept_torch(padded, in_blocks=method == "block")
    last = last_token_torch(padded, n_accepted, log_ratio)
    kept = torch.arange(padded.token_ids.shape[1], device=last.device) < n_accepted[:, None]
    emitted = torch.full((len(last), kept.shape[1] + 1), -1, device=last.device)
    emitted[:, :-1] = padded.token_ids.where(kept, -1)
    emitted.scatter_(1, n_accepted[:, None], last[:, None])
    return Verified(emitted.where(padded.exists[:, None], -1), n_accepted)


@jit
def _verify_kernel(
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
    log_p_ptr: tl.tensor,
    log_ratio_ptr: tl.tensor,
    n_valid_ptr: tl.tensor,
    residual_mass_ptr: tl.tensor,
    seeds_ptr: tl.tensor,
    positions_ptr: tl.tensor,
    token_ids_ptr: tl.tensor,
    n_accepted_ptr: tl.tensor,
    HAS_DRAFT_LOGITS: tl.constexpr,
    BLOCK_METHOD: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
) -> None:
    request = tl.program_id(0).to(tl.int64)
    drafts = request * max_drafts
    n_valid = tl.load(n_valid_ptr + request)
    seed = tl.load(seeds_ptr + request)
    position = tl.load(positions_ptr + request)
    n_accepted = tl.full([], 0, tl.int32)
    running = tl.full([], 0.0, tl.float64)
    kept_ratio = running
    going = n_valid > 0
    for i in range(0, n_valid):
        u = acceptance_uniform(seed, position + i)
        log_ratio = tl.load(log_ratio_ptr + drafts + i)
        if BLOCK_METHOD:
            running = cumulative(running, log_ratio)
            threshold = exp_fp64(running)
            if i + 1 < n_valid:
                if HAS_DRAFT_LOGITS:
                    left = tl.load(residual_mass_ptr + drafts + i + 1)
                else:
                    left = threshold * (1.0 - exp_fp64(tl.load(log_p_ptr + drafts + i + 1)))
                threshold = block_threshold(running, left)
            accepted = u <= threshold
        else:
            going = going & (log_ratio > log_fp64(u))
            accepted = going
        n_accepted = tl.where(accepted, i + 1, n_accepted)
        kept_ratio = tl.where(accepted, running, kept_ratio)
    winner = tl.full([], -1, tl.int32)
    if n_valid >= 0:
        row = tl.load(row_starts_ptr + request) + n_accepted
        row_ptr = logits_ptr + row * row_stride
        z_max = tl.load(z_max_ptr + row)
        here = position + n_accepted
        domain = tl.full([], _DRAW_DOMAIN, tl.uint32)
        if n_accepted < n_valid:
            domain = tl.full([], _RESIDUAL_DOMAIN, tl.uint32)
            place = drafts + n_accepted
            if HAS_DRAFT_LOGITS:
                winner = draw_residual(
                    row_ptr,
                    draft_logits_ptr + place * draft_stride,
                    vocab_size,
                    z_max,
                    prob_scale(kept_ratio, tl.load(log_mass_ptr + row)),
                    tl.load(draft_z_max_ptr + place),
                    prob_scale(tl.full([], 0.0, tl.float64), tl.load(draft_log_mass_ptr + place)),
                    seed,
                    here,
                    domain,
                    BLOCK_SIZE,
                )
            else:
                rejected = tl.load(draft_ids_ptr + place)
                winner = draw_without(
                    row_ptr, vocab_size, z_max, rejected, seed, here, domain, BLOCK_SIZE
                )
        if winner < 0:
            nobody = tl.full([], -1, tl.int32)
            winner = draw_without(
                row_ptr, vocab_size, z_max, nobody, seed, here, domain, BLOCK_SIZE
            )
    for i in range(0, max_drafts + 1):
        token_id = tl.full([], -1, tl.int32)
        if i < n_accepted:
            token_id = tl.load(draft_ids_ptr + drafts + i)
        token_id = tl.where(i == n_accepted, winner, token_id)
        tl.store(token_ids_ptr + request * (max_drafts + 1) + i, token_id.to(tl.int64))
    tl.store(n_accepted_ptr + request, n_accepted.to(tl.int64))
