"""Which tokens each slot's prompt holds, and how often its output holds each.

The state of the penalties: rebuilt from the history when a slot is taken, then one more for each
token that is emitted.
"""

import torch

from sampler_kernels._arguments import check_kernel_device, check_vector, choose_block_size
from sampler_kernels._rows import DEFAULT_BLOCK_SIZE
from sampler_kernels._stage_arguments import check_table
from sampler_kernels._triton import jit, launch, tl
from sampler_kernels.bitmask import n_words, pack_bits_torch
from sampler_kernels.history import History


def rebuild_token_counts(
    history: History,
    slots: torch.Tensor,
    prompt_bitmask: torch.Tensor,
    output_counts: torch.Tensor,
) -> None:
    """Set the state of ``slots`` from their prompt and output, in place; drafts count nothing.

    Slots are [n] int64, each once; those out of range are ignored, and all others keep their
    state. prompt_bitmask is [n_slots, ceil(vocab_size / 32)] int32, bit t % 32 of word t // 32 is
    1 if the prompt holds token t; output_counts is [n_slots, vocab_size] int32. Token ids out of
    range are counted nowhere.

    Raises:
        TypeError, ValueError: shapes, dtypes or devices do not fit together.
        InterpreterUnsupported: there is no GPU, and Triton's interpreter cannot run.
    """
    slots = _check_rebuild(history, slots, prompt_bitmask, output_counts)
    check_kernel_device(output_counts, "output_counts")
    n_slots, vocab_size = output_counts.shape
    block_size = choose_block_size(None, DEFAULT_BLOCK_SIZE, vocab_size)
    launch(
        _clear_kernel,
        (len(slots), -(-vocab_size // block_size)),
        output_counts,
        vocab_size,
        prompt_bitmask,
        prompt_bitmask.shape[1],
        slots,
        n_slots,
        BLOCK_SIZE=block_size,
    )
    max_len = history.token_ids.shape[1]
    block_size = choose_block_size(None, DEFAULT_BLOCK_SIZE, max(1, max_len))
    launch(
        _count_kernel,
        (len(slots), -(-max_len // block_size)),
        output_counts,
        vocab_size,
        prompt_bitmask,
        prompt_bitmask.shape[1],
        slots,
        n_slots,
        history.token_ids,
        max_len,
        history.prompt_len,
        history.total_len,
        BLOCK_SIZE=block_size,
    )


def rebuild_token_counts_torch(
    history: History,
    slots: torch.Tensor,
    prompt_bitmask: torch.Tensor,
    output_counts: torch.Tensor,
) -> None:
    """The twin of ``rebuild_token_counts`` in plain torch."""
    slots = _check_rebuild(history, slots, prompt_bitmask, output_counts)
    n_slots, vocab_size = output_counts.shape
    slots = slots[(slots >= 0) & (slots < n_slots)]
    token_ids = history.token_ids[slots]
    positions = torch.arange(token_ids.shape[1], device=slots.device)
    counted = (token_ids >= 0) & (token_ids < vocab_size)
    counted &= positions < history.total_len[slots][:, None]
    in_prompt = positions < history.prompt_len[slots][:, None]
    in_prompt_of = torch.zeros((len(slots), vocab_size), dtype=torch.bool, device=slots.device)
    rows, places = (counted & in_prompt).nonzero(as_tuple=True)
    in_prompt_of[rows, token_ids[rows, places].long()] = True
    prompt_bitmask[slots] = pack_bits_torch(in_prompt_of)
    output_counts[slots] = 0
    rows, places = (counted & ~in_prompt).nonzero(as_tuple=True)
    _add_torch(output_counts, slots[rows], token_ids[rows, places].long())


def add_output_tokens(
    output_counts: torch.Tensor, slots: torch.Tensor, token_ids: torch.Tensor
) -> None:
    """Count emitted tokens, in place.

    output_counts is [n_slots, vocab_size] int32, slots [n] int64, token_ids [n, m] int32 or int64:
    what each of the slots has emitted, padded with -1. A slot may be there twice; slots and token
    ids out of range are ignored.

    Raises:
        TypeError, ValueError: shapes, dtypes or devices do not fit together.
        InterpreterUnsupported: there is no GPU, and Triton's interpreter cannot run.
    """
    slots = _check_emitted(output_counts, slots, token_ids)
    check_kernel_device(output_counts, "output_counts")
    n_slots, vocab_size = output_counts.shape
    n_tokens = token_ids.numel()
    block_size = choose_block_size(None, DEFAULT_BLOCK_SIZE, max(1, n_tokens))
    launch(
        _add_kernel,
        (-(-n_tokens // block_size),),
        output_counts,
        vocab_size,
        slots,
        n_slots,
        token_ids,
        token_ids.shape[1],
        n_tokens,
        BLOCK_SIZE=block_size,
    )


def add_output_tokens_torch(
    output_counts: torch.Tensor, slots: torch.Tensor, token_ids: torch.Tensor
) -> None:
    """The twin of ``add_output_tokens`` in plain torch."""
    slots = _check_emitted(output_counts, slots, token_ids)
    n_slots, vocab_size = output_counts.shape
    counted = ((slots >= 0) & (slots < n_slots))[:, None]
    counted = counted & (token_ids >= 0) & (token_ids < vocab_size)
    rows, places = counted.nonzero(as_tuple=True)
    _add_torch(output_counts, slots[rows], token_ids[rows, places].long())


def _add_torch(counts: torch.Tensor, slots: torch.Tensor, token_ids: torch.Tensor) -> None:
    one = torch.ones((), dtype=counts.dtype, device=counts.device)
    counts.index_put_((slots, token_ids), one, accumulate=True)


def _check_rebuild(
    history: History,
    slots: torch.Tensor,
    prompt_bitmask: torch.Tensor,
    output_counts: torch.Tensor,
) -> torch.Tensor:
    n_slots, device = history.n_slots, history.token_ids.device
    check_table("output_counts", output_counts, (n_slots, None), (torch.int32,), device)
    width = n_words(output_counts.shape[1])
    check_table("prompt_bitmask", prompt_bitmask, (n_slots, width), (torch.int32,), device)
    n = slots.numel() if isinstance(slots, torch.Tensor) else 1
    return check_vector("slots", slots, n, (torch.int64,), device)


def _check_emitted(
    output_counts: torch.Tensor, slots: torch.Tensor, token_ids: torch.Tensor
) -> torch.Tensor:
    device = getattr(output_counts, "device", torch.device("cpu"))
    check_table("output_counts", output_counts, (None, None), (torch.int32,), device)
    check_table("token_ids", token_ids, (None, None), (torch.int32, torch.int64), device)
    return check_vector("slots", slots, len(token_ids), (torch.int64,), device)


@jit
def _clear_kernel(
    output_counts_ptr: tl.tensor,
    vocab_size: tl.tensor,
    bitmask_ptr: tl.tensor,
    n_words: tl.tensor,
    slots_ptr: tl.tensor,
    n_slots: tl.tensor,
    BLOCK_SIZE: tl.constexpr,
) -> None:
    slot = tl.load(slots_ptr + tl.program_id(0).to(tl.int64))
    if (slot >= 0) & (slot < n_slots):
        columns = tl.program_id(1) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
        zeros = tl.zeros([BLOCK_SIZE], tl.int32)
        tl.store(output_counts_ptr + slot * vocab_size + columns, zeros, mask=columns < vocab_size)
        tl.store(bitmask_ptr + slot * n_words + columns, zeros, mask=columns < n_words)


@jit
def _count_kernel(
    output_counts_ptr: tl.tensor,
    vocab_size: tl.tensor,
    bitmask_ptr: tl.tensor,
    n_words: tl.tensor,
    slots_ptr: tl.tensor,
    n_slots: tl.tensor,
    history_ptr: tl.tensor,
    max_len: tl.tensor,
    prompt_len_ptr: tl.tensor,
    total_len_ptr: tl.tensor,
    BLOCK_SIZE: tl.constexpr,
) -> None:
    slot = tl.load(slots_ptr + tl.program_id(0).to(tl.int64))
    if (slot >= 0) & (slot < n_slots):
        positions = tl.program_id(1) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
        inside = (positions < max_len) & (positions < tl.load(total_len_ptr + slot))
        token_ids = tl.load(history_ptr + slot * max_len + positions, mask=inside, other=-1)
        counted = (token_ids >= 0) & (token_ids < vocab_size)
        prompt_len = tl.load(prompt_len_ptr + slot)
        ones = tl.full([BLOCK_SIZE], 1, tl.int32)
        words_ptr = bitmask_ptr + slot * n_words + (token_ids >> 5)
        tl.atomic_or(words_ptr, ones << (token_ids & 31), mask=counted & (positions < prompt_len))
        counts_ptr = output_counts_ptr + slot * vocab_size + token_ids
        tl.atomic_add(counts_ptr, ones, mask=counted & (positions >= prompt_len))


@jit
def _add_kernel(
    output_counts_ptr: tl.tensor,
    vocab_size: tl.tensor,
    slots_ptr: tl.tensor,
    n_slots: tl.tensor,
    emitted_ptr: tl.tensor,
    n_columns: tl.tensor,
    n_tokens: tl.tensor,
    BLOCK_SIZE: tl.constexpr,
) -> None:
    places = tl.program_id(0).to(tl.int64) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    inside = places < n_tokens
    token_ids = tl.load(emitted_ptr + places, mask=inside, other=-1)
    slot = tl.load(slots_ptr + places // n_columns, mask=inside, other=-1)
    counted = (token_ids >= 0) & (token_ids < vocab_size) & (slot >= 0) & (slot < n_slots)
    ones = tl.full([BLOCK_SIZE], 1, tl.int32)
    tl.atomic_add(output_counts_ptr + slot * vocab_size + token_ids, ones, mask=counted)
