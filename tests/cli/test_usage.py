"""Bad input: one clear line on stderr and exit code 2, before anything runs."""

from pathlib import Path

import pytest

from sampler_audit.__main__ import main

FUNCTION = ["local", "--target", "somewhere:function"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["lokal"], "No such command 'lokal'"),
        (["local", "--drows", "5"], "--drows"),
        (["local", "--draws"], "--draws"),
        (["local", "--draws", "x"], "expected a whole number >= 1, got 'x'"),
        (["local", "--draws", "0"], "expected a whole number >= 1, got '0'"),
        (["local", "--draws", "1.5"], "got '1.5'"),
        (["local", "--alpha", "2"], "expected a number above 1e-15 and below 1, got '2'"),
        (["local", "--alpha", "nan"], "got 'nan'"),
        (["local", "--alpha", "often"], "got 'often'"),
        (["local", "--seed", "-1"], "expected a whole number >= 0, got '-1'"),
        (["local", "--alpha", "1e-320"], "got '1e-320'"),
        (["local", "--timeout", "0"], "expected a number above 0 and below 604800, got '0'"),
        (["local", "--timeout", "1e12"], "got '1e12'"),
        (["local", "--gate", "t-test"], "'t-test' is not one of e-value, chi-square"),
        (["local", "--device", "tpu"], "'tpu' is not one of auto, cpu, cuda"),
        (["list", "engines"], "'engines' is not one of rows, combos"),
        (["local", "--target", "vlm"], "unknown target 'vlm'; known:"),
        (["local", "--target", "no function:at all"], "module:attr"),
        (["local", "--target", "builtin", "--defect", "bad-luck"], "unknown defect 'bad-luck'"),
        ([*FUNCTION, "--defect", "weakest-dropped"], "not in somewhere:function"),
        (["local", "--when", "top_k"], "--defect NAME"),
        (
            ["local", "--defect", "weakest-dropped", "--when", "top_q"],
            "unknown filter or stage 'top_q'",
        ),
        ([*FUNCTION, "--combos", "quads"], "unknown combination 'quads'"),
        ([*FUNCTION, "--rows", "dence-normal"], "dence-normal"),
        ([*FUNCTION, "--only", "dense-normal"], "a cell id is ROW/PARAMS/batch=PATTERN"),
        ([*FUNCTION, "--known", "/nonexistent/known.toml"], "/nonexistent/known.toml"),
        ([*FUNCTION, "--json", "/nonexistent/report.json"], "cannot write /nonexistent"),
        ([*FUNCTION, "--python", "/nonexistent/python"], "/nonexistent/python"),
        (["local", "--python", "/nonexistent/python"], "/nonexistent/python"),
        (["local", "--target", "builtin", "--python", "python3"], "--python is for engines"),
        (["local", "--target", "builtin", "--lib", "libm.so"], "--lib is the library of llama_cpp"),
        (["local", "--target", "llama_cpp", "--lib", "/nonexistent/libllama.so"], "is no file"),
    ],
    ids=" ".join,
)
def test_one_line_that_names_what_was_given(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """And nothing on stdout."""
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("sampler-audit: ")
    assert err.count("\n") == 1
    assert words in err


def test_bad_input_is_found_before_an_output_file_is_made(tmp_path: Path) -> None:
    """An unknown combination leaves no empty report."""
    assert main([*FUNCTION, "--combos", "quads", "--json", str(tmp_path / "a.json")]) == 2
    assert list(tmp_path.iterdir()) == []
