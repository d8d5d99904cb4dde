"""What the draws of a whole run say: named defects, pooled over the cells where each could act.

Also whether this very run would have found each of them. Sees examined cells and the defects'
laws; decides nothing.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sampler_audit.examine import Examined
from sampler_audit.plan import AuditPlan
from sampler_audit.results import Coverage
from sampler_audit.statistics.bins import binned
from sampler_audit.statistics.e_values import (
    defect_log_e,
    log_mean_exp,
    pooled_log_e,
    pooled_threshold,
    run_log_e,
)
from sampler_audit.statistics.power import PlannedCell, coverage, draws_needed
from sampler_reference.defects import DEFECTS, POOLED
from sampler_reference.distribution import Distribution
from sampler_scenarios.params import FILTERS, Combo

CELLS_PER_COMBO = 16
"""How many cells of a combination carry the pooled evidence: those with few survivors first."""

_LARGEST_EVIDENCE_VOCAB_SIZE = 4096
_ALL_SETS: tuple[Combo, ...] = tuple(
    tuple(name for i, name in enumerate(FILTERS) if bits >> i & 1) for bits in range(16)
)


@dataclass(frozen=True, eq=False)
class Alternatives:
    """The named defects, held against the cells that carry the pooled evidence.

    ``laws[defect][i]`` is the defect's law ``[vocab_size]`` in cell i.
    """

    cells: tuple[Examined, ...]
    laws: Mapping[str, tuple[NDArray[np.float64], ...]]

    def members(self) -> NDArray[np.bool_]:
        """``[16, n_cells]``: whether a cell has every filter of a set on."""
        return np.array([[set(s) <= set(c.cell.combo) for c in self.cells] for s in _ALL_SETS])


def build_alternatives(examined: Sequence[Examined]) -> Alternatives:
    """Choose the cells, by the reference alone, and compute every defect's law in them."""
    by_combo: dict[Combo, list[Examined]] = defaultdict(list)
    for one in examined:
        if one.distribution is not None and _carries_evidence(one.distribution):
            by_combo[one.cell.combo].append(one)
    chosen = tuple(
        one
        for group in by_combo.values()
        for one in sorted(group, key=_many_survivors)[:CELLS_PER_COMBO]
    )
    return Alternatives(chosen, {name: tuple(_law(name, c) for c in chosen) for name in POOLED})


def _carries_evidence(distribution: Distribution) -> bool:
    small = distribution.may_keep.size <= _LARGEST_EVIDENCE_VOCAB_SIZE
    return small and bool(distribution.may_keep.any())


def _many_survivors(one: Examined) -> bool:
    assert one.distribution is not None
    return not 2 <= int(one.distribution.may_keep.sum()) <= 64


def _law(name: str, one: Examined) -> NDArray[np.float64]:
    law = DEFECTS[name].law
    assert law is not None
    assert one.logits is not None
    assert one.params is not None
    return law(one.logits, one.params, one.conventions)


def log_e_of_run(examined: Sequence[Examined], alternatives: Alternatives) -> float:
    """Evidence, in nats, that anything at all is wrong with the draws of this run."""
    cells = np.array([e.result.histogram.log_e for e in examined if e.result.histogram])
    checks = [c for e in examined for c in e.result.checks if c.check == "independence"]
    order = [c.log_e for c in checks if c.log_e is not None]
    independence = log_mean_exp(np.array(order)) if order else None
    pooled = [_pooled(alternatives), _ignored_filters(examined)]
    return float(run_log_e(np.concatenate(pooled), cells, independence))


def _pooled(alternatives: Alternatives) -> NDArray[np.float64]:
    """Log e-values of every defect crossed with the filters that must be on, ``[n * 16]``."""
    drawn = [i for i, c in enumerate(alternatives.cells) if c.evidence is not None]
    if not drawn:
        return np.zeros(0)
    members = alternatives.members()[:, drawn]
    return np.concatenate(
        [
            pooled_log_e(np.array([_cell_evidence(alternatives, n, i) for i in drawn]), members)
            for n in POOLED
        ]
    )


def _cell_evidence(alternatives: Alternatives, name: str, i: int) -> float:
    evidence = alternatives.cells[i].evidence
    assert evidence is not None
    q_defect = binned(evidence.labels, alternatives.laws[name][i])
    return float(defect_log_e(evidence.counts, q_defect, evidence.box))


def _ignored_filters(examined: Sequence[Examined]) -> NDArray[np.float64]:
    """Log e-values of "this filter has no effect", one a filter, pooled over the cells asked."""
    by_filter: dict[str, list[float]] = defaultdict(list)
    for one in examined:
        for check in one.result.checks:
            if check.check.startswith("no effect") and check.log_e is not None:
                by_filter[check.check].append(check.log_e)
    return np.array([float(pooled_log_e(np.array(v))) for v in by_filter.values()])


def cover(alternatives: Alternatives, plan: AuditPlan) -> tuple[Coverage, ...]:
    """For every defect of the list and every set of filters that it may need: would it be found?"""
    n_alternatives = len(POOLED) * len(_ALL_SETS) + len(FILTERS)
    threshold = pooled_threshold(plan.alpha, n_alternatives)
    members = alternatives.members()
    found = []
    for name in POOLED:
        laws = alternatives.laws[name]
        visible = [
            _support_differs(law, c) for law, c in zip(laws, alternatives.cells, strict=True)
        ]
        for required, inside in zip(_ALL_SETS, members, strict=True):
            at = np.flatnonzero(inside)
            one = _cover_one(name, required, at, visible, alternatives, threshold, plan.seed)
            if one is not None:
                found.append(one)
    return tuple(found)


def _support_differs(law: NDArray[np.float64], one: Examined) -> bool:
    """Whether the kept-set check sees the defect: it leaks or loses a token beyond the band."""
    assert one.distribution is not None
    leaks = (law > 0) & ~one.distribution.may_keep
    loses = (law == 0) & one.distribution.must_keep
    return bool(leaks.any() or loses.any())


def _cover_one(
    name: str,
    required: Combo,
    at: NDArray[np.intp],
    visible: Sequence[bool],
    alternatives: Alternatives,
    threshold: float,
    seed: int,
) -> Coverage | None:
    """None where no cell of the plan could show this defect."""
    if any(visible[i] for i in at):
        return Coverage(defect=name, requires=required, covered=True, by="kept set", power=1.0)
    planned = []
    for i in at:
        evidence = alternatives.cells[i].evidence
        if evidence is not None:
            q_defect = binned(evidence.labels, alternatives.laws[name][i])
            planned.append(PlannedCell(evidence.box, q_defect, int(evidence.counts.sum())))
    rng = np.random.default_rng([seed, POOLED.index(name), _ALL_SETS.index(required)])
    power = coverage(planned, threshold, rng) if planned else None
    if power is None or power.n_cells == 0:
        return None
    cure = ""
    if not power.covered:
        factor = draws_needed(planned, threshold, rng)
        more = f"--draws x{factor}" if factor else "no number of draws tried is enough"
        cure = f"{more}; power now {power.n_found} of {power.n_runs}"
    return Coverage(
        defect=name,
        requires=required,
        covered=power.covered,
        by="draws",
        power=power.lower95,
        cure=cure,
    )
