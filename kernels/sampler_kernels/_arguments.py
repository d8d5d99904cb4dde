"""Refuses tensors that a kernel cannot take, from their metadata alone.

No value of a tensor is read, since that would stop the host until the device is done. Ranges of
top_k, top_p and the rest are the caller's, who has them on the host; here a value out of range has
a defined meaning (see the functions) and never an invalid memory access.
"""

import torch

from sampler_kernels._fixed_point import MAX_VOCAB_SIZE
from sampler_kernels._triton import INTERPRETED

MIN_BLOCK_SIZE = 128
LOGITS_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def check_logits(logits: torch.Tensor) -> torch.Tensor:
    """``logits`` as [batch, vocab_size] of a supported dtype with unit stride along the vocabulary.

    Raises:
        TypeError: another dtype, or no tensor at all.
        ValueError: another shape, or a vocabulary beyond MAX_VOCAB_SIZE.
    """
    if not isinstance(logits, torch.Tensor):
        raise TypeError(
            f"logits are {type(logits).__name__}; a tensor of float32, bfloat16 or float16 is "
            "expected; make one with torch.as_tensor(logits)"
        )
    if logits.dtype not in LOGITS_DTYPES:
        raise TypeError(
            f"logits have dtype {logits.dtype}; float32, bfloat16 and float16 are supported; "
            "convert them with logits.float()"
        )
    if logits.ndim != 2:
        raise ValueError(
            f"logits have shape {tuple(logits.shape)}; [batch, vocab_size] is expected; "
            "one row is logits[None, :]"
        )
    if not 1 <= logits.shape[1] <= MAX_VOCAB_SIZE:
        raise ValueError(
            f"logits have a vocabulary of {logits.shape[1]}; 1 to {MAX_VOCAB_SIZE} is supported, "
            "since larger sums leave the fixed-point range; split or trim the vocabulary"
        )
    return logits if logits.stride(1) == 1 else logits.contiguous()


def check_kernel_device(tensor: torch.Tensor, name: str = "logits") -> None:
    """A compiled kernel needs a GPU tensor.

    Raises:
        ValueError: the tensor is on the CPU and kernels are compiled here.
    """
    if not INTERPRETED and tensor.device.type == "cpu":
        raise ValueError(
            f"{name} are on the CPU but kernels are compiled for a GPU in this process; move them "
            f'with {name}.to("cuda"), set TRITON_INTERPRET=1, or call the torch twin'
        )


def check_vector(
    name: str,
    vector: torch.Tensor,
    length: int,
    dtypes: tuple[torch.dtype, ...],
    device: torch.device,
    owner: str = "row",
) -> torch.Tensor:
    """``vector`` as a contiguous [length] tensor of one of the dtypes on ``device``.

    ``owner`` is what has one value each, for the message.

    Raises:
        TypeError: another dtype, or no tensor at all.
        ValueError: another shape or device.
    """
    allowed = " or ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
    if not isinstance(vector, torch.Tensor) or vector.dtype not in dtypes:
        given = vector.dtype if isinstance(vector, torch.Tensor) else type(vector).__name__
        raise TypeError(
            f"{name} is {given}; a tensor of {allowed} is expected; "
            f"make one with torch.full(({length},), value, dtype=torch.{allowed.split()[0]})"
        )
    if tuple(vector.shape) != (length,):
        raise ValueError(
            f"{name} has shape {tuple(vector.shape)}; [{length}], one value for each {owner}, is "
            f"expected; repeat a single value with {name}.expand({length})"
        )
    if vector.device != device:
        raise ValueError(
            f"{name} is on {vector.device} but logits are on {device}; "
            f"move it with {name}.to(logits.device)"
        )
    return vector.contiguous()


def check_choice(name: str, choice: str, allowed: tuple[str, ...]) -> None:
    """A choice by name is one of those allowed.

    Raises:
        ValueError: it is not.
    """
    if choice not in allowed:
        *others, last = map(repr, allowed)
        raise ValueError(f"{name} is {choice!r}; {', '.join(others)} and {last} are allowed")


def next_power_of_2(n: int) -> int:
    """The least power of two that is at least n, for n >= 1."""
    return 1 << (n - 1).bit_length()


def choose_block_size(block_size: int | None, default: int, vocab_size: int) -> int:
    """The tile: a power of two, by default no wider than the vocabulary needs.

    Raises:
        ValueError: not a power of two from MIN_BLOCK_SIZE to 131072.
    """
    if block_size is None:
        return min(default, max(MIN_BLOCK_SIZE, next_power_of_2(vocab_size)))
    if block_size & (block_size - 1) or not MIN_BLOCK_SIZE <= block_size <= 131072:
        raise ValueError(
            f"block_size is {block_size}; a power of two from {MIN_BLOCK_SIZE} to "
            "131072 is allowed; leave it out for the default"
        )
    return block_size
