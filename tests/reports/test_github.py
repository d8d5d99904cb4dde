"""Annotations of GitHub Actions."""

from dataclasses import replace

import pytest

from sampler_audit.reports import github
from sampler_audit.results import AuditReport, Outcome


def test_a_finding_is_one_escaped_error(failing: AuditReport) -> None:
    """Escapes as in actions/toolkit command.ts: % -> %25, newline -> %0A, : -> %3A in titles."""
    (line,) = github.annotations(failing)
    assert line.startswith("::error title=sampler-audit vllm%3A top_k+top_p+min_p::every single")
    assert "5.4 %25 of the mass" in line
    assert "%0Akept set: FAIL" in line
    assert "\n" not in line


def test_commas_and_carriage_returns_cannot_end_a_property(passing: AuditReport) -> None:
    """, -> %2C in titles only, carriage return -> %0D everywhere."""
    report = replace(passing, unavailable=(("a,b", "x,\ry"),))
    assert github.annotations(report) == [
        "::warning title=sampler-audit a%2Cb::not reached: x,%0Dy"
    ]


def test_nothing_wrong_nothing_said(passing: AuditReport) -> None:
    """A green run has no annotation."""
    assert github.annotations(passing) == []


@pytest.mark.parametrize("outcome", ["inconclusive", "error"])
def test_what_could_not_be_judged_is_a_warning(passing: AuditReport, outcome: Outcome) -> None:
    """Neither red nor silent."""
    report = replace(passing, targets=(replace(passing.targets[0], outcome=outcome),))
    (line,) = github.annotations(report)
    assert line.startswith("::warning title=sampler-audit builtin::")


def test_a_pooled_failure_is_an_error_too(passing: AuditReport) -> None:
    """It belongs to no combination."""
    report = replace(passing, targets=(replace(passing.targets[0], outcome="fail"),))
    (line,) = github.annotations(report)
    assert line.startswith("::error title=sampler-audit builtin::FAIL")


def test_a_search_that_finds_nothing_warns(passing: AuditReport) -> None:
    """Engines that are not here are no warning of their own."""
    report = replace(passing, searched=True, unavailable=(("vllm", "not installed"),))
    (line,) = github.annotations(report)
    assert "Nothing was learned" in line


def test_at_most_ten_errors_and_the_rest_is_counted(failing: AuditReport) -> None:
    """Twelve targets with one finding each: nine are shown, three counted."""
    lines = github.annotations(replace(failing, targets=(failing.targets[1],) * 12))
    assert len(lines) == 10
    assert lines[-1].endswith("3 more findings: see the step summary")
