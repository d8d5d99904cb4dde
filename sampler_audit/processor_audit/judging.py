"""What can be seen on one step of one instance: memory, masked tokens, the likeliest token.

Rows that depend on what else happened are the player's to find.
"""

from collections.abc import Iterator

import torch

from sampler_audit.processor_audit.turns import Fault

_TOLERANCE = 1e-5
"""Relative and absolute: a row may be summed in another order in a batch of another size."""


def same_row(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Equal up to rounding, infinities and NaN included."""
    return torch.allclose(left, right, rtol=_TOLERANCE, atol=_TOLERANCE, equal_nan=True)


def same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Equal in every bit."""
    return torch.equal(left.view(torch.int32), right.view(torch.int32))


def difference(got: torch.Tensor, expected: torch.Tensor) -> str:
    """The first token at which two rows are not equal up to rounding."""
    near = torch.isclose(got, expected, rtol=_TOLERANCE, atol=_TOLERANCE, equal_nan=True)
    token = int((~near).int().argmax())
    return f"token {token} got {got[token]:.6g}, expected {expected[token]:.6g}"


class Memory:
    """The tensors of earlier steps, kept alive so that memory of them is not given out again."""

    def __init__(self) -> None:
        self._tensors: list[torch.Tensor] = []

    def faults(
        self, given: torch.Tensor, before: torch.Tensor, returned: torch.Tensor
    ) -> Iterator[tuple[str, str]]:
        """Kind and place; ``before`` is what ``given`` held when the processor got it."""
        if _address(returned) in map(_address, self._tensors):
            yield "aliased", "apply returned it again"
        if _address(returned) != _address(given):
            lost = (given != before) & (returned == before)
            if lost.any():
                row, token = lost.nonzero()[0].tolist()
                yield (
                    "dropped",
                    f"row {row}, token {token}: {given[row, token]:.6g} written, "
                    f"{returned[row, token]:.6g} returned",
                )
        self._tensors += [given, returned]


def _address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def row_faults(
    before: torch.Tensor, after: torch.Tensor, *, argmax_invariant: bool
) -> Iterator[tuple[str, str]]:
    """Kind and place of what is wrong with a row whoever asked for it."""
    bad = after.isnan() | (after == torch.inf)
    if bad.any():
        token = int(bad.int().argmax())
        yield "nan", f"token {token}: {before[token]:.6g} before, {after[token]:.6g} after"
        return
    revived = before.isneginf() & ~after.isneginf()
    if revived.any():
        token = int(revived.int().argmax())
        yield "masked", f"token {token}: -inf before, {after[token]:.6g} after"
    likeliest = int(before.argmax())
    if argmax_invariant and after[likeliest] < after.max():
        yield (
            "argmax",
            f"the likeliest token was {likeliest} before and is {int(after.argmax())} after",
        )


def as_fault(kind: str, where: str, steps: list[str]) -> Fault:
    """With the steps so far."""
    return Fault(kind=kind, where=where, steps=list(steps))
