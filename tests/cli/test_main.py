"""The boundary of the process: every end has its exit code, and none a traceback."""

import os
import subprocess
import sys
from typing import NoReturn

import pytest

from sampler_audit import __main__
from sampler_audit import listing as listings
from sampler_audit.errors import TargetProtocolError


def ending(monkeypatch: pytest.MonkeyPatch, exc: BaseException) -> int:
    """The exit code of a command that raises ``exc``."""

    def listing() -> NoReturn:
        raise exc

    monkeypatch.setitem(vars(listings)["LISTINGS"], "combos", listing)
    return __main__.main(["list", "combos"])


def test_our_own_errors_are_one_line_with_their_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Even where the message of an engine has several lines."""
    assert ending(monkeypatch, TargetProtocolError("the worker died:\n  killed")) == 3
    assert capsys.readouterr().err == "sampler-audit: the worker died: killed\n"


def test_an_unexpected_error_is_one_line_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says how to get the traceback."""
    monkeypatch.delenv("SAMPLER_AUDIT_DEBUG", raising=False)
    assert ending(monkeypatch, ZeroDivisionError("by zero")) == 3
    assert capsys.readouterr().err == (
        "sampler-audit: internal error: ZeroDivisionError: by zero; please report, rerun with"
        " SAMPLER_AUDIT_DEBUG=1 for the traceback\n"
    )


def test_the_traceback_is_there_for_who_asks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code stays 3: 1 would claim a fault."""
    monkeypatch.setenv("SAMPLER_AUDIT_DEBUG", "1")
    assert ending(monkeypatch, ZeroDivisionError("by zero")) == 3
    assert "Traceback" in capsys.readouterr().err


def test_ctrl_c_outside_of_a_run_ends_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """While a plan is being made, say."""
    assert ending(monkeypatch, KeyboardInterrupt()) == 130
    assert capsys.readouterr().err == "sampler-audit: interrupted\n"


def test_a_closed_pipe_is_neither_a_pass_nor_a_fault() -> None:
    """The reader of stdout has gone before the first byte."""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "sampler_audit", "list", "combos"],
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (3, "")


def test_an_ascii_terminal_does_not_end_the_program() -> None:
    """The reasons of rows and settings may hold other characters."""
    done = subprocess.run(
        [sys.executable, "-m", "sampler_audit", "list", "rows"],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_usage_error_without_a_stderr_is_still_no_fault() -> None:
    """A job that has closed its streams: 1 would claim that a sampler is wrong."""
    command = f"{sys.executable} -m sampler_audit list engines 2>&-"
    assert subprocess.run(["sh", "-c", command], check=False).returncode == 2
