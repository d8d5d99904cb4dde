"""thinking_budget: reasoning that has used up its tokens is closed, token by token."""

import torch

from sampler_kernels._arguments import check_kernel_device, check_vector, choose_block_size
from sampler_kernels._rows import DEFAULT_BLOCK_SIZE
from sampler_kernels._stage_arguments import check_editable, check_settings, check_slots
from sampler_kernels._triton import jit, launch, tl
from sampler_kernels.history import (
    History,
    RowTokens,
    load_lengths,
    load_tokens,
    row_tokens_torch,
)

FORCED_LOGIT = 1e9
"""vLLM's: above every logit that a model gives, and finite, so that no other token is masked."""

_FORCED_LOGIT = tl.constexpr(FORCED_LOGIT)


def apply_thinking_budget(
    logits: torch.Tensor,
    slots: torch.Tensor,
    history: History,
    budgets: torch.Tensor,
    start: torch.Tensor,
    end: torch.Tensor,
    *,
    block_size: int | None = None,
) -> None:
    """Set the next token of the end marker to FORCED_LOGIT where reasoning is too long, in place.

    Logits are [n_rows, vocab_size] fp32, slots [n_rows] int64, budgets [n_slots] int32 (negative:
    no budget), start and end the markers' tokens, [any] int32; an empty marker forces nothing.
    A row's tokens are prompt, output and the drafts before it. If the last start marker there
    begins after the last end marker begins, or there is no end marker, and at least a budget of
    tokens follows the start marker, then the token to come is forced: the one after the longest
    beginning of the end marker, shorter than the whole, with which the row's tokens end. All
    other logits keep their bits, and so do those of rows whose slot is out of range, or where the
    forced token is outside the vocabulary. (vLLM, v1/worker/gpu/sample/thinking_budget.py, with
    one marker as natural and as forced end.)

    Raises:
        TypeError, ValueError: shapes, dtypes or devices do not fit together.
        InterpreterUnsupported: there is no GPU, and Triton's interpreter cannot run.
    """
    slots, budgets, start, end = _check(logits, slots, history, budgets, start, end)
    check_kernel_device(logits)
    launch(
        _thinking_budget_kernel,
        (len(logits) if _can_reason(history, start, end) else 0,),
        logits,
        logits.stride(0),
        logits.shape[1],
        slots,
        history.n_slots,
        *history.tokens,
        *history.lengths,
        budgets,
        start,
        len(start),
        end,
        len(end),
        BLOCK_SIZE=choose_block_size(block_size, DEFAULT_BLOCK_SIZE, max(1, history.width)),
    )


def apply_thinking_budget_torch(
    logits: torch.Tensor,
    slots: torch.Tensor,
    history: History,
    budgets: torch.Tensor,
    start: torch.Tensor,
    end: torch.Tensor,
) -> None:
    """The twin of ``apply_thinking_budget`` in plain torch."""
    slots, budgets, start, end = _check(logits, slots, history, budgets, start, end)
    if not _can_reason(history, start, end):
        return
    before = row_tokens_torch(history, slots)
    budget = budgets[before.slots]
    last_start = _last_begin_torch(before, start)
    forced = before.known & (budget >= 0) & (last_start >= 0)
    forced &= last_start > _last_begin_torch(before, end)
    forced &= before.end - last_start - len(start) >= budget
    token_ids = end[_n_emitted_torch(before, end)].long()
    rows = (forced & (token_ids >= 0) & (token_ids < logits.shape[1])).nonzero().squeeze(1)
    logits[rows, token_ids[rows]] = FORCED_LOGIT


def _can_reason(history: History, start: torch.Tensor, end: torch.Tensor) -> bool:
    """Whether there is room for a start marker, and an end marker to force."""
    return history.n_slots > 0 and 0 < len(start) <= history.width and len(end) > 0


def _last_begin_torch(before: RowTokens, marker: torch.Tensor) -> torch.Tensor:
    """Where the last whole marker begins in each row, ``[n_rows]``; -1 if there is none."""
    if before.token_ids.shape[1] < len(marker):
        return torch.full_like(before.end, -1)
    matched = (before.token_ids.unfold(1, len(marker), 1) == marker).all(2)
    begins = torch.arange(matched.shape[1], device=marker.device)
    matched &= begins + len(marker) <= before.end[:, None]
    return torch.where(matched, begins, -1).amax(1)


def _n_emitted_torch(before: RowTokens, marker: torch.Tensor) -> torch.Tensor:
    """Length of the longest proper beginning of the marker that each row ends with."""
    n_emitted = torch.zeros_like(before.end)
    for length in range(1, min(len(marker), before.token_ids.shape[1] + 1)):
        ending = before.end[:, None] - length + torch.arange(length, device=marker.device)
        tokens = before.token_ids.gather(1, ending.clamp(min=0))
        matched = (tokens == marker[:length]).all(1) & (length <= before.end)
        n_emitted[matched] = length
    return n_emitted


