"""logit_bias: an amount added to the logits of listed tokens."""

import torch

from sampler_kernels._arguments import check_kernel_device, choose_block_size
from sampler_kernels._lists import check_lists, listed_torch, load_listed
from sampler_kernels._rows import DEFAULT_BLOCK_SIZE
from sampler_kernels._stage_arguments import check_table
from sampler_kernels._triton import jit, launch, tl


def apply_logit_bias(
    logits: torch.Tensor,
    slots: torch.Tensor,
    token_ids: torch.Tensor,
    biases: torch.Tensor,
    counts: torch.Tensor,
) -> None:
    """Add the biases that a row's slot lists to its logits, in place, rounded once to fp32.

    Logits are [n_rows, vocab_size] fp32, slots [n_rows] int64, token_ids [n_slots, cap] int32 and
    biases [n_slots, cap] fp32, of which the first counts ([n_slots] int32) are meant. A token id
    may be listed once for a slot: of several biases of one token an arbitrary part is added. Token
    ids and slots out of range are ignored, and all other logits keep their bits; -inf stays.

    Raises:
        TypeError, ValueError: shapes, dtypes or devices do not fit together.
        InterpreterUnsupported: there is no GPU, and Triton's interpreter cannot run.
    """
    slots, counts = _check(logits, slots, token_ids, biases, counts)
    check_kernel_device(logits)
    n_slots, cap = token_ids.shape
    block_size = choose_block_size(None, DEFAULT_BLOCK_SIZE, cap)
    launch(
        _logit_bias_kernel,
        (len(logits), -(-cap // block_size)),
        logits,
        logits.stride(0),
        logits.shape[1],
        slots,
        n_slots,
        token_ids,
        biases,
        cap,
        counts,
        BLOCK_SIZE=block_size,
    )


def apply_logit_bias_torch(
    logits: torch.Tensor,
    slots: torch.Tensor,
    token_ids: torch.Tensor,
    biases: torch.Tensor,
    counts: torch.Tensor,
) -> None:
    """The twin of ``apply_logit_bias`` in plain torch."""
    slots, counts = _check(logits, slots, token_ids, biases, counts)
    listed = listed_torch(logits, slots, token_ids, counts)
    logits[listed.rows, listed.token_ids] += biases[listed.slots, listed.places]


def _check(
    logits: torch.Tensor,
    slots: torch.Tensor,
    token_ids: torch.Tensor,
    biases: torch.Tensor,
    counts: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    slots, counts = check_lists(logits, slots, "token_ids", token_ids, counts)
    n_slots, cap = token_ids.shape
    check_table("biases", biases, (n_slots, cap), (torch.float32,), logits.device)
    return slots, counts


@jit
def _logit_bias_kernel(
    fp32_logits_ptr: tl.tensor,
    row_stride: tl.tensor,
    vocab_size: tl.tensor,
    slots_ptr: tl.tensor,
    n_slots: tl.tensor,
    listed_ids_ptr: tl.tensor,
    biases_ptr: tl.tensor,
    cap: tl.tensor,
    counts_ptr: tl.tensor,
    BLOCK_SIZE: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots_ptr + row)
    if (slot >= 0) & (slot < n_slots):
        places = tl.program_id(1) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
        token_ids = load_listed(places, slot, vocab_size, listed_ids_ptr, cap, counts_ptr)
        listed = token_ids >= 0
        bias = tl.load(biases_ptr + slot * cap + places, mask=listed, other=0.0)
        logits = fp32_logits_ptr + row * row_stride + token_ids
        x = tl.load(logits, mask=listed, other=0.0)
        # Threads of a small tile hold the same lane: all must have read before one writes.
        tl.debug_barrier()
        tl.store(logits, x + bias, mask=listed)
