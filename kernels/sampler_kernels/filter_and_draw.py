"""Filters and draws without writing masked logits: the same tokens as filtering, then drawing.

A row with few unmasked tokens is decided and drawn by one kernel on chip; of a larger row the cut
is found first, and the race runs over the tokens inside it. It knows no request.
"""

from dataclasses import dataclass

import torch

from sampler_kernels._arguments import check_kernel_device, choose_block_size
from sampler_kernels._compact import decide_compact
from sampler_kernels._keys import logit_of_key
from sampler_kernels._noise import Noise, noise_number
from sampler_kernels._philox import DRAW_DOMAIN
from sampler_kernels._radix import radix_top_k, radix_top_p
from sampler_kernels._row_race import race_row
from sampler_kernels._rows import (
    COMPACT,
    CUT_KEY,
    DEFAULT_BLOCK_SIZE,
    N_FINITE,
    PATH,
    ROW_FIELDS,
    TIE_ID,
    Z_MAX_KEY,
    scan_rows,
)
from sampler_kernels._triton import jit, launch, tl
from sampler_kernels.gumbel import DRAW_BLOCK_SIZE, check_draws, gumbel_draw_torch
from sampler_kernels.top_k_top_p import (
    MinPArithmetic,
    Ties,
    apply_filters_torch,
    check_filters,
)


@dataclass(frozen=True, eq=False)
class DrawResult:
    """What was drawn, and from what.

    Attributes:
        token_ids: ``[n]`` int64; -1 where the row is all masked or there is no such row.
        n_kept: ``[n]`` int64: tokens that the filters left of the draw's row; 0 where there is
            nothing to draw.
        mask: ``[n, vocab_size]`` bool, the kept tokens, or None where they were not asked for.
    """

    token_ids: torch.Tensor
    n_kept: torch.Tensor
    mask: torch.Tensor | None


def filter_and_draw(
    logits: torch.Tensor,
    seeds: torch.Tensor,
    positions: torch.Tensor,
    rows: torch.Tensor | None = None,
    *,
    top_k: torch.Tensor | None = None,
    top_p: torch.Tensor | None = None,
    min_p: torch.Tensor | None = None,
    ties: Ties = "by_id",
    min_p_arithmetic: MinPArithmetic = "float64",
    noise: Noise = "philox",
    domain: int = DRAW_DOMAIN,
    return_mask: bool = False,
    block_size: int | None = None,
) -> DrawResult:
    """``gumbel_draw`` of what ``apply_filters`` keeps, token for token, and no logits written.

    Logits are [n_rows, vocab_size] after temperature; filters are [n_rows], one value a row; seeds,
    positions and rows are [n], as in ``gumbel_draw``. See both functions for every argument.

    Raises:
        TypeError, ValueError: shapes, dtypes or devices do not fit together, or a name is unknown.
        InterpreterUnsupported: there is no GPU, and Triton's interpreter cannot run.
    """
    number = noise_number(noise, domain)
    logits, top_k, top_p, log_min_p = check_filters(
        logits, top_k, top_p, min_p, ties, min_p_arithmetic
    )
    logits, seeds, positions, rows = check_draws(logits, seeds, positions, rows)
    check_kernel_device(logits)
    n_rows, vocab_size = logits.shape
    keep_all = ties == "keep_all"
    sweep = choose_block_size(block_size, DEFAULT_BLOCK_SIZE, vocab_size)
    scanned = scan_rows(
        logits, log_min_p, block_size=sweep, fp32_min_p=min_p_arithmetic == "float32"
    )
    radix_top_k(logits, scanned, top_k, keep_all=keep_all, block_size=sweep)
    radix_top_p(logits, scanned, top_p, keep_all=keep_all, block_size=sweep)
    token_ids, n_kept = torch.empty_like(seeds), torch.empty_like(seeds)
    mask = torch.zeros(
        (len(seeds), vocab_size if return_mask else 0), dtype=torch.int8, device=logits.device
    )
    launch(
        _filter_and_draw_kernel,
        seeds.shape,
        logits,
        logits.stride(0),
        vocab_size,
        n_rows,
        scanned.kept_logits,
        scanned.kept_ids,
        top_k,
        top_p,
        scanned.state,
        rows,
        seeds,
        positions,
        token_ids,
        n_kept,
        mask,
        KEEP_ALL=keep_all,
        WANT_MASK=return_mask,
        NOISE=number,
        DOMAIN=domain,
        CAPACITY=scanned.capacity,
        BLOCK_SIZE=choose_block_size(block_size, DRAW_BLOCK_SIZE, vocab_size),
    )
    return DrawResult(token_ids, n_kept, mask.bool() if return_mask else None)


