from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from sampler_audit.draws import Target, TargetInfo
from sampler_audit.examine import examine
from sampler_audit.plan import AuditPlan
from sampler_audit.results import CellResult
from sampler_scenarios.cells import parse_cell

Probs = NDArray[np.float64]
MakeTarget = Callable[..., Target]

TRIPLE = "finite-3-front@1024/top_k=50,top_p=0.95,min_p=0.05/batch=alone"
PROBED = "finite-5-spread@512/top_k=20/batch=mixed-8"


def weakest_dropped(probs: Probs) -> Probs:
    """The field report's fault."""
    kept = np.flatnonzero(probs)
    if kept.size < 2:
        return probs
    left = probs.copy()
    left[kept[np.argmin(probs[kept])]] = 0
    return np.asarray(left / left.sum())


def leaking(probs: Probs) -> Probs:
    """A twentieth of the draws goes to the last token of the vocabulary, which is masked."""
    left = 0.95 * probs
    left[-1] += 0.05
    return left


def check(result: CellResult, name: str) -> str:
    """The outcome of one check of a cell, which fails where any of its parts does."""
    outcomes = {c.outcome for c in result.checks if c.check == name}
    return "fail" if "fail" in outcomes else outcomes.pop()


def test_a_right_sampler_passes_every_check(make_target: MakeTarget, plan: AuditPlan) -> None:
    """Kept set, histogram and support of a cell with nothing wrong."""
    result = examine(parse_cell(TRIPLE), make_target(), plan).result
    assert result.outcome == "pass"
    assert result.kept is not None
    assert result.kept.verdict == "EXACT"
    assert result.histogram is not None
    assert result.histogram.n_draws == plan.n_draws
    assert check(result, "support") == "pass"


def test_a_lost_token_fails_the_kept_set(make_target: MakeTarget, plan: AuditPlan) -> None:
    """With how many were kept and expected, and the mass that is gone."""
    result = examine(parse_cell(TRIPLE), make_target(weakest_dropped), plan).result
    assert result.outcome == "fail"
    assert result.kept is not None
    assert (result.kept.n_kept, result.kept.n_expected, result.kept.n_lost) == (2, 3, 1)
    assert result.kept.lost_mass > 0.05
    assert [step.note for step in result.ladder].count("lost") == 1


def test_a_lost_token_shows_in_the_draws_alone(make_target: MakeTarget, plan: AuditPlan) -> None:
    """Power twin of the histogram: the kept set looks right, the e-value is over 10^4."""
    target = make_target(weakest_dropped, hide_kept=True)
    result = examine(parse_cell(TRIPLE), target, plan).result
    assert result.kept is not None
    assert result.kept.verdict == "EXACT"
    assert result.histogram is not None
    assert result.histogram.log_e > np.log(1e4)


def test_a_leaked_token_is_confirmed_on_a_fresh_sample(
    make_target: MakeTarget, plan: AuditPlan
) -> None:
    """At 5 % of 200 draws, none at all has chance 0.95^200 = 3.5e-5."""
    result = examine(parse_cell(TRIPLE), make_target(leaking, hide_kept=True), plan).result
    assert check(result, "support") == "fail"
    assert result.outcome == "fail"
    assert "fresh sample confirms" in result.reason


def test_seeds_and_noise_are_probed_among_mates(make_target: MakeTarget, plan: AuditPlan) -> None:
    """On the one batch pattern with mates of every sort."""
    result = examine(parse_cell(PROBED), make_target(), plan).result
    names = {c.check for c in result.checks}
    assert {"seeds", "independence", "noise"} <= names
    assert {c.outcome for c in result.checks} == {"pass"}


def test_noise_of_another_law_is_not_that_of_the_reference(
    make_target: MakeTarget, plan: AuditPlan
) -> None:
    """Power twin of the noise check: the same noise over a flat law picks other tokens."""
    flat = make_target(lambda probs: (probs > 0) / (probs > 0).sum())
    result = examine(parse_cell(PROBED), flat, plan).result
    assert check(result, "noise") == "fail"


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ("temperature=0.0,top_k=20", "greedy"),
        ("temperature=0.6,min_p=0.05", "without top_k and top_p"),
    ],
)
def test_a_masking_target_is_not_asked_what_never_reaches_it(
    info: TargetInfo, make_target: MakeTarget, plan: AuditPlan, params: str, reason: str
) -> None:
    """Such a cell is not applicable, and says why."""
    target = replace(make_target(), info=replace(info, draws=False))  # type: ignore[type-var]  # a frozen dataclass behind the protocol
    result = examine(parse_cell(f"dense-normal@129/{params}/batch=alone"), target, plan).result
    assert result.outcome == "not_applicable"
    assert reason in result.reason


def test_a_masking_target_gets_rows_after_temperature_and_min_p(
    info: TargetInfo, make_target: MakeTarget, plan: AuditPlan
) -> None:
    """It is judged by its kept set alone, with what is left of the settings."""
    target = replace(make_target(), info=replace(info, draws=False))  # type: ignore[type-var]  # a frozen dataclass behind the protocol
    cell = parse_cell("dense-normal@129/temperature=0.5,top_k=20,min_p=0.2/batch=mixed-7")
    examined = examine(cell, target, plan)
    assert examined.result.histogram is None
    assert examined.params is not None
    assert examined.params.id == "top_k=20"
    assert examined.logits is not None
    assert np.isneginf(examined.logits).any()
    assert examined.result.kept is not None
    assert examined.result.kept.verdict == "EXACT"


def test_special_values_gate_only_where_a_policy_is_declared(
    make_target: MakeTarget, plan: AuditPlan
) -> None:
    """A wrong kept set on a NaN row of a target without a policy is UNGATED, and passes."""
    cell = parse_cell("nan-one@129/top_k=2/batch=alone")
    result = examine(cell, make_target(weakest_dropped), plan).result
    assert result.kept is not None
    assert result.kept.verdict == "UNGATED"


def test_draws_of_special_values_do_not_gate_without_a_policy(
    make_target: MakeTarget, plan: AuditPlan
) -> None:
    """Power twin: the same leak fails on a row whose logits are finite."""
    target = make_target(leaking, hide_kept=True)
    for row, outcome in (("positive-infinity", "pass"), ("finite-5-spread", "fail")):
        cell = parse_cell(f"{row}@129/top_k=1/batch=alone")
        assert examine(cell, target, plan).result.outcome == outcome
