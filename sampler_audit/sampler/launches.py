"""Kernels or their twins, and a count of everything that ran: launches and copies, by name."""

from collections import Counter
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from sampler_audit.sampler.pipeline import Path

P = ParamSpec("P")
R = TypeVar("R")


class Launches:
    """Chooses between a kernel and its twin, and counts what runs until the next ``take``."""

    def __init__(self, path: Path) -> None:
        self._on_kernels = path == "kernel"
        self._counts: Counter[str] = Counter()

    def of(self, kernel: Callable[P, R], twin: Callable[..., R]) -> Callable[P, R]:
        """The one of the two that runs here, counted under the kernel's name."""
        function = kernel if self._on_kernels else twin

        def counted(*args: P.args, **kwargs: P.kwargs) -> R:
            self.count(kernel.__name__)
            return function(*args, **kwargs)

        return counted

    def count(self, name: str) -> None:
        """One more of ``name``: a launch, or a copy between memories or of logits."""
        self._counts[name] += 1

    def take(self) -> Counter[str]:
        """What ran since the last call."""
        taken, self._counts = self._counts, Counter()
        return taken
