"""Repetition, frequency and presence penalties, in this order, of tokens that a row has seen.

Engines differ in arithmetic and in which tokens count: both are arguments here.
"""

import torch

from sampler_kernels._arguments import check_kernel_device, choose_block_size
from sampler_kernels._penalise import Penalties, penalise, penalise_torch
from sampler_kernels._recount import Scope, penalise_recounted, recount_torch
from sampler_kernels._rows import DEFAULT_BLOCK_SIZE
from sampler_kernels._stage_arguments import check_editable, check_slots, check_table
from sampler_kernels._triton import jit, launch, tl
from sampler_kernels.bitmask import load_bits, n_words, unpack_bits_torch
from sampler_kernels.history import History, RowTokens, load_lengths, row_tokens_torch


def apply_penalties(
    logits: torch.Tensor,
    slots: torch.Tensor,
    history: History,
    *,
    repetition: torch.Tensor,
    frequency: torch.Tensor,
    presence: torch.Tensor,
    prompt_bitmask: torch.Tensor | None = None,
    output_counts: torch.Tensor | None = None,
    reciprocal: bool = False,
    by_sign: bool = True,
    prompt_in_repetition: bool = True,
    prompt_in_counts: bool = False,
    window: int = 0,
    block_size: int | None = None,
) -> None:
    """Lower the logits of tokens that a row has seen, in place, each operation rounded to fp32.

    Logits are [n_rows, vocab_size] fp32, slots [n_rows] int64. For each token x becomes
    x / repetition if x > 0, else x * repetition, where the token was seen; then
    x - frequency * count; then x - presence, both where count > 0. Drafts before a row were seen
    and count. Tokens that were not seen, rows whose penalties are neutral and rows whose slot is
    out of range keep their bits; NaN stays NaN. (Keskar et al., CTRL, arXiv 1909.05858, with
    transformers' rule for signs; frequency and presence as in OpenAI's API.)

    Args:
        logits: Edited.
        slots: The slot of each row.
        history: Its drafts count; the rest is read only where the state below does not do.
        repetition: ``[n_slots]`` fp32, above 0; 1 is off.
        frequency: ``[n_slots]`` fp32; 0 is off.
        presence: ``[n_slots]`` fp32; 0 is off.
        prompt_bitmask: ``[n_slots, ceil(vocab_size / 32)]`` int32 of ``rebuild_token_counts``.
        output_counts: ``[n_slots, vocab_size]`` int32 of the same, up to date with the history.
        reciprocal: Multiply by fp32(1 / repetition) instead of the division.
        by_sign: False divides all logits, whatever their sign.
        prompt_in_repetition: Tokens of the prompt were seen as far as repetition goes.
        prompt_in_counts: The prompt counts for frequency and presence.
        window: Only so many of the last tokens were seen and count; 0 is all. With a window, or
            with ``prompt_in_counts``, tokens are counted in the history itself and the state is
            not read; the cost grows with the square of their number.
        block_size: Tile of the sweep. The result is the same.

    Raises:
        TypeError, ValueError: shapes, dtypes or devices do not fit together, a negative window.
        InterpreterUnsupported: there is no GPU, and Triton's interpreter cannot run.
    """
    penalties = Penalties(repetition, frequency, presence, reciprocal, by_sign)
    scope = Scope(prompt_in_repetition, prompt_in_counts, window)
    slots, penalties = _check(logits, slots, history, penalties, scope)
    check_kernel_device(logits)
    if scope.recounts:
        penalise_recounted(logits, slots, history, penalties, scope)
        return
    prompt_bitmask, output_counts = _check_state(logits, history, prompt_bitmask, output_counts)
    n_rows, vocab_size = logits.shape
    block_size = choose_block_size(block_size, DEFAULT_BLOCK_SIZE, vocab_size)
    launch(
        _penalties_kernel,
        (n_rows, -(-vocab_size // block_size)),
        logits,
        logits.stride(0),
        vocab_size,
        slots,
        history.n_slots,
        history.drafts,
        *history.lengths,
        prompt_bitmask,
        prompt_bitmask.shape[1],
        output_counts,
        penalties.repetition,
        penalties.frequency,
        penalties.presence,
        PROMPT_IN_REPETITION=prompt_in_repetition,
        RECIPROCAL=reciprocal,
        BY_SIGN=by_sign,
        BLOCK_SIZE=block_size,
    )


def apply_penalties_torch(
    logits: torch.Tensor,
    slots: torch.Tensor,
    history: History,
    *,
    repetition: torch.Tensor,
    frequency: torch.Tensor,
    presence: torch.Tensor,
    prompt_bitmask: torch.Tensor | None = None,
    output_counts: torch.Tensor | None = None,
    reciprocal: bool = False,
    by_sign: bool = True,
    prompt_in_repetition: bool = True,
    prompt_in_counts: bool = False,
    window: int = 0,
) -> None:
    """The twin of ``apply_penalties`` in plain torch; it waits for a device once."""
    penalties = Penalties(repetition, frequency, presence, reciprocal, by_sign)
    scope = Scope(prompt_in_repetition, prompt_in_counts, window)
    slots, penalties = _check(logits, slots, history, penalties, scope)
    if not scope.recounts:
        state = _check_state(logits, history, prompt_bitmask, output_counts)
    if not history.n_slots:
        return
    before = row_tokens_torch(history, slots)
    rows = (before.known & penalties.active[before.slots]).nonzero().squeeze(1)
    before = before.of_rows(rows)
    if scope.recounts:
        repeated, count = recount_torch(before, logits.shape[1], scope)
    else:
        repeated, count = _counts_torch(before, *state, scope)
    logits[rows] = penalise_torch(logits[rows], repeated, count, penalties, before.slots)


def _counts_torch(
    before: RowTokens, prompt_bitmask: torch.Tensor, output_counts: torch.Tensor, scope: Scope
) -> tuple[torch.Tensor, torch.Tensor]:
    count = before.add_counts(
        output_counts[before.slots], before.positions >= before.total_len[:, None]
    )
    repeated = count > 0
    if scope.prompt_in_repetition:
        repeated |= unpack_bits_torch(prompt_bitmask[before.slots], count.shape[1])
    return repeated, count


def _check(
    logits: torch.Tensor,
    slots: torch.Tensor,
    history: History,
    penalties: Penalties,
    scope: Scope,
) -> tuple[torch.Tensor, Penalties]:
    check_editable(logits)
    if scope.window < 0:
        raise ValueError(
            f"window is {scope.window}; 0 (all tokens) or a number of tokens is allowed"
        )
    history.check_rows(logits)
    slots = check_slots(slots, len(logits), logits.device)
    return slots, penalties.checked(history.n_slots, logits.device)


def _check_state(
    logits: torch.Tensor,
    history: History,
    prompt_bitmask: torch.Tensor | None,
    output_counts: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    n_slots, vocab_size, int32 = history.n_slots, logits.shape[1], (torch.int32,)
    bitmask_shape = (n_slots, n_words(vocab_size))
    return (
        check_table("prompt_bitmask", prompt_bitmask, bitmask_shape, int32, logits.device),
        check_table("output_counts", output_counts, (n_slots, vocab_size), int32, logits.device),
    )


@jit
def _penalties_kernel(
    fp32_logits_ptr: tl.tensor,
    row_stride: tl.tensor,
    vocab_size: tl.tensor,
    slots_ptr: tl.tensor,
    n_slots: tl.tensor,
    drafts_ptr: tl.tensor,
    max_len: tl.tensor,
    prompt_len_ptr: tl.tensor,
    total_len_ptr: tl.tensor,
    max_drafts: tl.tensor,
    n_drafts_ptr: tl.tensor,
    bitmask_ptr: tl.tensor,
    n_words: tl.tensor,
    output_counts_ptr: tl.tensor,
    repetition_ptr: tl.tensor,
    frequency_ptr: tl.tensor,
    presence_ptr: tl.tensor,
    PROMPT_IN_REPETITION: tl.constexpr,
    RECIPROCAL: tl.constexpr,
    BY_SIGN: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots_ptr + row)
    if (slot >= 0) & (slot < n_slots):
        repetition = tl.load(repetition_ptr + slot)
        frequency = tl.load(frequency_ptr + slot)
        presence = tl.load(presence_ptr + slot)
        if (repetition != 1.0) | (frequency != 0.0) | (presence != 0.0):
            _, total_len, end = load_lengths(
                slot, row, max_len, prompt_len_ptr, total_len_ptr, max_drafts, n_drafts_ptr
            )
            token_ids = tl.program_id(1) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
            inside = token_ids < vocab_size
            counts = output_counts_ptr + slot * vocab_size + token_ids
            count = tl.load(counts, mask=inside, other=0)
            for i in range(0, end - total_len):
                draft = tl.load(drafts_ptr + row * max_drafts + i)
                count += (token_ids == draft).to(tl.int32)
            repeated = inside & (count > 0)
            if PROMPT_IN_REPETITION:
                repeated = repeated | load_bits(bitmask_ptr + slot * n_words, token_ids, inside)
            # Logits of tokens that were not seen are neither read nor written.
            logits = fp32_logits_ptr + row * row_stride + token_ids
            x = tl.load(logits, mask=repeated, other=0.0)
            y = penalise(x, repeated, count, repetition, frequency, presence, RECIPROCAL, BY_SIGN)
            tl.debug_barrier()
            tl.store(logits, y, mask=repeated)
