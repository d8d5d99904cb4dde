"""Where reports are written."""

import os
from pathlib import Path

import pytest

from sampler_audit.errors import SamplerAuditError, UsageError
from sampler_audit.reports.files import Outputs, github_outputs
from sampler_audit.results import AuditReport, from_json


def test_checking_leaves_nothing_behind_and_truncates_nothing(tmp_path: Path) -> None:
    """A new file stays absent, an old one keeps its text."""
    old, new = tmp_path / "old.json", tmp_path / "new.xml"
    old.write_text("before")
    Outputs(json=old, junit=new).check()
    assert old.read_text() == "before"
    assert not new.exists()


@pytest.mark.parametrize("name", ["missing/report.json", "."])
def test_a_path_that_cannot_be_written_is_a_usage_error(tmp_path: Path, name: str) -> None:
    """A folder that does not exist, and a folder."""
    with pytest.raises(UsageError, match="cannot write"):
        Outputs(json=tmp_path / name).check()


def test_a_pipe_is_not_opened_to_check_it(tmp_path: Path) -> None:
    """Opening one without a reader would hang."""
    os.mkfifo(tmp_path / "pipe")
    Outputs(json=tmp_path / "pipe").check()


def test_every_file_that_was_asked_for_is_written(tmp_path: Path, failing: AuditReport) -> None:
    """JSON, JUnit, Markdown; the step summary is appended to."""
    summary = tmp_path / "summary.md"
    summary.write_text("earlier step\n")
    outputs = Outputs(
        json=tmp_path / "a.json",
        junit=tmp_path / "a.xml",
        markdown=tmp_path / "a.md",
        step_summary=summary,
        annotate=True,
    )
    annotations = outputs.write(failing, allow_inconclusive=False)
    assert from_json((tmp_path / "a.json").read_text()) == failing
    assert (tmp_path / "a.xml").read_text().startswith("<?xml")
    assert summary.read_text() == "earlier step\n" + (tmp_path / "a.md").read_text()
    assert len(annotations) == 1


def test_without_github_there_are_no_annotations(failing: AuditReport) -> None:
    """A failing run outside of Actions."""
    assert Outputs().write(failing, allow_inconclusive=False) == []


def test_a_file_that_cannot_be_written_after_all_is_named(
    tmp_path: Path, passing: AuditReport
) -> None:
    """The folder went away during the run."""
    with pytest.raises(SamplerAuditError, match=r"cannot write .*a\.json: No such file"):
        Outputs(json=tmp_path / "gone" / "a.json").write(passing, allow_inconclusive=False)


@pytest.mark.parametrize("value", ["", "/tmp/summary.md"])
def test_the_step_summary_is_where_actions_says(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    """Without the variable, annotations only."""
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", value)
    outputs = github_outputs(Outputs())
    assert outputs.annotate
    assert outputs.step_summary == (Path(value) if value else None)
