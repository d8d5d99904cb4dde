"""A progress bar on stderr, where that is a terminal; nothing otherwise."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class Show(Protocol):
    """Tells the bar what is worked on, how much is done and of how much."""

    def __call__(self, what: str, done: int, total: int, note: str = "") -> None:
        """Redraw the bar."""


@contextmanager
def progress_bar(console: Console, *, quiet: bool = False) -> Iterator[Show]:
    """Yields what to call with every step; the bar disappears at the end."""
    if quiet or not console.is_terminal:
        yield _show_nothing
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=None, note="")

        def show(what: str, done: int, total: int, note: str = "") -> None:
            if done < bar.tasks[0].completed:
                # The next target: the pace of the last one says nothing about it.
                bar.reset(task)
            bar.update(task, description=what, completed=done, total=total, note=note)

        yield show


def _show_nothing(what: str, done: int, total: int, note: str = "") -> None:
    """Where nobody watches."""
