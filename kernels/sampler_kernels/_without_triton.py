"""Stands in for Triton where it is not installed, so that the torch twins can be imported.

It holds only what module level of the kernel files touches; no kernel can run with it.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., object])
T = TypeVar("T")

knobs = SimpleNamespace(runtime=SimpleNamespace(interpret=True))
standard = SimpleNamespace(_sum_combine=None)
tensor = object


def constexpr(value: T) -> T:
    """A constant of a kernel."""
    return value


class Uncompiled:
    """A kernel without a compiler: ``launch`` explains before it is called."""

    def __init__(self, function: Callable[..., object]) -> None:
        self.function = function

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., object]:
        return self.function


def jit(function: Callable[..., object]) -> Uncompiled:
    """Takes the place of ``triton.jit``."""
    return Uncompiled(function)
