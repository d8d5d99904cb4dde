"""Values on the command line: what a number or a name may be, and one line where it is not.

Imports nothing but typer, so that ``--help`` stays quick.
"""

import math
from collections.abc import Callable
from typing import Annotated

import typer

MOST_SECONDS = 7 * 24 * 3600
"""Longest ``--timeout``: a week. What Python can wait for at most depends on the platform."""

LEAST_ALPHA = 1e-15
"""Smallest ``--alpha``: below, its reciprocal is no frequency that anybody counts."""


def whole(least: int) -> Callable[[str], int]:
    """A parser of whole numbers from ``least`` on."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise typer.BadParameter(f"expected a whole number >= {least}, got {text!r}")
        return value

    return parse


def between(low: float, high: float) -> Callable[[str], float]:
    """A parser of numbers above ``low`` and below ``high``."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not low < value < high:
            raise typer.BadParameter(
                f"expected a number above {low:g} and below {high:g}, got {str(text)!r}"
            )
        return value

    return parse


def nats(text: str) -> float:
    """A size of log-prob errors: from 0 to 10 nats, beyond which a row says nothing."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 10:
        raise typer.BadParameter(f"expected a number from 0 to 10, got {str(text)!r}")
    return value


def one_of(*allowed: str) -> Callable[[str], str]:
    """A parser of names."""

    def parse(text: str) -> str:
        if text not in allowed:
            raise typer.BadParameter(f"{text!r} is not one of {', '.join(allowed)}")
        return text

    return parse


SeedOption = Annotated[
    int | None,
    typer.Option(parser=whole(0), metavar="N", help="Seed of the run; else fresh, and printed."),
]
QuietOption = Annotated[bool, typer.Option("--quiet", help="No progress bar; verdicts only.")]
NoColorOption = Annotated[bool, typer.Option("--no-color", help="No colours (NO_COLOR works too).")]
