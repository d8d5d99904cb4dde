"""Refuses what a stage before the filters cannot take, from metadata alone.

A stage edits fp32 logits in place and finds a row's settings by its slot: vectors hold one value
for each slot, tables one row for each slot. A slot, token id or length out of range has a defined
meaning in every stage and is no matter of this file.
"""

import torch

from sampler_kernels._arguments import check_logits, check_vector


def check_editable(logits: torch.Tensor) -> None:
    """Logits must be fp32 [n_rows, vocab_size] that can be edited where they are.

    Raises:
        TypeError: another dtype, or no tensor at all.
        ValueError: another shape, a vocabulary stride, or rows that share memory.
    """
    viewed = check_logits(logits)
    if logits.dtype != torch.float32:
        raise TypeError(
            f"logits have dtype {logits.dtype}; float32 is edited in place; "
            "convert them once with logits.float()"
        )
    if viewed is not logits:
        raise ValueError(
            f"logits have stride {logits.stride(1)} along the vocabulary; 1 is expected, since "
            "they are edited in place; make a copy with logits.contiguous()"
        )
    if logits.shape[0] > 1 and logits.stride(0) < logits.shape[1]:
        raise ValueError(
            f"logits have a row stride of {logits.stride(0)} for a vocabulary of "
            f"{logits.shape[1]}, so rows share memory; make a copy with logits.clone()"
        )


def check_slots(slots: torch.Tensor, n_rows: int, device: torch.device) -> torch.Tensor:
    """The slot of each row, contiguous ``[n_rows]`` int64.

    Raises:
        TypeError, ValueError: as ``check_vector``.
    """
    return check_vector("slots", slots, n_rows, (torch.int64,), device)


def check_settings(
    name: str, vector: torch.Tensor, n_slots: int, dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    """One value for each slot, contiguous ``[n_slots]``.

    Raises:
        TypeError, ValueError: as ``check_vector``.
    """
    return check_vector(name, vector, n_slots, (dtype,), device, owner="slot")


def check_table(
    name: str,
    table: torch.Tensor | None,
    shape: tuple[int | None, int | None],
    dtypes: tuple[torch.dtype, ...],
    device: torch.device,
) -> torch.Tensor:
    """``table``, a contiguous two-dimensional tensor; None in ``shape`` is any length.

    It is not copied where it is not contiguous, since that would happen at every step.

    Raises:
        TypeError: another dtype, or no tensor at all.
        ValueError: another shape or device, or memory that is not contiguous.
    """
    if not isinstance(table, torch.Tensor) or table.dtype not in dtypes:
        given = table.dtype if isinstance(table, torch.Tensor) else type(table).__name__
        allowed = " or ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
        raise TypeError(f"{name} is {given}; a tensor of {allowed} is expected; convert it")
    if table.ndim != 2 or any(n not in (None, m) for n, m in zip(shape, table.shape, strict=True)):
        expected = ", ".join("any" if n is None else str(n) for n in shape)
        raise ValueError(
            f"{name} has shape {tuple(table.shape)}; [{expected}] is expected; "
            "allocate it once with that shape"
        )
    if table.device != device:
        raise ValueError(
            f"{name} is on {table.device} but {device} is expected, where the rest is; "
            f"move it once with {name}.to({str(device)!r})"
        )
    if not table.is_contiguous():
        raise ValueError(
            f"{name} has strides {table.stride()}; contiguous memory is expected, since a copy at "
            f"every step is slow; make one copy with {name}.contiguous()"
        )
    return table