def _check(
    logits: torch.Tensor,
    slots: torch.Tensor,
    history: History,
    budgets: torch.Tensor,
    start: torch.Tensor,
    end: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    check_editable(logits)
    device = logits.device
    slots = check_slots(slots, len(logits), device)
    history.check_rows(logits)
    budgets = check_settings("budgets", budgets, history.n_slots, torch.int32, device)
    start, end = _check_marker("start", start, device), _check_marker("end", end, device)
    return slots, budgets, start, end


def _check_marker(name: str, marker: torch.Tensor, device: torch.device) -> torch.Tensor:
    length = marker.numel() if isinstance(marker, torch.Tensor) else 1
    return check_vector(name, marker, length, (torch.int32,), device, owner="token of the marker")


@jit
def _begins(
    marker_ptr: tl.tensor,
    marker_len: tl.tensor,
    positions: tl.tensor,
    slot: tl.tensor,
    row: tl.tensor,
    total_len: tl.tensor,
    n_tokens: tl.tensor,
    history_ptr: tl.tensor,
    max_len: tl.tensor,
    drafts_ptr: tl.tensor,
    max_drafts: tl.tensor,
) -> tl.tensor:
    """Whether a whole marker begins at each position."""
    matched = positions + marker_len <= n_tokens
    for i in range(0, marker_len):
        token_ids = load_tokens(
            positions + i, slot, row, total_len, n_tokens,
            history_ptr, max_len, drafts_ptr, max_drafts,
        )  # fmt: skip
        matched = matched & (token_ids == tl.load(marker_ptr + i))
    return matched


@jit
def _n_emitted(
    marker_ptr: tl.tensor,
    marker_len: tl.tensor,
    lanes: tl.tensor,
    slot: tl.tensor,
    row: tl.tensor,
    total_len: tl.tensor,
    n_tokens: tl.tensor,
    history_ptr: tl.tensor,
    max_len: tl.tensor,
    drafts_ptr: tl.tensor,
    max_drafts: tl.tensor,
    BLOCK_SIZE: tl.constexpr,
) -> tl.tensor:
    """Length of the longest proper beginning of the marker that the row ends with."""
    n_emitted = tl.full([], 0, tl.int32)
    for first in range(1, marker_len, BLOCK_SIZE):
        length = first + lanes
        matched = (length < marker_len) & (length <= n_tokens)
        i = tl.full([], 0, tl.int32)
        # Ends with the longest match, not with the marker.
        while tl.max((matched & (i < length)).to(tl.int32), 0) > 0:
            token_ids = load_tokens(
                n_tokens - length + i, slot, row, total_len, n_tokens,
                history_ptr, max_len, drafts_ptr, max_drafts,
            )  # fmt: skip
            matched = matched & ((i >= length) | (token_ids == tl.load(marker_ptr + i)))
            i += 1
        n_emitted = tl.maximum(n_emitted, tl.max(tl.where(matched, length, 0), 0))
    return n_emitted


@jit
def _thinking_budget_kernel(
    fp32_logits_ptr: tl.tensor,
    row_stride: tl.tensor,
    vocab_size: tl.tensor,
    slots_ptr: tl.tensor,
    n_slots: tl.tensor,
    history_ptr: tl.tensor,
    drafts_ptr: tl.tensor,
    max_len: tl.tensor,
    prompt_len_ptr: tl.tensor,
    total_len_ptr: tl.tensor,
    max_drafts: tl.tensor,
    n_drafts_ptr: tl.tensor,
    budgets_ptr: tl.tensor,
    start_ptr: tl.tensor,
    start_len: tl.tensor,
    end_ptr: tl.tensor,
    end_len: tl.tensor,
    BLOCK_SIZE: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots_ptr + row)
    if (slot >= 0) & (slot < n_slots):
        budget = tl.load(budgets_ptr + slot)
        if budget >= 0:
            _, total_len, n_tokens = load_lengths(
                slot, row, max_len, prompt_len_ptr, total_len_ptr, max_drafts, n_drafts_ptr
            )
            lanes = tl.arange(0, BLOCK_SIZE)
            last_start = tl.full([], -1, tl.int32)
            last_end = tl.full([], -1, tl.int32)
            high = n_tokens
            # Backwards, to the first tile with a marker: only the order of the two matters then.
            while (high > 0) & (last_start < 0) & (last_end < 0):
                low = tl.maximum(high - BLOCK_SIZE, 0)
                positions = low + lanes
                started = _begins(
                    start_ptr, start_len, positions, slot, row, total_len, n_tokens,
                    history_ptr, max_len, drafts_ptr, max_drafts,
                )  # fmt: skip
                ended = _begins(
                    end_ptr, end_len, positions, slot, row, total_len, n_tokens,
                    history_ptr, max_len, drafts_ptr, max_drafts,
                )  # fmt: skip
                last_start = tl.max(tl.where(started, positions, -1), 0)
                last_end = tl.max(tl.where(ended, positions, -1), 0)
                high = low
            too_long = n_tokens - last_start - start_len >= budget
            if (last_start >= 0) & (last_start > last_end) & too_long:
                n_emitted = _n_emitted(
                    end_ptr, end_len, lanes, slot, row, total_len, n_tokens,
                    history_ptr, max_len, drafts_ptr, max_drafts, BLOCK_SIZE,
                )  # fmt: skip
                token_id = tl.load(end_ptr + n_emitted)
                if (token_id >= 0) & (token_id < vocab_size):
                    tl.store(fp32_logits_ptr + row * row_stride + token_id, _FORCED_LOGIT)
