"""The progress bar."""

import io

import pytest
from rich.console import Console

from sampler_audit.reports.progress import progress_bar


def drawn(*, terminal: bool, quiet: bool = False) -> str:
    """What a run over two targets draws."""
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=100, color_system=None)
    with progress_bar(console, quiet=quiet) as show:
        show("builtin", 3, 4, "log10 E 0.1")
        show("vllm", 1, 9, "log10 E 2.5")
    return file.getvalue()


def test_a_terminal_sees_target_count_and_evidence() -> None:
    """The last frame before it disappears."""
    text = drawn(terminal=True)
    assert "vllm" in text
    assert "1/9" in text
    assert "log10 E 2.5" in text


@pytest.mark.parametrize(("terminal", "quiet"), [(False, False), (True, True)])
def test_a_file_or_a_quiet_run_sees_nothing(terminal: bool, quiet: bool) -> None:
    """Not even a newline."""
    assert drawn(terminal=terminal, quiet=quiet) == ""
