"""A progress bar on stderr, where that is a terminal; nothing otherwise."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from sampler_audit.reports import words


class Step(Protocol):
    """How far the audit of one target is; ``log_e`` is its evidence so far, in nats."""

    @property
    def target(self) -> str:
        """Its name."""

    @property
    def done(self) -> int:
        """Cells done."""

    @property
    def total(self) -> int:
        """Cells in the plan."""

    @property
    def log_e(self) -> float:
        """Evidence of a fault so far, in nats."""


@contextmanager
def progress_bar(console: Console, *, quiet: bool = False) -> Iterator[Callable[[Step], None]]:
    """Yields what to call with every step; the bar disappears at the end."""
    if quiet or not console.is_terminal:
        yield lambda _step: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("cells, log10 E {task.fields[evidence]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        tasks = {}

        def show(step: Step) -> None:
            if step.target not in tasks:
                tasks[step.target] = bar.add_task(step.target, evidence="")
            evidence = words.log10_e(step.log_e)
            bar.update(
                tasks[step.target], completed=step.done, total=step.total, evidence=evidence
            )

        yield show
