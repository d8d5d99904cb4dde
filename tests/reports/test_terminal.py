"""The report at a terminal."""

import io
from collections.abc import Callable
from dataclasses import replace

import pytest
from rich.console import Console

from sampler_audit.reports import terminal
from sampler_audit.results import AuditReport


def shown(report: AuditReport, *, width: int = 100, quiet: bool = False) -> str:
    """What is printed, without the spaces that fill lines."""
    file = io.StringIO()
    console = Console(file=file, width=width, highlight=False, markup=False)
    terminal.show(report, console, quiet=quiet)
    return "".join(f"{line.rstrip()}\n" for line in file.getvalue().splitlines())


def test_report_of_a_right_and_a_wrong_sampler(
    failing: AuditReport, golden: Callable[[str, str], None]
) -> None:
    """The whole text, with the field report's fault."""
    golden("terminal.txt", shown(failing))


def test_at_80_columns_only_the_command_to_copy_is_wider(failing: AuditReport) -> None:
    """And the table keeps its columns whole, without an ellipsis."""
    text = shown(failing, width=80)
    wide = [line for line in text.splitlines() if len(line) > 80]
    assert wide == [f"    {failing.targets[1].cells[-1].repeat}"]
    assert "…" not in text


def test_a_narrow_table_gives_up_columns_before_names(failing: AuditReport) -> None:
    """At 60 columns the verdict still stands beside a combination that can be read."""
    lines = shown(failing, width=60).splitlines()
    (row,) = [line for line in lines if line.endswith("FAIL") and "45.1" in line]
    assert row.split() == ["top_k+top_p+min_p", "2", "1", "45.1", "FAIL"]


def test_an_ascii_terminal_gets_ascii(failing: AuditReport) -> None:
    """Also the mark of a finding, which has no replacement of its own."""
    file = io.TextIOWrapper(io.BytesIO(), encoding="ascii", write_through=True)
    terminal.show(failing, Console(file=file, width=100, highlight=False, markup=False))
    file.seek(0)
    assert "\nx every single filter passes" in file.read()


def test_text_of_an_engine_is_not_markup(failing: AuditReport) -> None:
    """An install command in brackets survives."""
    report = replace(failing, unavailable=(("torch", "pip install 'sampler-audit[all]' :smile:"),))
    assert "not reached  torch: pip install 'sampler-audit[all]' :smile:" in shown(report)


def test_quiet_prints_verdicts_only(failing: AuditReport) -> None:
    """One paragraph a target."""
    text = shown(failing, quiet=True)
    assert text.startswith("PASS  builtin")
    assert "chi2" not in text


def test_a_search_without_an_engine_says_how_to_name_one(passing: AuditReport) -> None:
    """Nothing was learned, and --python helps."""
    text = shown(replace(passing, searched=True))
    assert "Nothing was learned about an engine" in text
    assert "--python" in text


def test_an_interrupted_run_says_so(passing: AuditReport) -> None:
    """What was done so far is shown all the same."""
    text = shown(replace(passing, interrupted=True))
    assert "Interrupted" in text
    assert "chi2" in text


def test_the_failing_verdict_is_red_unless_colours_are_off(failing: AuditReport) -> None:
    """31 is red in ECMA-48."""
    for no_color in (False, True):
        file = io.StringIO()
        console = Console(
            file=file, force_terminal=True, no_color=no_color, color_system="standard"
        )
        terminal.show(failing, console, quiet=True)
        assert ("\x1b[1;31mFAIL" in file.getvalue()) is not no_color


@pytest.mark.parametrize(("columns", "width"), [("80", 80), ("200", 100), (None, 100)])
def test_a_console_is_at_most_100_wide(
    monkeypatch: pytest.MonkeyPatch, columns: str | None, width: int
) -> None:
    """COLUMNS decides; where nothing is known, as in CI, it is 100."""
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns:
        monkeypatch.setenv("COLUMNS", columns)
    assert terminal.make_console().width == width
