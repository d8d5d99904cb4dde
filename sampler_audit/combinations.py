"""Cells by combination of filters: which fail, on which rows a fault first shows, the way out."""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from sampler_audit.evidence import RunEvidence
from sampler_audit.examine import Examined
from sampler_audit.plan import AuditPlan, combo_order
from sampler_audit.results import CellResult, ComboResult, Outcome
from sampler_audit.statistics.chi_square import ChiSquareResult, combine
from sampler_audit.statistics.e_values import e_bonferroni_threshold, log_mean_exp
from sampler_audit.statistics.multiplicity import holm
from sampler_scenarios.params import Combo, combo_name


def combine_cells(
    cells: Sequence[CellResult],
    examined: Sequence[Examined],
    plan: AuditPlan,
    run: RunEvidence,
) -> tuple[ComboResult, ...]:
    """One result a combination, the smaller first.

    Where no cell fails and the draws of the run do, the smallest combination that holds what the
    strongest alternative needs fails by name, with the cells that say most.
    """
    evidence = {e.result.cell: e.evidence for e in examined if e.evidence is not None}
    by_combo: dict[Combo, list[CellResult]] = defaultdict(list)
    for cell in cells:
        by_combo[cell.combo].append(cell)
    ordered = sorted(by_combo, key=combo_order)
    chi = {
        combo: combine([evidence[c.cell].result for c in by_combo[combo] if c.cell in evidence])
        for combo in ordered
    }
    adjusted = holm([chi[combo].pvalue for combo in ordered])
    first = _first_kinds(by_combo)
    results = tuple(
        replace(
            _named(_combo_result(combo, by_combo[combo], chi[combo], first[combo]), plan),
            pvalue_holm=float(pvalue),
            nearest_passing=_nearest_passing(combo, by_combo, first[combo]),
        )
        for combo, pvalue in zip(ordered, adjusted, strict=True)
    )
    wrong = plan.gate == "e-value" and run.log_e >= math.log(1 / plan.alpha)
    if not wrong or run.strongest is None or any(r.outcome == "fail" for r in results):
        return results
    blamed = next(r.combo for r in results if set(run.strongest.requires) <= set(r.combo))
    return tuple(blame(r, by_combo[r.combo]) if r.combo == blamed else r for r in results)


def blame(result: ComboResult, cells: Sequence[CellResult]) -> ComboResult:
    """A combination that only the pooled draws show to be wrong, with its most telling cells."""
    evidence = {c.cell: c.histogram.log_e for c in cells if c.histogram}
    telling = sorted(evidence, key=lambda cell: -evidence[cell])[:3]
    kinds = dict.fromkeys(c.row_kind for t in telling for c in cells if c.cell == t)
    return replace(
        result,
        outcome="fail",
        worst=telling[0] if telling else "",
        first_kinds=tuple(kinds),
        row_kinds=tuple((kind, 0) for kind in kinds),
    )


def _first_kinds(by_combo: Mapping[Combo, Sequence[CellResult]]) -> dict[Combo, frozenset[str]]:
    """The kinds of row on which a combination fails and no proper subset of it does."""
    failing = {
        combo: {c.row_kind for c in cells if c.counts_as_failed}
        for combo, cells in by_combo.items()
    }
    return {
        combo: frozenset(kinds).difference(
            *(failing[smaller] for smaller in failing if set(smaller) < set(combo))
        )
        for combo, kinds in failing.items()
    }


def _combo_result(
    combo: Combo, cells: Sequence[CellResult], chi: ChiSquareResult, first: frozenset[str]
) -> ComboResult:
    failed = [c for c in cells if c.outcome == "fail"]
    kinds = Counter(cell.row_kind for cell in failed)
    telling = [c for c in failed if c.counts_as_failed and c.row_kind in first] or failed
    drawn = [c.histogram for c in cells if c.histogram]
    return ComboResult(
        combo=combo,
        outcome=_combo_outcome(cells),
        n_cells=len(cells),
        n_failed=len(failed),
        n_band=sum(c.kept is not None and c.kept.verdict == "BAND" for c in cells),
        n_draws=sum(h.n_draws for h in drawn),
        n_drawn_cells=len(drawn),
        statistic=chi.statistic,
        dof=chi.dof,
        pvalue=chi.pvalue,
        g_statistic=chi.g_statistic,
        g_pvalue=chi.g_pvalue,
        log_e=float(log_mean_exp(np.array([h.log_e for h in drawn]))) if drawn else 0.0,
        worst=max(telling, key=_badness).cell if telling else "",
        row_kinds=tuple(sorted(kinds.items(), key=lambda item: (-item[1], item[0]))),
        first_kinds=tuple(sorted(first, key=lambda kind: (-kinds[kind], kind))),
    )


def _named(result: ComboResult, plan: AuditPlan) -> ComboResult:
    """A combination fails by name where its cells' share of the run's evidence fails the run."""
    if plan.gate != "e-value" or not result.n_drawn_cells:
        return result
    total = result.log_e + math.log(result.n_drawn_cells)
    wrong = total >= e_bonferroni_threshold(plan.alpha, len(plan.cells))
    return replace(result, outcome="fail") if wrong else result


def _combo_outcome(cells: Sequence[CellResult]) -> Outcome:
    seen = {cell.outcome for cell in cells}
    worst_first: tuple[Outcome, ...] = ("fail", "error", "inconclusive", "pass")
    return next((outcome for outcome in worst_first if outcome in seen), "not_applicable")


def _badness(cell: CellResult) -> float:
    """Probability moved: by the kept set where that failed, else by the draws."""
    if cell.kept is not None and cell.kept.verdict == "FAIL":
        return 1 + cell.kept.lost_mass + cell.kept.gained_mass
    return cell.histogram.total_variation if cell.histogram else 0.0


def _nearest_passing(
    combo: Combo, by_combo: Mapping[Combo, Sequence[CellResult]], kinds: frozenset[str]
) -> tuple[str, ...]:
    """The largest subsets that pass on every row of these kinds, then settings that pass on one."""

    def passes(other: Combo) -> bool:
        seen = {c.outcome for c in by_combo[other] if c.row_kind in kinds}
        return "pass" in seen and "fail" not in seen

    smaller = [other for other in by_combo if other and set(other) < set(combo) and passes(other)]
    largest = max((len(other) for other in smaller), default=0)
    mine = [c for c in by_combo[combo] if c.row_kind in kinds]
    failing_rows = {c.cell.split("/")[0] for c in mine if c.outcome == "fail"}
    settings = [
        "/".join(c.cell.split("/")[:2])
        for c in mine
        if c.outcome == "pass" and c.cell.split("/")[0] in failing_rows
    ]
    return (*(combo_name(o) for o in smaller if len(o) == largest), *settings[:2])
