"""allowed_token_ids: all other tokens of a row are masked."""

import torch

from sampler_kernels._arguments import check_kernel_device, choose_block_size
from sampler_kernels._lists import check_lists, listed_torch, load_listed
from sampler_kernels._rows import DEFAULT_BLOCK_SIZE
from sampler_kernels._triton import jit, launch, tl
from sampler_kernels.bitmask import apply_bitmask, n_words


def apply_allowed_token_ids(
    logits: torch.Tensor,
    slots: torch.Tensor,
    token_ids: torch.Tensor,
    counts: torch.Tensor,
    *,
    block_size: int | None = None,
) -> None:
    """Set to -inf what a row's slot does not list, in place.

    Logits are [n_rows, vocab_size] fp32, slots [n_rows] int64, token_ids [n_slots, cap] int32 of
    which the first counts ([n_slots] int32) are meant. Where that is 0 the row is not restricted
    and keeps its bits, and so does a row whose slot is out of range. Token ids out of range are
    ignored: a row that lists nothing else is all -inf. Allowed logits keep their bits.

    Raises:
        TypeError, ValueError: shapes, dtypes or devices do not fit together.
        InterpreterUnsupported: there is no GPU, and Triton's interpreter cannot run.
    """
    slots, counts = check_lists(logits, slots, "token_ids", token_ids, counts)
    check_kernel_device(logits)
    n_rows, vocab_size = logits.shape
    cap = token_ids.shape[1]
    width = n_words(vocab_size)
    allowed = torch.zeros((n_rows, width), dtype=torch.int32, device=logits.device)
    rows = torch.full_like(slots, -1)
    list_block_size = choose_block_size(None, DEFAULT_BLOCK_SIZE, cap)
    launch(
        _allow_kernel,
        (n_rows, -(-cap // list_block_size)),
        slots,
        len(token_ids),
        vocab_size,
        token_ids,
        cap,
        counts,
        allowed,
        width,
        rows,
        BLOCK_SIZE=list_block_size,
    )
    apply_bitmask(logits, allowed, rows, block_size=block_size)


def apply_allowed_token_ids_torch(
    logits: torch.Tensor, slots: torch.Tensor, token_ids: torch.Tensor, counts: torch.Tensor
) -> None:
    """The twin of ``apply_allowed_token_ids`` in plain torch."""
    slots, counts = check_lists(logits, slots, "token_ids", token_ids, counts)
    listed = listed_torch(logits, slots, token_ids, counts)
    masked = listed.any_listed[:, None].expand(logits.shape).clone()
    masked[listed.rows, listed.token_ids] = False
    logits.masked_fill_(masked, -torch.inf)


@jit
def _allow_kernel(
    slots_ptr: tl.tensor,
    n_slots: tl.tensor,
    vocab_size: tl.tensor,
    listed_ids_ptr: tl.tensor,
    cap: tl.tensor,
    counts_ptr: tl.tensor,
    bitmask_ptr: tl.tensor,
    n_words: tl.tensor,
    rows_ptr: tl.tensor,
    BLOCK_SIZE: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots_ptr + row)
    if (slot >= 0) & (slot < n_slots):
        places = tl.program_id(1) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
        token_ids = load_listed(places, slot, vocab_size, listed_ids_ptr, cap, counts_ptr)
        bits = tl.full([BLOCK_SIZE], 1, tl.int32) << (token_ids & 31)
        words_ptr = bitmask_ptr + row * n_words
        tl.atomic_or(words_ptr + (token_ids >> 5), bits, mask=token_ids >= 0)
        if tl.load(counts_ptr + slot) > 0:
            tl.store(rows_ptr + row, row)
