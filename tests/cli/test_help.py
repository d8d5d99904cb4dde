"""--help and --version."""

import subprocess
import sys
from collections.abc import Callable

import pytest

from sampler_audit.__main__ import main
from sampler_audit.plan import DEFAULT_DRAWS


def test_help_texts(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    golden: Callable[[str, str], None],
) -> None:
    """Of the program and of its commands, at 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    for command in ([], ["local"], ["selftest"], ["demo-server"], ["processor"], ["list"]):
        assert main([*command, "--help"]) == 0
    golden("help.txt", capsys.readouterr().out)


def test_the_help_names_the_default_of_draws(capsys: pytest.CaptureFixture[str]) -> None:
    """Which it may not import."""
    assert main(["local", "--help"]) == 0
    assert f"else {DEFAULT_DRAWS}." in capsys.readouterr().out


def test_without_a_command_it_prints_the_help_and_ends_2(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """0 would claim that an audit passed."""
    assert main([]) == 2
    assert capsys.readouterr().out.startswith("Usage: sampler-audit")


@pytest.mark.parametrize("command", ["[]", "['local']"])
def test_help_imports_nothing_heavy(command: str) -> None:
    """Torch alone takes seconds; the help takes a fraction of one."""
    code = (
        "import sys; from sampler_audit.__main__ import main;"
        f" code = main([*{command}, '--help']);"
        " heavy = {'torch', 'triton', 'scipy', 'numpy', 'rich'} & set(sys.modules);"
        " sys.exit(f'imported {heavy}' if heavy else code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_version_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """And ends 0."""
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("sampler-audit ")