def filter_and_draw_torch(
    logits: torch.Tensor,
    seeds: torch.Tensor,
    positions: torch.Tensor,
    rows: torch.Tensor | None = None,
    *,
    top_k: torch.Tensor | None = None,
    top_p: torch.Tensor | None = None,
    min_p: torch.Tensor | None = None,
    ties: Ties = "by_id",
    min_p_arithmetic: MinPArithmetic = "float64",
    noise: Noise = "philox",
    domain: int = DRAW_DOMAIN,
    return_mask: bool = False,
) -> DrawResult:
    """The twin of ``filter_and_draw`` in plain torch: the twins of the filters and of the draw."""
    logits, seeds, positions, rows = check_draws(logits, seeds, positions, rows)
    filtered = apply_filters_torch(
        logits,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        ties=ties,
        min_p_arithmetic=min_p_arithmetic,
    )
    token_ids = gumbel_draw_torch(
        filtered.logits, seeds, positions, rows, noise=noise, domain=domain
    )
    drawn = token_ids >= 0
    row = rows.where(drawn, 0)
    mask = (filtered.logits > -torch.inf)[row] & drawn[:, None] if return_mask else None
    return DrawResult(token_ids, filtered.n_kept[row].where(drawn, 0), mask)


@jit
def _filter_and_draw_kernel(
    logits_ptr: tl.tensor,
    row_stride: tl.tensor,
    vocab_size: tl.tensor,
    n_rows: tl.tensor,
    kept_logits_ptr: tl.tensor,
    kept_ids_ptr: tl.tensor,
    top_k_ptr: tl.tensor,
    top_p_ptr: tl.tensor,
    state_ptr: tl.tensor,
    rows_ptr: tl.tensor,
    seeds_ptr: tl.tensor,
    positions_ptr: tl.tensor,
    token_ids_ptr: tl.tensor,
    n_kept_ptr: tl.tensor,
    mask_ptr: tl.tensor,
    KEEP_ALL: tl.constexpr,
    WANT_MASK: tl.constexpr,
    NOISE: tl.constexpr,
    DOMAIN: tl.constexpr,
    CAPACITY: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
) -> None:
    draw = tl.program_id(0).to(tl.int64)
    row = tl.load(rows_ptr + draw)
    winner = tl.full([], -1, tl.int32)
    n_kept = tl.full([], 0, tl.int32)
    if (row >= 0) & (row < n_rows):
        state = state_ptr + row * ROW_FIELDS
        compact = tl.load(state + PATH) == COMPACT
        n_finite = tl.load(state + N_FINITE)
        z_max = logit_of_key(tl.load(state + Z_MAX_KEY).to(tl.uint32))
        cut_key = tl.load(state + CUT_KEY).to(tl.uint32)
        tie_id = tl.load(state + TIE_ID).to(tl.int32)
        if compact & (n_finite > 0):
            cut_key, tie_id = decide_compact(
                kept_logits_ptr + row * CAPACITY,
                kept_ids_ptr + row * CAPACITY,
                n_finite,
                z_max,
                tl.load(top_k_ptr + row),
                tl.load(top_p_ptr + row),
                cut_key,
                tie_id,
                KEEP_ALL,
                CAPACITY,
            )
        winner, n_kept = race_row(
            logits_ptr + row * row_stride,
            kept_logits_ptr + row * CAPACITY,
            kept_ids_ptr + row * CAPACITY,
            mask_ptr + draw * vocab_size,
            compact,
            tl.where(compact, n_finite.to(tl.int32), vocab_size),
            z_max,
            cut_key,
            tie_id,
            tl.load(seeds_ptr + draw),
            tl.load(positions_ptr + draw),
            WANT_MASK,
            NOISE,
            DOMAIN,
            BLOCK_SIZE,
        )
    tl.store(token_ids_ptr + draw, winner.to(tl.int64))
    tl.store(n_kept_ptr + draw, n_kept.to(tl.int64))
