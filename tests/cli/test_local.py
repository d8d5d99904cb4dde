"""sampler-audit local from the command line to the exit code, on functions in a worker."""

import ctypes
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sampler_audit.__main__ import main
from sampler_audit.results import AuditReport, from_json

CELL = "finite-5-front@128/top_k=3/batch=alone"

FUNCTIONS = """
import time

def top_k(logits, k, p):
    order = logits.sort(dim=-1, descending=True, stable=True).indices
    dropped = order.argsort(dim=-1) >= k[:, None]
    return logits.masked_fill(dropped, float("-inf"))

def too_few(logits, k, p):
    return top_k(logits, k - 1, p)

def broken(logits, k, p):
    raise ArithmeticError("no kernel image")

def slow(logits, k, p):
    open("begun", "a").write("x")
    time.sleep(0.05)
    return top_k(logits, k, p)

def hangs(logits, k, p):
    open("begun", "a").write("xxxx")
    time.sleep(3600)
"""


@pytest.fixture(autouse=True)
def _functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "functions_under_audit.py").write_text(FUNCTIONS)
    monkeypatch.chdir(tmp_path)


def audit(function: str, *options: str) -> int:
    """The exit code of the audit of a function in one cell."""
    target = f"functions_under_audit:{function}"
    return main(["local", "--target", target, "--only", CELL, "--seed", "7", *options])


def report_in(path: str) -> AuditReport:
    """The JSON report."""
    return from_json(Path(path).read_text())


def test_a_right_function_ends_0(capsys: pytest.CaptureFixture[str]) -> None:
    """Top-k with ties to the lowest id."""
    assert audit("top_k") == 0
    assert "PASS  functions_under_audit:top_k" in capsys.readouterr().out


