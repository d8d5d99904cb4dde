"""Exit codes and verdicts."""

from dataclasses import replace

import pytest

from sampler_audit.reports import conclusion
from sampler_audit.results import AuditReport, Coverage, Outcome, TargetReport


def run_of(report: AuditReport, *outcomes: Outcome) -> AuditReport:
    """The report with one target for each outcome."""
    return replace(
        report, targets=tuple(replace(report.targets[0], outcome=outcome) for outcome in outcomes)
    )


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        (("pass",), 0),
        (("fail",), 1),
        (("inconclusive",), 3),
        (("error",), 3),
        (("not_applicable",), 3),
        (("pass", "inconclusive"), 3),
        (("error", "fail", "pass"), 1),
        ((), 3),
    ],
)
def test_one_wins_over_three_and_three_over_zero(
    passing: AuditReport, outcomes: tuple[Outcome, ...], code: int
) -> None:
    """Over several targets, as architecture 5 rules."""
    assert conclusion.exit_code(run_of(passing, *outcomes)) == code


@pytest.mark.parametrize(
    ("outcome", "code"), [("inconclusive", 0), ("error", 3), ("fail", 1), ("pass", 0)]
)
def test_allow_inconclusive_pardons_a_lack_of_power_only(
    passing: AuditReport, outcome: Outcome, code: int
) -> None:
    """An engine that could not be audited stays a 3."""
    assert conclusion.exit_code(run_of(passing, outcome), allow_inconclusive=True) == code


def test_an_interrupted_run_ends_130_whatever_was_found(failing: AuditReport) -> None:
    """Even where a fault was found before."""
    assert conclusion.exit_code(replace(failing, interrupted=True)) == 130


def test_a_named_target_that_is_not_reached_is_a_failure(passing: AuditReport) -> None:
    """The user asked for it."""
    missing = replace(passing, unavailable=(("vllm", "pip install vllm"),))
    assert conclusion.exit_code(missing) == 3


def test_a_search_that_finds_an_engine_may_miss_others(failing: AuditReport) -> None:
    """Builtin and vllm pass, flashinfer is not installed."""
    found = replace(
        run_of(failing, "pass"), searched=True, unavailable=(("flashinfer", "not installed"),)
    )
    vllm = replace(found.targets[0], info=failing.targets[1].info)
    assert conclusion.exit_code(replace(found, targets=(*found.targets, vllm))) == 0


def test_a_search_that_finds_no_engine_learned_nothing(passing: AuditReport) -> None:
    """Builtin passes, and no engine was looked at."""
    alone = replace(passing, searched=True, unavailable=(("vllm", "not installed"),))
    assert conclusion.nothing_learned(alone)
    assert conclusion.exit_code(alone) == 3
    assert conclusion.exit_code(alone, allow_inconclusive=True) == 3


def test_a_failure_states_rule_odds_and_false_alarm_rate(vllm: TargetReport) -> None:
    """exp(103) = 5.4e44, one kept set of nine is wrong."""
    text = conclusion.verdict(vllm, alpha=1e-4)
    assert text.startswith("FAIL  vllm: 1 of 9 cells is wrong. Smallest failing combinations:")
    assert "top_k+top_p+min_p" in text
    assert "1 kept set broke an exact rule" in text
    assert "more than 10^44 to 1" in text
    assert "at most 1 run in 10,000" in text


def test_known_faults_are_no_reason_of_a_failure(vllm: TargetReport) -> None:
    """The one wrong kept set is known."""
    known = replace(vllm.cells[-1], known="seen (link)")
    text = conclusion.verdict(replace(vllm, cells=(known,)), alpha=1e-4)
    assert "exact rule" not in text


def test_evidence_below_the_gate_is_no_odds(vllm: TargetReport) -> None:
    """ln(1/1e-4) = 9.21."""
    assert "Odds" not in conclusion.verdict(replace(vllm, log_e_run=9.2), alpha=1e-4)


def test_coverage_counts_defects_and_names_what_is_missed(vllm: TargetReport) -> None:
    """One of two, with the cure."""
    assert conclusion.coverage(vllm) == (
        "This run would have found 1 of the 2 planted defects that its cells can show; crossed with"
        " the filters that must be on, 1 of 2. Not covered: temperature-twice (--draws x4)."
    )


def test_a_defect_that_is_missed_under_one_combination_is_not_found(vllm: TargetReport) -> None:
    """weakest-dropped is covered with the triple and missed with top_k."""
    missed = Coverage(
        defect="weakest-dropped", requires=("top_k",), covered=False, by="draws", power=0.4
    )
    text = conclusion.coverage(replace(vllm, coverage=(*vllm.coverage, missed)))
    assert "found 0 of the 2" in text
    assert "weakest-dropped with top_k;" in text


def test_a_defect_that_is_missed_in_many_ways_is_named_once(vllm: TargetReport) -> None:
    """Two sets of filters, the first of them as the example."""
    missed = [
        Coverage(
            defect="min-p-last", requires=requires, covered=False, by="", power=0.0, cure="draw"
        )
        for requires in (("min_p",), ("top_p", "min_p"))
    ]
    text = conclusion.coverage(replace(vllm, coverage=tuple(missed)))
    assert text.endswith("Not covered: min-p-last with 2 sets of filters, as min_p (draw).")


def test_no_coverage_no_sentence(vllm: TargetReport) -> None:
    """Single cells prove no power."""
    assert conclusion.coverage(replace(vllm, coverage=())) == ""
