"""bad_words: the last token of a word is masked where the others have just been emitted."""

import torch

from sampler_kernels._arguments import check_kernel_device, choose_block_size
from sampler_kernels._rows import DEFAULT_BLOCK_SIZE
from sampler_kernels._stage_arguments import (
    check_editable,
    check_settings,
    check_slots,
    check_table,
)
from sampler_kernels._triton import jit, launch, tl
from sampler_kernels.history import (
    History,
    RowTokens,
    load_lengths,
    load_tokens,
    row_tokens_torch,
)


def apply_bad_words(
    logits: torch.Tensor,
    slots: torch.Tensor,
    history: History,
    words: torch.Tensor,
    offsets: torch.Tensor,
    n_words: torch.Tensor,
) -> None:
    """Mask the last token of every word of a row's slot that the row would complete, in place.

    Logits are [n_rows, vocab_size] fp32, slots [n_rows] int64. Word i of the first n_words
    ([n_slots] int32) of a slot is ``words[slot, offsets[slot, i]:offsets[slot, i + 1]]``; words is
    [n_slots, n_tokens] int32 and offsets [n_slots, max_words + 1] int32. A word is completed by
    its last token if the others are the last tokens of the output, in which the drafts before the
    row count and the prompt never does; so a word of one token is always masked. Words that are
    empty or not within the table, ids and slots out of range are ignored.

    Raises:
        TypeError, ValueError: shapes, dtypes or devices do not fit together.
        InterpreterUnsupported: there is no GPU, and Triton's interpreter cannot run.
    """
    slots, n_words = _check(logits, slots, history, words, offsets, n_words)
    check_kernel_device(logits)
    max_words = max(0, offsets.shape[1] - 1)
    block_size = choose_block_size(None, DEFAULT_BLOCK_SIZE, max_words)
    launch(
        _bad_words_kernel,
        (len(logits), -(-max_words // block_size)),
        logits,
        logits.stride(0),
        logits.shape[1],
        slots,
        history.n_slots,
        *history.tokens,
        *history.lengths,
        words,
        words.shape[1],
        offsets,
        max_words,
        n_words,
        BLOCK_SIZE=block_size,
    )


def apply_bad_words_torch(
    logits: torch.Tensor,
    slots: torch.Tensor,
    history: History,
    words: torch.Tensor,
    offsets: torch.Tensor,
    n_words: torch.Tensor,
) -> None:
    """The twin of ``apply_bad_words`` in plain torch; it waits for a device once a word length."""
    slots, n_words = _check(logits, slots, history, words, offsets, n_words)
    if history.n_slots == 0 or offsets.shape[1] < 2:
        return
    before = row_tokens_torch(history, slots)
    rows, finish, n_before = _fitting_words_torch(before, words.shape[1], offsets, n_words)
    word_slots = before.slots[rows]
    matched = torch.ones_like(rows, dtype=torch.bool)
    for back in range(int(n_before.max()) if len(rows) else 0):
        needed = matched & (back < n_before)
        places = torch.where(needed, finish - 2 - back, 0)
        positions = torch.where(needed, before.end[rows] - 1 - back, 0)
        matched &= ~needed | (words[word_slots, places] == before.token_ids[rows, positions])
    rows, token_ids = rows[matched], words[word_slots, finish - 1][matched].long()
    inside = (token_ids >= 0) & (token_ids < logits.shape[1])
    logits[rows[inside], token_ids[inside]] = -torch.inf


def _fitting_words_torch(
    before: RowTokens, n_tokens: int, offsets: torch.Tensor, n_words: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Row, end and number of tokens before the last, of each word that an output has room for."""
    begin, finish = offsets[before.slots, :-1].long(), offsets[before.slots, 1:].long()
    order = torch.arange(begin.shape[1], device=begin.device)
    fits = before.known[:, None] & (order < n_words[before.slots][:, None])
    fits &= (begin >= 0) & (begin < finish) & (finish <= n_tokens)
    fits &= finish - begin - 1 <= (before.end - before.prompt_len)[:, None]
    rows, places = fits.nonzero(as_tuple=True)
    finish = finish[rows, places]
    return rows, finish, finish - begin[rows, places] - 1


def _check(
    logits: torch.Tensor,
    slots: torch.Tensor,
    history: History,
    words: torch.Tensor,
    offsets: torch.Tensor,
    n_words: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    check_editable(logits)
    slots = check_slots(slots, len(logits), logits.device)
    history.check_rows(logits)
    n_slots, device = history.n_slots, logits.device
    check_table("words", words, (n_slots, None), (torch.int32,), device)
    check_table("offsets", offsets, (n_slots, None), (torch.int32,), device)
    n_words = check_settings("n_words", n_words, n_slots, torch.int32, device)
    return slots, n_words


@jit
def _bad_words_kernel(
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
    words_ptr: tl.tensor,
    n_tokens: tl.tensor,
    offsets_ptr: tl.tensor,
    max_words: tl.tensor,
    n_words_ptr: tl.tensor,
    BLOCK_SIZE: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots_ptr + row)
    if (slot >= 0) & (slot < n_slots):
        prompt_len, total_len, end = load_lengths(
            slot, row, max_len, prompt_len_ptr, total_len_ptr, max_drafts, n_drafts_ptr
        )
        order = tl.program_id(1) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
        listed = (order < max_words) & (order < tl.load(n_words_ptr + slot))
        offsets = offsets_ptr + slot * (max_words + 1) + order
        begin = tl.load(offsets, mask=listed, other=0)
        finish = tl.load(offsets + 1, mask=listed, other=0)
        n_before = finish - begin - 1
        matched = listed & (begin >= 0) & (n_before >= 0) & (finish <= n_tokens)
        matched = matched & (n_before <= end - prompt_len)
        words = words_ptr + slot * n_tokens
        back = tl.full([], 0, tl.int32)
        # Ends with the longest match, not with the longest word.
        while tl.max((matched & (back < n_before)).to(tl.int32), 0) > 0:
            needed = matched & (back < n_before)
            expected = tl.load(words + finish - 2 - back, mask=needed, other=-1)
            token_id = load_tokens(
                end - 1 - back, slot, row, total_len, end,
                history_ptr, max_len, drafts_ptr, max_drafts,
            )  # fmt: skip
            matched = matched & ((back >= n_before) | (expected == token_id))
            back += 1
        token_ids = tl.load(words + finish - 1, mask=matched, other=-1)
        banned = (token_ids >= 0) & (token_ids < vocab_size)
        masked = tl.full([BLOCK_SIZE], -float("inf"), tl.float32)
        tl.store(fp32_logits_ptr + row * row_stride + token_ids, masked, mask=banned)
