from pathlib import Path

import pytest

from sampler_audit.errors import UsageError
from sampler_audit.known import KnownFault, mark_known, read_known
from sampler_audit.results import CellResult, Outcome

FAULT = KnownFault(id="vllm:finite-*", reason="loses the lowest", link="https://example.org/1")


def cell(name: str, outcome: Outcome) -> CellResult:
    """A cell with an outcome."""
    return CellResult(cell=name, combo=(), row_kind="finite-3-front", outcome=outcome)


def test_a_known_fault_does_not_count() -> None:
    """It is told, and its cells are marked."""
    cells = (cell("finite-3@9/x", "fail"), cell("dense@9/x", "fail"))
    marked, there, gone = mark_known([FAULT], "vllm", cells)
    assert there == ("vllm:finite-*: loses the lowest (https://example.org/1): 1 cell",)
    assert gone == ()
    assert [c.cell for c in marked if c.counts_as_failed] == ["dense@9/x"]


def test_a_known_fault_that_is_gone_is_told() -> None:
    """Its cells were tried and pass."""
    marked, there, gone = mark_known([FAULT], "vllm", (cell("finite-3@9/x", "pass"),))
    assert (marked[0].known, there, len(gone)) == ("", (), 1)


def test_a_known_fault_of_another_target_excuses_nothing() -> None:
    """The id begins with the target."""
    marked, there, gone = mark_known([FAULT], "builtin", (cell("finite-3@9/x", "fail"),))
    assert (marked[0].counts_as_failed, there, gone) == (True, (), ())


def test_reads_a_file(tmp_path: Path) -> None:
    """One table an entry."""
    path = tmp_path / "known.toml"
    path.write_text(f'[[known]]\nid="{FAULT.id}"\nreason="{FAULT.reason}"\nlink="{FAULT.link}"\n')
    assert read_known(path) == (FAULT,)


@pytest.mark.parametrize(
    "text",
    ["[[known]]\nid='x'\n", "nonsense", "[[known]]\nid=1\n", "known = 3", "[[knwon]]\nid='x'"],
)
def test_a_file_that_would_excuse_nothing_is_a_usage_error(tmp_path: Path, text: str) -> None:
    """With the path in the message."""
    path = tmp_path / "known.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"known\.toml"):
        read_known(path)


def test_a_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    """Before anything runs."""
    with pytest.raises(UsageError, match="cannot read"):
        read_known(tmp_path / "none.toml")
