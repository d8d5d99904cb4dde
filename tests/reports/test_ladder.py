"""The token ladder."""

import pytest

from sampler_audit.reports.ladder import ladder_lines
from sampler_audit.results import LadderStep


def step(
    expected: float, observed: float, *, low: float = 0.0, high: float = 0.0, note: str = ""
) -> LadderStep:
    """A rung with token 7 and logit 1."""
    return LadderStep(
        token=7, logit=1.0, expected=expected, observed=observed, low=low, high=high, note=note
    )


def bar(line: str) -> str:
    """The bar of a rung: what follows its last percentage."""
    return line.split("%")[-1].strip()


def test_bars_show_expected_missing_and_surplus() -> None:
    """The largest share, 1, is 32 cells long, so 0.5 takes 16 and 0.25 takes 8.

    76 columns less 36 of numbers, 4 of gaps and 4 of the longest note are 32.
    """
    steps = [step(1.0, 1.0, note="note"), step(0.5, 0.25), step(0.25, 0.5)]
    lines = ladder_lines(steps, ascii_only=True)
    assert bar(lines[1].removesuffix("note")) == "#" * 32
    assert bar(lines[2]) == "#" * 8 + "-" * 8
    assert bar(lines[3]) == "#" * 8 + "+" * 8


def test_a_tiny_share_is_still_seen() -> None:
    """One part in a million has a bar of one cell; nothing has none."""
    lines = ladder_lines([step(1.0, 1.0), step(1e-6, 0.0), step(0.0, 1e-6)], ascii_only=True)
    assert [bar(line) for line in lines[2:4]] == ["-", "+"]


def test_the_interval_stands_beside_draws_and_marks_what_lies_outside() -> None:
    """Expected 10 %, at most 3 % seen."""
    _, line, _ = ladder_lines([step(0.1, 0.0, high=0.03)])
    assert "0 - 3.0 %" in line
    assert line.endswith("outside")


@pytest.mark.parametrize("width", [76, 100])
def test_no_line_is_wider_than_asked(width: int) -> None:
    """With the longest note that the checks write."""
    steps = [step(0.9, 0.2, high=0.99, note="should never appear"), step(1e-9, 0.5)]
    assert max(map(len, ladder_lines(steps, width=width))) <= width


def test_no_steps_no_ladder() -> None:
    """Not even a heading."""
    assert ladder_lines([]) == ()
