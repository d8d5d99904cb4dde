"""The report as Markdown."""

from collections.abc import Callable
from dataclasses import replace

from sampler_audit.reports import markdown
from sampler_audit.results import AuditReport, TargetReport


def test_document_of_a_failing_target(
    vllm: TargetReport, failing: AuditReport, golden: Callable[[str, str], None]
) -> None:
    """The whole text."""
    golden("report.md", markdown.render(replace(failing, targets=(vllm,))))


def test_what_was_not_reached_learned_or_finished_is_said(passing: AuditReport) -> None:
    """Three lines above the sections."""
    report = replace(
        passing, searched=True, interrupted=True, unavailable=(("vllm", "not installed"),)
    )
    text = markdown.render(report)
    assert "- not reached: vllm: not installed" in text
    assert "- Interrupted" in text
    assert "- Nothing was learned" in text


def test_a_target_without_cells_has_no_table(passing: AuditReport) -> None:
    """An engine that died at once."""
    empty = replace(passing.targets[0], cells=(), combos=(), outcome="error")
    assert "|" not in markdown.render(replace(passing, targets=(empty,)))
