"""sampler-audit processor: exit codes, files and messages."""

import json
import venv
from pathlib import Path

import pytest

from sampler_audit.__main__ import main
from sampler_audit.processor_audit.command import RUNNERS
from sampler_audit.sampler.processors import RULES

HERE = Path(__file__).parent
BIAS = ["--params", '{"extra_args": {"bias": 4.0}}']
QUICK = ["--sequences", "40", "--vocab-size", "32", "--seed", "1"]


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module of the class may lie in the current folder."""
    monkeypatch.chdir(HERE)


def run(name: str, *options: str) -> int:
    """The exit code."""
    return main(["processor", f"wrong_processors:{name}", *QUICK, *options])


def test_a_fault_ends_1_and_is_shown_with_its_steps(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """On the terminal and as JSON."""
    assert run("SwapCopiesToBoth", *BIAS, "--json", str(tmp_path / "report.json")) == 1
    shown = capsys.readouterr().out
    assert "✗ swapped: a row is wrong after two requests have changed places" in shown
    report = json.loads((tmp_path / "report.json").read_text())
    (fault,) = report["faults"]
    assert all(f"{i}. {step}" in shown for i, step in enumerate(fault["steps"], 1))
    assert (report["outcome"], list(report["microseconds"])) == ("fail", ["1", "8", "64"])


def test_a_right_one_ends_0(capsys: pytest.CaptureFixture[str]) -> None:
    """With one line where it is told to be quiet."""
    assert run("SlotBias", *BIAS, "--quiet") == 0
    assert capsys.readouterr().out.startswith("PASS  wrong_processors:SlotBias")


def test_without_parameters_that_switch_it_on_nothing_was_tried(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The default ones are no extra_args."""
    assert run("Bias", "--quiet") == 3
    assert "name parameters" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("NoSuchClass", 2, "has no 'NoSuchClass'"),
        ("RaisesAtOnce", 3, "RaisesAtOnce raised OSError: no such device (wrong_processors.py:"),
        ("EndsItsProcess", 3, "its process ended with 7"),
    ],
)
def test_what_cannot_be_audited_is_one_line(
    capsys: pytest.CaptureFixture[str], name: str, code: int, message: str
) -> None:
    """Naming what was raised and where, without a traceback."""
    assert run(name, *BIAS) == code
    told = capsys.readouterr()
    assert message in told.err
    assert told.err.count("\n") == 1
    assert "Traceback" not in told.out + told.err


@pytest.mark.parametrize("text", ["{", '{"bias": 1}'])
def test_bad_settings_end_2(capsys: pytest.CaptureFixture[str], text: str) -> None:
    """Before anything is started."""
    assert run("Bias", "--params", text) == 2
    assert "--params" in capsys.readouterr().err


def test_an_interpreter_without_torch_is_told_what_it_lacks(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """An environment of its own has nothing installed."""
    venv.create(tmp_path / "bare", symlinks=True)
    assert run("Bias", *BIAS, "--python", str(tmp_path / "bare" / "bin" / "python")) == 3
    told = capsys.readouterr().err
    assert "needs numpy, torch and triton" in told
    assert "File" not in told


def test_the_runners_are_those_that_have_rules() -> None:
    """The command may not import them."""
    assert tuple(RULES) == RUNNERS


@pytest.mark.parametrize(
    ("runner", "words"),
    [
        ("vllm-v1-tpu", RULES["vllm-v1-tpu"].obstacle()),
        ("vllm-v1", "batch-level"),
    ],
)
def test_a_runner_that_loads_none_such_is_refused_in_the_words_of_its_profile(
    capsys: pytest.CaptureFixture[str], runner: str, words: str
) -> None:
    """A TPU loads none; V1 loads no slot-level one."""
    assert run("SlotBias", *BIAS, "--runner", runner) == 2
    told = capsys.readouterr().err
    assert words in told
    assert told.count("\n") == 1
