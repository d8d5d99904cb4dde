"""Temperature: logits divided by it, rounded once."""

import torch

from sampler_kernels._arguments import (
    check_kernel_device,
    check_logits,
    check_vector,
    choose_block_size,
)
from sampler_kernels._rows import DEFAULT_BLOCK_SIZE
from sampler_kernels._triton import jit, launch, tl


def apply_temperature(
    logits: torch.Tensor, temperature: torch.Tensor, *, block_size: int | None = None
) -> torch.Tensor:
    """fp32 logits / temperature, IEEE-rounded, -0.0 as +0.0: ``[batch, vocab_size]``.

    Temperature is [batch] fp32. Rows with 0 (greedy: the caller takes the maximum) and 1 pass
    unchanged, as fp32; any other value divides, also one that no request may have. NaN stays NaN.

    Raises:
        TypeError, ValueError: shapes, dtypes or devices do not fit together.
        InterpreterUnsupported: there is no GPU, and Triton's interpreter cannot run.
    """
    logits, temperature = _check(logits, temperature)
    check_kernel_device(logits)
    batch, vocab_size = logits.shape
    scaled = torch.empty((batch, vocab_size), dtype=torch.float32, device=logits.device)
    block_size = choose_block_size(block_size, DEFAULT_BLOCK_SIZE, vocab_size)
    launch(
        _temperature_kernel,
        (batch, -(-vocab_size // block_size)),
        logits,
        logits.stride(0),
        vocab_size,
        temperature,
        scaled,
        BLOCK_SIZE=block_size,
    )
    return scaled


def apply_temperature_torch(logits: torch.Tensor, temperature: torch.Tensor) -> torch.Tensor:
    """The twin of ``apply_temperature`` in plain torch."""
    logits, temperature = _check(logits, temperature)
    x, t = logits.float(), temperature[:, None]
    return torch.where((t == 0) | (t == 1), x, x / t + 0.0)


def _check(logits: torch.Tensor, temperature: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    logits = check_logits(logits)
    return logits, check_vector(
        "temperature", temperature, logits.shape[0], (torch.float32,), logits.device
    )


@jit
def _temperature_kernel(
    logits_ptr: tl.tensor,
    row_stride: tl.tensor,
    vocab_size: tl.tensor,
    temperature_ptr: tl.tensor,
    scaled_ptr: tl.tensor,
    BLOCK_SIZE: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    t = tl.load(temperature_ptr + row)
    token_ids = tl.program_id(1) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    inside = token_ids < vocab_size
    x = tl.load(logits_ptr + row * row_stride + token_ids, mask=inside, other=0.0).to(tl.float32)
    unchanged = (t == 0.0) | (t == 1.0)
    z = tl.where(unchanged, x, tl.div_rn(x, tl.where(unchanged, 1.0, t)) + 0.0)
    tl.store(scaled_ptr + row * vocab_size + token_ids, z, mask=inside)
