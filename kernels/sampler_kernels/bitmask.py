"""A grammar's bitmask: tokens whose bit is 0 are masked. It knows no grammar."""

import torch

from sampler_kernels._arguments import check_kernel_device, check_vector, choose_block_size
from sampler_kernels._rows import DEFAULT_BLOCK_SIZE
from sampler_kernels._stage_arguments import check_editable, check_table
from sampler_kernels._triton import jit, launch, tl

WORD_BITS = 32


def n_words(vocab_size: int) -> int:
    """How many int32 words have a bit for each token."""
    return -(-vocab_size // WORD_BITS)


def apply_bitmask(
    logits: torch.Tensor,
    bitmask: torch.Tensor,
    rows: torch.Tensor,
    *,
    block_size: int | None = None,
) -> None:
    """Set the logits of ``rows`` to -inf where ``bitmask`` has a 0, in place.

    Logits are [n_rows, vocab_size] fp32, bitmask [n_masks, ceil(vocab_size / 32)] int32, rows
    [n_masks] int64. Bit t % 32 of word t // 32 belongs to token t, 1 is allowed; bits beyond the
    vocabulary mean nothing. Rows that are not in ``rows`` and allowed tokens keep their bits, and
    a row number out of range is no row. A row in it twice must be allowed by both masks.

    Raises:
        TypeError, ValueError: shapes, dtypes or devices do not fit together.
        InterpreterUnsupported: there is no GPU, and Triton's interpreter cannot run.
    """
    rows = _check(logits, bitmask, rows)
    check_kernel_device(logits)
    vocab_size = logits.shape[1]
    block_size = choose_block_size(block_size, DEFAULT_BLOCK_SIZE, vocab_size)
    launch(
        _bitmask_kernel,
        (len(rows), -(-vocab_size // block_size)),
        logits,
        logits.stride(0),
        vocab_size,
        len(logits),
        bitmask,
        bitmask.shape[1],
        rows,
        BLOCK_SIZE=block_size,
    )


def apply_bitmask_torch(logits: torch.Tensor, bitmask: torch.Tensor, rows: torch.Tensor) -> None:
    """The twin of ``apply_bitmask`` in plain torch."""
    rows = _check(logits, bitmask, rows)
    known = (rows >= 0) & (rows < len(logits))
    masked = ~unpack_bits_torch(bitmask[known], logits.shape[1])
    # A sum and not an assignment, since a row may be listed twice.
    n_masking = torch.zeros(logits.shape, dtype=torch.int32, device=logits.device)
    logits.masked_fill_(n_masking.index_add_(0, rows[known], masked.int()) > 0, -torch.inf)


def unpack_bits_torch(bitmask: torch.Tensor, vocab_size: int) -> torch.Tensor:
    """Bits as bool ``[n, vocab_size]``."""
    token_ids = torch.arange(vocab_size, device=bitmask.device)
    return (bitmask[:, token_ids // WORD_BITS] >> (token_ids % WORD_BITS) & 1).bool()


def pack_bits_torch(bits: torch.Tensor) -> torch.Tensor:
    """The inverse of ``unpack_bits_torch``; bits beyond the vocabulary are 0."""
    n, vocab_size = bits.shape
    width = n_words(vocab_size)
    padded = torch.nn.functional.pad(bits, (0, width * WORD_BITS - vocab_size))
    shifts = torch.arange(WORD_BITS, device=bits.device, dtype=torch.int32)
    words = padded.view(n, width, WORD_BITS).int() << shifts
    # Bits do not overlap, so the sum is an or; bit 31 is the sign.
    return words.sum(2, dtype=torch.int32)


def _check(logits: torch.Tensor, bitmask: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    check_editable(logits)
    width = n_words(logits.shape[1])
    check_table("bitmask", bitmask, (None, width), (torch.int32,), logits.device)
    return check_vector(
        "rows", rows, len(bitmask), (torch.int64,), logits.device, owner="row of bitmask"
    )


@jit
def load_bits(words_ptr: tl.tensor, token_ids: tl.tensor, mask: tl.tensor) -> tl.tensor:
    """Whether the bit of each token is 1; False where ``mask`` is."""
    words = tl.load(words_ptr + (token_ids >> 5), mask=mask, other=0)
    return ((words >> (token_ids & 31)) & 1) != 0


@jit
def _bitmask_kernel(
    fp32_logits_ptr: tl.tensor,
    row_stride: tl.tensor,
    vocab_size: tl.tensor,
    n_rows: tl.tensor,
    bitmask_ptr: tl.tensor,
    n_words: tl.tensor,
    rows_ptr: tl.tensor,
    BLOCK_SIZE: tl.constexpr,
) -> None:
    mask_index = tl.program_id(0).to(tl.int64)
    row = tl.load(rows_ptr + mask_index)
    if (row >= 0) & (row < n_rows):
        token_ids = tl.program_id(1) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
        inside = token_ids < vocab_size
        allowed = load_bits(bitmask_ptr + mask_index * n_words, token_ids, inside)
        masked = tl.full([BLOCK_SIZE], -float("inf"), tl.float32)
        # No logit is read: allowed ones keep whatever they are.
        tl.store(
            fp32_logits_ptr + row * row_stride + token_ids, masked, mask=inside & (allowed == 0)
        )
