"""Minimal failing combinations in words."""

from dataclasses import replace

import pytest

from sampler_audit.reports.findings import cell_facts, findings, lattice_words
from sampler_audit.results import CheckResult, ComboResult, Outcome, TargetReport


def combo(*names: str, outcome: Outcome = "pass") -> ComboResult:
    """A combination with one cell."""
    return ComboResult(combo=names, outcome=outcome, n_cells=1, n_failed=int(outcome == "fail"))


PAIR = combo("top_k", "min_p", outcome="fail")


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ([combo("top_k"), combo("min_p")], "every single filter passes, top_k+min_p fails"),
        (
            [combo("top_k"), combo("min_p"), combo("top_p", outcome="fail")],
            "every single filter of it passes, top_k+min_p fails",
        ),
        (
            [combo("top_k"), combo("min_p", outcome="inconclusive")],
            "1 of its 2 single filters pass and none fails, top_k+min_p fails",
        ),
        (
            [combo("top_k", outcome="fail"), combo("min_p")],
            "top_k+min_p fails, on rows on which no smaller combination does",
        ),
        ([], "top_k+min_p fails"),
    ],
    ids=["all", "its own", "some", "other rows", "not tried"],
)
def test_the_lattice_says_no_more_than_was_tried(others: list[ComboResult], words: str) -> None:
    """What passes below the failing combination."""
    assert lattice_words(PAIR, [*others, PAIR]) == words


def test_only_minimal_failures_are_findings(vllm: TargetReport) -> None:
    """The quadruple fails because the triple does."""
    quadruple = combo("temperature", "top_k", "top_p", "min_p", outcome="fail")
    both = replace(vllm, combos=(*vllm.combos, quadruple))
    assert [finding.combo for finding in findings(both)] == ["top_k+top_p+min_p"]


def test_a_finding_holds_row_loss_odds_and_what_to_do(vllm: TargetReport) -> None:
    """Everything that the field report needed."""
    (finding,) = findings(vllm)
    assert "1 (token 665): 5.4 % of the mass" in finding.text
    assert "kept 3 tokens, expected 4" in finding.text
    assert "114.2 on 3 degrees of freedom" in finding.text
    assert finding.repeat.endswith("--seed 7")
    assert finding.workaround == "top_k+top_p, top_k+min_p, top_p+min_p"


def test_a_check_that_fails_is_a_fact_and_one_that_passes_is_not(vllm: TargetReport) -> None:
    """A cell whose kept set and histogram are right."""
    checks = (
        CheckResult(check="support", outcome="pass"),
        CheckResult(check="seeds", outcome="fail", reason="seed 5 gives 3 alone and 4 in a batch"),
    )
    cell = replace(vllm.cells[-1], kept=None, histogram=None, checks=checks, reason="")
    assert cell_facts(cell) == [("seeds", "seed 5 gives 3 alone and 4 in a batch")]


def test_a_gained_token_is_told_by_its_kept_weight(vllm: TargetReport) -> None:
    """Two tokens gained, one of them shown, under a rule that another convention has."""
    kept = vllm.cells[-1].kept
    assert kept is not None
    gained = replace(
        kept,
        n_lost=0,
        n_gained=2,
        gained=(9,),
        gained_mass=0.012,
        also_allowed_by=("huggingface",),
    )
    facts = dict(cell_facts(replace(vllm.cells[-1], kept=gained)))
    assert "gained 2 (tokens 9, ...): 1.2 % of the kept weight" in facts["kept set"]
    assert "fits huggingface" in facts["kept set"]