def test_a_wrong_function_ends_1_and_every_file_is_written(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One token too few is kept; the command in the report is the one that was typed."""
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    files = ["--json", "a.json", "--junit", "a.xml", "--markdown", "a.md", "--github"]
    assert audit("too_few", *files) == 1
    out = capsys.readouterr().out
    assert "FAIL  functions_under_audit:too_few" in out
    assert "kept 2 tokens, expected 3" in out
    assert "::error title=sampler-audit functions_under_audit%3Atoo_few%3A top_k::" in out
    assert report_in("a.json").command.startswith("sampler-audit local --target functions_under")
    assert "<failure" in Path("a.xml").read_text()
    assert Path("a.md").read_text() == Path("summary.md").read_text()


def test_a_fresh_seed_is_printed_in_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    """So that the run can be repeated."""
    target = "functions_under_audit:top_k"
    assert main(["local", "--target", target, "--only", CELL, "--json", "a.json"]) == 0
    report = report_in("a.json")
    assert report.command.endswith(f"--seed {report.seed}")
    assert report.command in capsys.readouterr().out


@pytest.mark.parametrize(
    ("function", "words"),
    [("broken", "ArithmeticError"), ("absent", "AttributeError"), ("broken.attr", "attr")],
)
def test_a_function_that_is_absent_or_raises_ends_3(
    function: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exception is named."""
    assert audit(function) == 3
    out, err = capsys.readouterr()
    assert words in out + err
    assert "Traceback" not in out + err


def test_a_dry_run_lists_the_cells_and_writes_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Not even the report that was asked for."""
    assert audit("top_k", "--dry-run", "--json", "a.json") == 0
    assert capsys.readouterr().out.splitlines()[-1] == CELL
    assert not (tmp_path / "a.json").exists()


def test_targets_share_the_false_alarm_rate_of_the_run(tmp_path: Path) -> None:
    """The stated rate is of the run, so each of two targets has half of it."""
    out = str(tmp_path / "run.json")
    audit("top_k", "--target", "functions_under_audit:too_few", "--alpha", "0.01", "--json", out)
    report = report_in(out)
    assert report.alpha == 0.01
    assert [target.alpha for target in report.targets] == [0.005, 0.005]


def test_a_fault_repeats_with_the_command_in_the_report() -> None:
    """With the settings that were not the default, too."""
    settings = ["--device", "cpu", "--alpha", "0.01", "--draws", "50", "--gate", "chi-square"]
    assert audit("too_few", *settings, "--json", "a.json") == 1
    (cell,) = report_in("a.json").targets[0].cells
    assert all(setting in cell.repeat for setting in settings)
    assert main([*shlex.split(cell.repeat)[1:], "--json", "b.json"]) == 1
    (again,) = report_in("b.json").targets[0].cells
    assert replace(again, seconds=cell.seconds) == cell


def test_a_known_fault_ends_0_whatever_its_draws_say(capsys: pytest.CaptureFixture[str]) -> None:
    """Lost tokens are never drawn, which the evidence of the whole run would see."""
    Path("known.toml").write_text(
        '[[known]]\nid = "builtin:finite-3-front@*"\nreason = "accepted"\nlink = "none"\n'
    )
    rows = ["--rows", "finite-3-front", "--combos", "top_k", "--seed", "7"]
    fault = ["--defect", "weakest-dropped", "--device", "cpu", *rows]
    assert main(["local", *fault]) == 1
    assert main(["local", *fault, "--known", "known.toml"]) == 0
    assert "KNOWN" in capsys.readouterr().out


def interrupt_another_thread(process: int) -> None:
    """SIGINT to the youngest thread: the system may choose any, and not the main one."""
    threads = [int(name) for name in os.listdir(f"/proc/{process}/task")]
    ctypes.CDLL(None).tgkill(process, max(threads), signal.SIGINT)


def interrupt(process: int) -> None:
    """SIGINT, as Ctrl-C sends it."""
    os.kill(process, signal.SIGINT)


@pytest.mark.parametrize(
    ("function", "interrupts"),
    [
        ("slow", [interrupt]),
        ("slow", [interrupt, interrupt]),
        ("hangs", [interrupt]),
        ("hangs", [interrupt_another_thread]),
    ],
)
def test_ctrl_c_ends_130_and_keeps_what_was_done(
    function: str, interrupts: list[Callable[[int], None]], tmp_path: Path
) -> None:
    """Interrupted after the first answers, or when there is none; a second time changes nothing."""
    options = ["--combos", "top_k", "--rows", "finite-5-front,dense-normal", "--json", "a.json"]
    command = ["local", "--target", f"functions_under_audit:{function}", *options]
    begun = tmp_path / "begun"
    with subprocess.Popen(
        [sys.executable, "-m", "sampler_audit", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        # The fourth request: with two workers the first two have been answered.
        while process.poll() is None and not (begun.exists() and len(begun.read_text()) >= 4):
            time.sleep(0.01)
        for send in interrupts:
            send(process.pid)
            time.sleep(0.01)
        try:
            text, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130, text
    assert "Interrupted" in text
    assert "Traceback" not in text
    report = report_in("a.json")
    assert report.interrupted
    assert bool(report.targets[0].cells) is (function == "slow")


def test_a_fault_of_the_pooled_draws_is_named_and_can_be_repeated(tmp_path: Path) -> None:
    """No cell fails alone at 25 draws; the combination does, with its worst row and a command."""
    out = tmp_path / "run.json"
    real = (
        *("the-weather-today-is", "roses-are-red-violets-are", "you-should-never"),
        *("he-scored", "i-think-that", "the-stock-market"),
    )
    made = ("dense-normal", "bf16-rounded", "ties-at-k", "zipf", "signed-zeros")
    rows = ",".join([*made, *(f"real-{slug}@4096" for slug in real)])
    arguments = ["--combos", "temperature", "--rows", rows, "--draws", "25", "--seed", "1"]
    planted = ["--target", "builtin", "--defect", "temperature-twice"]
    code = main(["local", *planted, *arguments, "--quiet", "--json", str(out)])
    report = from_json(out.read_text(encoding="utf-8")).targets[0]
    assert code == 1
    assert not any(cell.outcome == "fail" for cell in report.cells)
    (combo,) = [combo for combo in report.combos if combo.outcome == "fail"]
    (worst,) = [cell for cell in report.cells if cell.cell == combo.worst]
    assert f"--only {worst.cell}" in worst.repeat
    assert worst.ladder
