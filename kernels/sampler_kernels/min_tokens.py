"""min_tokens: no stop token before an output has that many tokens."""

import torch

from sampler_kernels._arguments import check_kernel_device, choose_block_size, next_power_of_2
from sampler_kernels._lists import check_lists, listed_torch, load_listed
from sampler_kernels._rows import DEFAULT_BLOCK_SIZE
from sampler_kernels._stage_arguments import check_settings
from sampler_kernels._triton import jit, launch, tl
from sampler_kernels.history import History, load_lengths, row_tokens_torch

MOST_STOP_TOKEN_IDS = 4096
"""A slot's stop tokens are held in registers while the row is searched."""


def apply_min_tokens(
    logits: torch.Tensor,
    slots: torch.Tensor,
    history: History,
    min_tokens: torch.Tensor,
    stop_token_ids: torch.Tensor,
    counts: torch.Tensor,
    restore: torch.Tensor,
    *,
    block_size: int | None = None,
) -> None:
    """Mask a slot's stop tokens while its output, drafts included, is too short; in place.

    Logits are [n_rows, vocab_size] fp32, slots [n_rows] int64. A row is too short if it has fewer
    than min_tokens ([n_slots] int32) tokens of output before it, where the drafts before the row
    count. Its stop tokens, the first counts ([n_slots] int32) of stop_token_ids [n_slots, cap]
    int32, then become -inf, whatever they were. Where restore ([n_slots] bool: a grammar rules
    the request) is set and the whole row would be -inf, the stop logits that were finite keep
    their bits, since they are all that the grammar allows; a NaN elsewhere is not -inf. Stop ids
    may repeat; ids and slots out of range are ignored.

    Raises:
        TypeError, ValueError: shapes, dtypes or devices do not fit together, or cap is above
            MOST_STOP_TOKEN_IDS.
        InterpreterUnsupported: there is no GPU, and Triton's interpreter cannot run.
    """
    slots, min_tokens, counts, restore = _check(
        logits, slots, history, min_tokens, stop_token_ids, counts, restore
    )
    check_kernel_device(logits)
    n_slots, cap = stop_token_ids.shape
    launch(
        _min_tokens_kernel,
        (len(logits) if cap else 0,),
        logits,
        logits.stride(0),
        logits.shape[1],
        slots,
        n_slots,
        *history.lengths,
        min_tokens,
        stop_token_ids,
        cap,
        counts,
        restore,
        CAPACITY=next_power_of_2(cap),
        BLOCK_SIZE=choose_block_size(block_size, DEFAULT_BLOCK_SIZE, logits.shape[1]),
    )


def apply_min_tokens_torch(
    logits: torch.Tensor,
    slots: torch.Tensor,
    history: History,
    min_tokens: torch.Tensor,
    stop_token_ids: torch.Tensor,
    counts: torch.Tensor,
    restore: torch.Tensor,
) -> None:
    """The twin of ``apply_min_tokens`` in plain torch."""
    slots, min_tokens, counts, restore = _check(
        logits, slots, history, min_tokens, stop_token_ids, counts, restore
    )
    listed = listed_torch(logits, slots, stop_token_ids, counts)
    before = row_tokens_torch(history, slots)
    n_output = (before.end - before.prompt_len)[listed.rows]
    short = n_output < min_tokens[listed.slots]
    rows, token_ids = listed.rows[short], listed.token_ids[short]
    x = logits[rows, token_ids]
    logits[rows, token_ids] = -torch.inf
    restored = restore[listed.slots[short]] & x.isfinite()
    masked_rows = torch.zeros(len(logits), dtype=torch.bool, device=logits.device)
    masked_rows[rows[restored]] = True
    candidates = masked_rows.nonzero().squeeze(1)
    masked_rows[candidates] = (logits[candidates] == -torch.inf).all(1)
    restored &= masked_rows[rows]
    logits[rows[restored], token_ids[restored]] = x[restored]


def _check(
    logits: torch.Tensor,
    slots: torch.Tensor,
    history: History,
    min_tokens: torch.Tensor,
    stop_token_ids: torch.Tensor,
    counts: torch.Tensor,
    restore: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    n_slots, device = history.n_slots, logits.device
    slots, counts = check_lists(logits, slots, "stop_token_ids", stop_token_ids, counts, n_slots)
    history.check_rows(logits)
    cap = stop_token_ids.shape[1]
    if cap > MOST_STOP_TOKEN_IDS:
        raise ValueError(
            f"stop_token_ids has room for {cap} a slot; at most {MOST_STOP_TOKEN_IDS} is "
            "supported; refuse such a request at admission"
        )
    min_tokens = check_settings("min_tokens", min_tokens, n_slots, torch.int32, device)
    restore = check_settings("restore", restore, n_slots, torch.bool, device)
    return slots, min_tokens, counts, restore


@jit
def _min_tokens_kernel(
    fp32_logits_ptr: tl.tensor,
    row_stride: tl.tensor,
    vocab_size: tl.tensor,
    slots_ptr: tl.tensor,
    n_slots: tl.tensor,
    max_len: tl.tensor,
    prompt_len_ptr: tl.tensor,
    total_len_ptr: tl.tensor,
    max_drafts: tl.tensor,
    n_drafts_ptr: tl.tensor,
    min_tokens_ptr: tl.tensor,
    listed_ids_ptr: tl.tensor,
    cap: tl.tensor,
    counts_ptr: tl.tensor,
    restore_ptr: tl.tensor,
    CAPACITY: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots_ptr + row)
    if (slot >= 0) & (slot < n_slots):
        prompt_len, _, end = load_lengths(
            slot, row, max_len, prompt_len_ptr, total_len_ptr, max_drafts, n_drafts_ptr
        )
        if end - prompt_len < tl.load(min_tokens_ptr + slot):
            places = tl.arange(0, CAPACITY)
            token_ids = load_listed(places, slot, vocab_size, listed_ids_ptr, cap, counts_ptr)
            logits = fp32_logits_ptr + row * row_stride
            x = tl.load(logits + token_ids, mask=token_ids >= 0, other=float("inf"))
            masked = tl.full([CAPACITY], -float("inf"), tl.float32)
            # Other threads hold the same lanes: all must have read before one writes.
            tl.debug_barrier()
            tl.store(logits + token_ids, masked, mask=token_ids >= 0)
            if tl.load(restore_ptr + slot):
                tl.debug_barrier()
                left = tl.zeros([BLOCK_SIZE], tl.int32)
                for start in range(0, vocab_size, BLOCK_SIZE):
                    others = start + tl.arange(0, BLOCK_SIZE)
                    y = tl.load(logits + others, mask=others < vocab_size, other=-float("inf"))
                    left |= (y != -float("inf")).to(tl.int32)
                if tl.max(left, 0) == 0:
                    finite = (x > -float("inf")) & (x < float("inf"))
                    tl.store(logits + token_ids, x, mask=(token_ids >= 0) & finite)
