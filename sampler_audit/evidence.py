"""What the draws of a whole run say: named defects, pooled over the cells where each could act.

Also whether this very run would have found each of them. Sees examined cells and the defects'
laws; decides nothing.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sampler_audit.checks import no_effect, seeds
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
from sampler_audit.statistics.power import (
    PlannedCell,
    Power,
    classical_coverage_by_set,
    coverage_by_set,
    draws_needed,
)
from sampler_reference.defects import DEFECTS, POOLED
from sampler_reference.distribution import Distribution
from sampler_scenarios.params import FILTERS, Combo, combo_name

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
        on = [[set(s) <= set(c.cell.combo) for c in self.cells] for s in _ALL_SETS]
        return np.array(on, dtype=np.bool_)


def build_alternatives(examined: Sequence[Examined]) -> Alternatives:
    """Choose the cells, by the reference alone, and compute every defect's law in them."""
    # Stages are tried in cells of their own; what the defects of the filters do is asked elsewhere.
    plain = (one for one in examined if not one.cell.stages)
    chosen = tuple(one for one in plain if _carries_evidence(one.distribution))
    return Alternatives(chosen, {name: tuple(_law(name, c) for c in chosen) for name in POOLED})


def _carries_evidence(distribution: Distribution | None) -> bool:
    if distribution is None or distribution.may_keep.size > _LARGEST_EVIDENCE_VOCAB_SIZE:
        return False
    return bool(distribution.may_keep.any())


def _law(name: str, one: Examined) -> NDArray[np.float64]:
    law = DEFECTS[name].law
    assert law is not None
    assert one.logits is not None
    assert one.params is not None
    return law(one.logits, one.params, one.conventions)


@dataclass(frozen=True)
class Alternative:
    """A fault of all the cells in which the filters ``requires`` are on."""

    fault: str
    requires: Combo = ()

    def __str__(self) -> str:
        where = f" where {combo_name(self.requires)} are on" if self.requires else ""
        return self.fault + where


@dataclass(frozen=True)
class RunEvidence:
    """``log_e``: evidence, in nats, that anything is wrong with the draws of a run.

    ``strongest`` is the pooled alternative that says so loudest.
    """

    log_e: float
    strongest: Alternative | None = None


def evidence_of_run(examined: Sequence[Examined], alternatives: Alternatives) -> RunEvidence:
    """Named defects, single cells and the order of draws, weighed."""
    cells = np.array([e.result.histogram.log_e for e in examined if e.result.histogram])
    checks = [c for e in examined for c in e.result.checks if c.check == seeds.INDEPENDENCE]
    order = [c.log_e for c in checks if c.log_e is not None]
    independence = log_mean_exp(np.array(order)) if order else None
    pooled = _pooled(alternatives) | _ignored_filters(examined)
    log_e = float(run_log_e(np.array(list(pooled.values())), cells, independence))
    if not pooled:
        return RunEvidence(log_e)
    strongest = max(pooled, key=lambda name: pooled[name])
    return RunEvidence(log_e, strongest)


def _pooled(alternatives: Alternatives) -> dict[Alternative, float]:
    """Log e-values of every defect crossed with the filters that must be on."""
    drawn = [i for i, c in enumerate(alternatives.cells) if c.evidence is not None]
    if not drawn:
        return {}
    members = alternatives.members()[:, drawn]
    by_name = {}
    for name in POOLED:
        log_es = np.array([_cell_evidence(alternatives, name, i) for i in drawn])
        for required, log_e in zip(_ALL_SETS, pooled_log_e(log_es, members), strict=True):
            by_name[Alternative(name, required)] = float(log_e)
    return by_name


def _cell_evidence(alternatives: Alternatives, name: str, i: int) -> float:
    evidence = alternatives.cells[i].evidence
    assert evidence is not None
    q_defect = binned(evidence.labels, alternatives.laws[name][i])
    return float(defect_log_e(evidence.counts, q_defect, evidence.box))


def _ignored_filters(examined: Sequence[Examined]) -> dict[Alternative, float]:
    """Log e-values of "no effect of this filter", pooled over the cells asked."""
    by_filter: dict[str, list[float]] = defaultdict(list)
    for one in examined:
        for check in one.result.checks:
            if check.check.startswith(no_effect.NAME) and check.log_e is not None:
                by_filter[check.check].append(check.log_e)
    return {
        Alternative(name): float(pooled_log_e(np.array(log_es)))
        for name, log_es in by_filter.items()
    }


def cover(alternatives: Alternatives, plan: AuditPlan) -> tuple[Coverage, ...]:
    """For every defect of the list and every set of filters that it may need: would it be found?

    By the draws where they show it, else by the kept set, which proves nothing of an engine whose
    draws do not follow what it says that it keeps. Pairs that no cell could show are left out.
    """
    drawn = [i for i, c in enumerate(alternatives.cells) if c.evidence is not None]
    found = []
    for name in POOLED:
        found += _cover_defect(name, alternatives, drawn, plan)
    return tuple(found)


def _cover_defect(
    name: str, alternatives: Alternatives, drawn: list[int], plan: AuditPlan
) -> list[Coverage]:
    members = alternatives.members()
    laws = zip(alternatives.laws[name], alternatives.cells, strict=True)
    shows = np.array([_support_differs(law, cell) for law, cell in laws], dtype=np.bool_)
    planned = [_planned(alternatives, name, i) for i in drawn]
    threshold = pooled_threshold(plan.alpha, len(POOLED) * len(_ALL_SETS) + len(FILTERS))
    rng = np.random.default_rng([plan.seed, POOLED.index(name)])
    if plan.gate == "e-value":
        powers = coverage_by_set(planned, members[:, drawn], threshold, rng)
    else:
        of_cell = plan.alpha / len(plan.cells)
        powers = classical_coverage_by_set(planned, members[:, drawn], of_cell, rng)
    found = []
    for required, inside, power in zip(_ALL_SETS, members, powers, strict=True):
        if not power.covered and (inside & shows).any():
            found.append(
                Coverage(defect=name, requires=required, covered=True, by="kept set", power=1.0)
            )
        elif power.n_cells > 0:
            here = [cell for i, cell in zip(drawn, planned, strict=True) if inside[i]]
            cure = "" if power.covered else _cure(here, power, threshold, rng)
            found.append(
                Coverage(
                    defect=name,
                    requires=required,
                    covered=power.covered,
                    by="draws",
                    power=power.lower95,
                    cure=cure,
                )
            )
    return found


def _planned(alternatives: Alternatives, name: str, i: int) -> PlannedCell:
    evidence = alternatives.cells[i].evidence
    assert evidence is not None
    q_defect = binned(evidence.labels, alternatives.laws[name][i])
    return PlannedCell(evidence.box, q_defect, int(evidence.counts.sum()))


def _cure(
    cells: Sequence[PlannedCell], power: Power, threshold: float, rng: np.random.Generator
) -> str:
    factor = draws_needed(cells, threshold, rng)
    more = f"--draws x{factor}" if factor else "no number of draws tried is enough"
    return f"{more}; power now {power.n_found} of {power.n_runs}"


def _support_differs(law: NDArray[np.float64], one: Examined) -> bool:
    """Whether the kept-set check sees the defect: it leaks or loses a token beyond the band."""
    assert one.distribution is not None
    leaks = (law > 0) & ~one.distribution.may_keep
    loses = (law == 0) & one.distribution.must_keep
    return bool(leaks.any() or loses.any())
