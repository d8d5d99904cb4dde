import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sampler_audit.combinations import combine_cells
from sampler_audit.draws import Target
from sampler_audit.evidence import (
    Alternative,
    RunEvidence,
    build_alternatives,
    cover,
    evidence_of_run,
)
from sampler_audit.examine import Examined, examine
from sampler_audit.plan import AuditPlan, Gate, build_plan
from sampler_audit.results import CellResult, CheckResult, Coverage, Histogram
from sampler_audit.verdict import decide, fitting_conventions, name_cells

MakeTarget = Callable[..., Target]
GATE = math.log(1e4)
PLAN = build_plan(combos="core", seed=1)
QUIET = RunEvidence(0.0)


def halved(probs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Temperature twice at T = 0.5, seen from the law at T = 1: no kept set shows it."""
    squared = probs**2
    return np.asarray(squared / squared.sum())


def examine_all(plan: AuditPlan, target: Target) -> list[Examined]:
    """Every cell of a small plan."""
    return [examine(cell, target, plan) for cell in plan.cells]


def one_cell(**changes: object) -> CellResult:
    """A passing cell, changed."""
    cell = CellResult(cell="a/neutral/batch=alone", combo=(), row_kind="a", outcome="pass")
    return replace(cell, **changes)  # type: ignore[arg-type]  # fields by name


def test_evidence_of_a_healthy_run_stays_below_the_gate(
    make_target: MakeTarget, plan: AuditPlan
) -> None:
    """At this seed; the false-alarm rate itself is measured in tests/calibration."""
    examined = examine_all(plan, make_target())
    assert evidence_of_run(examined, build_alternatives(examined)).log_e < math.log(20)


def test_evidence_of_a_wrong_shape_crosses_the_gate(
    make_target: MakeTarget, plan: AuditPlan
) -> None:
    """Power twin: squared probabilities change no kept set and fail the run."""
    examined = examine_all(plan, make_target(halved))
    evidence = evidence_of_run(examined, build_alternatives(examined))
    assert evidence.log_e > GATE
    assert decide(name_cells(examined, plan), evidence, (), plan, complete=True)[0] == "fail"


def test_chi_square_gate_fails_the_same_run(make_target: MakeTarget, plan: AuditPlan) -> None:
    """The classical alternative: Holm-adjusted G below alpha."""
    classical = replace(plan, gate="chi-square")
    bad = name_cells(examine_all(classical, make_target(halved)), classical)
    assert any(cell.outcome == "fail" for cell in bad)
    good = name_cells(examine_all(classical, make_target()), classical)
    assert not any(cell.outcome == "fail" for cell in good)


def test_coverage_names_how_each_defect_would_be_found(
    make_target: MakeTarget, plan: AuditPlan
) -> None:
    """A dropped token shows in the draws; with one draw a cell only in what is said to be kept."""
    triple = ("top_k", "top_p", "min_p")
    for n_draws, by in ((200, "draws"), (1, "kept set")):
        small = replace(plan, n_draws=n_draws)
        alternatives = build_alternatives(examine_all(small, make_target()))
        covered = {(c.defect, c.requires): c for c in cover(alternatives, small)}
        assert covered["weakest-dropped", triple].by == by
        assert covered["weakest-dropped", ()].covered


def test_the_classical_gate_has_power_of_its_own(make_target: MakeTarget) -> None:
    """Under it one cell has to show the defect; a run of two cells with 4000 draws does."""
    plan = build_plan(
        combos="temperature", rows="finite-3-front,finite-20-spread", n_draws=4000, seed=3
    )
    alternatives = build_alternatives(examine_all(plan, make_target()))
    gates: dict[Gate, bool] = {"e-value": False, "chi-square": True}
    for gate, covered in gates.items():
        rows = cover(alternatives, replace(plan, gate=gate))
        (twice,) = [c for c in rows if c.defect == "temperature-twice" and c.requires == ()]
        assert (twice.by, twice.covered) == ("draws", covered)


def test_coverage_without_enough_draws_says_how_many_more(make_target: MakeTarget) -> None:
    """Temperature twice is a matter of draws, and one draw a cell cannot show it."""
    plan = build_plan(combos="temperature", rows="runner-up-0.2", n_draws=1, seed=3)
    covered = cover(build_alternatives(examine_all(plan, make_target())), plan)
    (twice,) = [c for c in covered if c.defect == "temperature-twice" and c.requires == ()]
    assert not twice.covered
    assert "draws" in twice.cure


def decide_on(
    cells: Sequence[CellResult], plan: AuditPlan, log_e: float = 0.0, covered: bool = True
) -> str:
    """The outcome of a complete run with one defect on the list."""
    coverage = Coverage(defect="d", requires=(), covered=covered, by="draws", power=0.5)
    return decide(cells, RunEvidence(log_e), [coverage], plan, complete=True)[0]


def test_outcomes_in_order_of_gravity(plan: AuditPlan) -> None:
    """A fault wins over an error, an error over doubt, doubt over a pass."""
    good, bad = one_cell(), one_cell(outcome="fail")
    broken = one_cell(outcome="error")
    doubtful = one_cell(checks=(CheckResult(check="support", outcome="inconclusive"),))
    assert decide_on([good], plan) == "pass"
    assert decide_on([good, doubtful], plan) == "inconclusive"
    assert decide_on([good, doubtful, broken], plan) == "error"
    assert decide_on([good, doubtful, broken, bad], plan) == "fail"


def test_pass_needs_power_and_quiet_evidence(plan: AuditPlan) -> None:
    """Neither a gap in coverage nor an e-value of over 20 passes."""
    assert decide_on([one_cell()], plan, covered=False) == "inconclusive"
    assert decide_on([one_cell()], plan, log_e=math.log(21)) == "inconclusive"
    assert decide_on([one_cell()], plan, log_e=GATE + 0.01) == "fail"


def test_a_plan_without_an_applicable_cell_is_inconclusive(plan: AuditPlan) -> None:
    """Nothing tried is nothing learned."""
    assert decide_on([one_cell(outcome="not_applicable")], plan) == "inconclusive"


def test_the_minimal_failing_combination_and_the_way_out() -> None:
    """The field report's lattice: singles and pairs pass, the triple and all four fail."""
    triple = ("top_k", "top_p", "min_p")
    row = "finite-3-front@1024"
    cells = [
        one_cell(cell=f"{row}/{'-'.join(combo)}/batch=alone", combo=combo, outcome=outcome)
        for combo, outcome in (
            (("top_k",), "pass"),
            (("top_k", "top_p"), "pass"),
            (triple, "fail"),
            (("temperature", *triple), "fail"),
        )
    ]
    combos = {c.combo: c for c in combine_cells(cells, [], PLAN, QUIET)}
    assert combos[triple].minimal
    assert not combos["temperature", *triple].minimal
    assert combos[triple].nearest_passing == ("top_k+top_p",)
    assert combos[triple].worst == f"{row}/top_k-top_p-min_p/batch=alone"


def test_a_fault_is_named_where_it_first_shows() -> None:
    """Constant rows fail with top_k alone; that does not hide where three finite logits fail."""
    cells = [
        one_cell(
            cell=f"{kind}@9/{'-'.join(combo)}/batch=alone",
            combo=combo,
            row_kind=kind,
            outcome="fail" if fails else "pass",
        )
        for kind, combo, fails in (
            ("constant", ("top_k",), True),
            ("constant", ("top_k", "top_p"), True),
            ("finite-3", ("top_k",), False),
            ("finite-3", ("top_k", "top_p"), True),
        )
    ]
    single, pair = combine_cells(cells, [], PLAN, QUIET)
    assert (single.first_kinds, pair.first_kinds) == (("constant",), ("finite-3",))
    assert pair.row_kinds == (("constant", 1), ("finite-3", 1))
    assert pair.worst.startswith("finite-3")
    assert pair.nearest_passing == ("top_k",)


def test_a_run_that_only_its_pooled_draws_fail_names_a_combination() -> None:
    """The smallest that holds what the strongest alternative needs, and the most telling row."""
    cells = [
        one_cell(cell=f"zipf@9/{'-'.join(combo)}/batch=alone", combo=combo, row_kind="zipf")
        for combo in (("top_k",), ("temperature", "top_k"))
    ]
    histogram = Histogram(
        n_draws=25,
        statistic=9.0,
        dof=3,
        pvalue=0.03,
        g_statistic=9.0,
        g_pvalue=0.03,
        log_e=2.0,
        total_variation=0.2,
    )
    drawn = [replace(cell, histogram=histogram) for cell in cells]
    run = RunEvidence(20.0, Alternative("temperature-twice", ("temperature",)))
    single, pair = combine_cells(drawn, [], PLAN, run)
    assert (single.outcome, pair.outcome) == ("pass", "fail")
    assert pair.first_kinds == ("zipf",)
    assert pair.worst == drawn[1].cell


def test_a_known_fault_makes_no_combination_minimal() -> None:
    """It is counted, and no fault first shows there."""
    known = one_cell(cell="a/k/batch=alone", combo=("top_k",), outcome="fail", known="why (link)")
    (combo,) = combine_cells([known], [], PLAN, QUIET)
    assert (combo.n_failed, combo.minimal) == (1, False)


def test_fitting_conventions_are_those_that_allow_every_kept_set(
    make_target: MakeTarget,
) -> None:
    """Exactly-k does not fit where all ties stay, and the reverse."""
    plan = build_plan(combos="top_k", rows="ties-at-k", seed=1)
    target = make_target()
    fits = fitting_conventions(examine_all(plan, target), target.info)
    assert "sampler-audit" in fits
    assert "huggingface" not in fits
