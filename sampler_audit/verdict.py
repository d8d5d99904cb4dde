"""The verdict on one target, at the run's stated false-alarm rate.

Names the cells that fail, says which conventions fit, and says PASS only where planted defects
would have been found.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from sampler_audit.draws import TargetInfo
from sampler_audit.evidence import RunEvidence
from sampler_audit.examine import Examined
from sampler_audit.plan import AuditPlan
from sampler_audit.results import CellResult, CheckResult, Coverage, Outcome
from sampler_audit.statistics.e_values import e_bonferroni_threshold
from sampler_audit.statistics.multiplicity import holm
from sampler_reference.conventions import CONVENTIONS
from sampler_reference.kept_sets import judge_kept

SUSPICIOUS = math.log(20)
"""Evidence, in nats, from which a run that did not fail is not called passed either."""


def name_cells(examined: Sequence[Examined], plan: AuditPlan) -> tuple[CellResult, ...]:
    """The cells' results with p-values adjusted over the run and e-values that fail by name."""
    drawn = [e.result.histogram for e in examined if e.result.histogram]
    pearson_adjusted = iter(holm([h.pvalue for h in drawn]).tolist())
    g_adjusted = iter(holm([h.g_pvalue for h in drawn]).tolist())
    threshold = e_bonferroni_threshold(plan.alpha, len(plan.cells))
    named = []
    for one in examined:
        result = one.result
        if result.histogram:
            histogram = replace(
                result.histogram, pvalue_holm=next(pearson_adjusted), g_pvalue_holm=next(g_adjusted)
            )
            result = replace(result, histogram=histogram)
            gated = histogram.g_pvalue_holm < plan.alpha
            if histogram.log_e >= threshold if plan.gate == "e-value" else gated:
                reason = "the draws do not follow the reference distribution"
                failed = CheckResult(check="histogram", outcome="fail", reason=reason)
                result = replace(
                    result,
                    outcome="fail",
                    reason=result.reason or reason,
                    checks=(*result.checks, failed),
                )
        named.append(result)
    return tuple(named)


def decide(
    cells: Sequence[CellResult],
    evidence: RunEvidence,
    coverage: Sequence[Coverage],
    plan: AuditPlan,
    *,
    complete: bool,
) -> tuple[Outcome, str]:
    """The outcome of a target and its reason; ``complete`` is false for single cells."""
    failed = [c for c in cells if c.counts_as_failed]
    if failed:
        verb = "is" if len(failed) == 1 else "are"
        return "fail", f"{len(failed)} of {len(cells)} cells {verb} wrong"
    if plan.gate == "e-value" and evidence.log_e >= math.log(1 / plan.alpha):
        whole = "the draws of the run as a whole do not follow the reference"
        return "fail", f"{whole}; they look like {evidence.strongest or 'no known defect'}"
    errors = [c for c in cells if c.outcome == "error"]
    if errors:
        return "error", f"{len(errors)} cells could not be tried: {errors[0].reason}"
    if not cells:
        return "inconclusive", "no cell was done"
    if not any(c.outcome == "pass" or c.known for c in cells):
        return "inconclusive", "no cell of this plan applies to the target"
    if not complete:
        return "pass", "nothing is wrong in what was tried, which is not the whole plan"
    return _proved(cells, evidence.log_e, coverage)


def _proved(
    cells: Sequence[CellResult], log_e_run: float, coverage: Sequence[Coverage]
) -> tuple[Outcome, str]:
    doubtful = [c for cell in cells for c in cell.checks if c.outcome == "inconclusive"]
    if doubtful:
        return "inconclusive", doubtful[0].reason
    if log_e_run > SUSPICIOUS:
        return "inconclusive", "the evidence is suspicious, but below the gate: draw more"
    missing = [c for c in coverage if not c.covered]
    if missing:
        first = missing[0]
        return (
            "inconclusive",
            f"{len(missing)} of {len(coverage)} pairs of a planted defect and the filters that "
            f"must be on might be missed, as {first.defect}: {first.cure}",
        )
    return "pass", "every planted defect that its cells can show would have been found"


def fitting_conventions(examined: Sequence[Examined], info: TargetInfo) -> tuple[str, ...]:
    """The named conventions under which no kept set of the run fails."""
    judged = [e for e in examined if e.mask is not None and e.result.kept is not None]
    gated = [e for e in judged if e.result.kept and e.result.kept.verdict != "UNGATED"]
    return tuple(name for name in CONVENTIONS if gated and all(_fits(e, name, info) for e in gated))


def _fits(one: Examined, name: str, info: TargetInfo) -> bool:
    if name == one.conventions.name:
        return one.result.kept is not None and one.result.kept.verdict != "FAIL"
    assert one.mask is not None
    assert one.logits is not None
    assert one.params is not None
    found = judge_kept(
        one.mask, one.logits, one.params, CONVENTIONS[name], info.mass_error, info.min_p_error
    )
    return found.verdict != "FAIL"
