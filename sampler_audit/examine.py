"""One cell, from its id to a CellResult: build the batch, ask the engine, hand to the checks.

Knows a Target only by its protocol. Says nothing about the run; that is ``verdict``.
"""

import time
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sampler_audit.checks import histogram, kept_set, no_effect, support
from sampler_audit.draws import NOT_REACHED, Target
from sampler_audit.masking import scaled_and_cut
from sampler_audit.plan import PROBE_PATTERN, AuditPlan, draw_seeds, project
from sampler_audit.probe import probe
from sampler_audit.results import CellResult, CheckResult, LadderStep, Outcome
from sampler_audit.state_probe import check_rows, check_steps, check_verified, expected_row
from sampler_reference.conventions import CONVENTIONS, Conventions, effective_temperature, refusal
from sampler_reference.distribution import Distribution, reference_distribution, scaled
from sampler_scenarios.batches import PATTERNS, Batch, build_batch, without_stages
from sampler_scenarios.cells import Cell
from sampler_scenarios.params import FILTERS, STAGES, SamplingParams
from sampler_scenarios.rows import kind_of

_NOISE_WORK = 2**18
"""Kept tokens times draws that a cell may cost: an unfiltered row is drawn from less often."""

_LEAST_DRAWS = 20

_DRAWN_DRAFTS_FACTOR = 10
"""A wrong redraw shows in few of the draws: those whose draft was rejected."""

_NO_EFFECT_KIND = "dense-normal"
_NO_EFFECT_VOCAB_SIZE = 4096


@dataclass(frozen=True, eq=False)
class Examined:
    """A cell's result and what the run's verdict needs of it.

    ``logits`` ``[vocab_size]`` float32 and ``params`` are what the engine's own filters got: the
    row after all stages, and for an engine that only masks, after temperature and min_p. ``mask``
    is what it kept.
    """

    cell: Cell
    result: CellResult
    conventions: Conventions
    logits: NDArray[np.float32] | None = None
    params: SamplingParams | None = None
    mask: NDArray[np.bool_] | None = None
    distribution: Distribution | None = None
    evidence: histogram.Evidence | None = None


def examine(cell: Cell, target: Target, plan: AuditPlan) -> Examined:
    """Try one cell.

    Raises:
        TargetError: the engine raised, died, hung or sent nonsense.
    """
    started = time.perf_counter()
    conventions = CONVENTIONS[target.info.convention]
    # Mates have every stage on; an engine is asked for those alone that it has.
    batch = without_stages(build_batch(cell), set(STAGES) - set(target.info.stages))
    reason = (
        _missing(cell, target)
        or refusal(batch.params[batch.index], conventions)
        or _never_reached(cell.params, target, conventions)
    )
    if reason:
        result = _result(cell, "not_applicable", reason=reason)
        return Examined(cell, result, conventions)
    if not target.info.draws:
        batch = scaled_and_cut(batch, conventions)
    done = _examine_batch(cell, batch, target, plan, conventions)
    seconds = time.perf_counter() - started
    return replace(done, result=replace(done.result, seconds=round(seconds, 4)))


def _missing(cell: Cell, target: Target) -> str | None:
    info, pattern = target.info, PATTERNS[cell.batch]
    if lacking := [stage for stage in cell.stages if stage not in info.stages]:
        return f"{info.name} has no {lacking[0]}"
    if pattern.past and not info.stateful:
        return f"{info.name} keeps no requests from step to step"
    if pattern.n_drafts and not info.verifies_drafts:
        return f"{info.name} is not asked to verify drafts"
    return None


def _never_reached(params: SamplingParams, target: Target, conventions: Conventions) -> str | None:
    if target.info.draws:
        return None
    if effective_temperature(params.temperature, conventions) == 0:
        return "a greedy request never reaches the top_k/top_p code"
    if params.top_k <= 0 and params.top_p >= 1:
        return "without top_k and top_p nothing reaches the engine's code"
    return None


def _examine_batch(
    cell: Cell, batch: Batch, target: Target, plan: AuditPlan, conventions: Conventions
) -> Examined:
    info = target.info
    raw, params = batch.logits[batch.index], batch.params[batch.index]
    logits = expected_row(batch, batch.index, conventions)
    shown = None if info.logits_error is None else target.filtered(batch)
    kept_rows = target.kept(batch) if shown is None else shown > -np.inf
    mask = kept_rows[batch.index]
    gates = info.special_values or not (np.isnan(raw).any() or np.isposinf(raw).any())
    kept, judged = kept_set.judge(
        mask,
        logits,
        params,
        conventions,
        mass_error=info.mass_error,
        min_p_error=info.min_p_error,
        gates=gates,
    )
    distribution = reference_distribution(
        logits, params, conventions, 0.0, info.mass_error, info.min_p_error
    )
    steps: tuple[LadderStep, ...] = ()
    if kept.verdict == "FAIL":
        steps = kept_set.ladder(mask, distribution.probs, logits, judged)
    if kept.verdict == "FAIL" or cell.batch == PROBE_PATTERN:
        kept = kept_set.repeated(kept, mask, target.kept(batch)[batch.index])
    outcomes: dict[str, Outcome] = {"FAIL": "fail", "UNGATED": "not_applicable"}
    examined = Examined(
        cell,
        _result(cell, outcomes.get(kept.verdict, "pass"), reason=kept.rule),
        conventions,
        logits,
        params,
        mask,
        distribution,
    )
    result = replace(examined.result, kept=kept, ladder=steps)
    if shown is not None and gates:
        checks = _examine_rows(shown, batch, cell, target, plan, conventions)
        result = _failed_by(replace(result, checks=checks))
    examined = replace(examined, result=result)
    drawn = info.draws and gates
    return _examine_draws(examined, batch, target, plan) if drawn else examined


def _examine_rows(
    shown: NDArray[np.float32],
    batch: Batch,
    cell: Cell,
    target: Target,
    plan: AuditPlan,
    conventions: Conventions,
) -> tuple[CheckResult, ...]:
    """The logits of the audited row, and where there are stages or a past, of its mates too."""
    pattern, error = PATTERNS[cell.batch], target.info.logits_error
    assert error is not None
    all_rows = bool(cell.stages or pattern.past or pattern.n_drafts)
    rows = range(len(shown)) if all_rows else (batch.index,)
    checks = [check_rows(shown, batch, rows, conventions, error=error)]
    if pattern.past or pattern.n_drafts:
        checks += check_steps(
            batch,
            shown,
            target,
            conventions,
            noise_name=conventions.noise if target.info.own_noise else "",
            seed=plan.seed,
            cell_id=cell.id,
        )
    return tuple(checks)


def _failed_by(result: CellResult) -> CellResult:
    """The result, which fails where a check does; the first one gives the reason."""
    failed = next((check for check in result.checks if check.outcome == "fail"), None)
    if failed is None or result.outcome != "pass":
        return result
    return replace(result, outcome="fail", reason=failed.reason)


def _examine_draws(examined: Examined, batch: Batch, target: Target, plan: AuditPlan) -> Examined:
    cell, distribution = examined.cell, examined.distribution
    assert distribution is not None
    assert examined.mask is not None
    n_kept = max(int(distribution.may_keep.sum()), 1)
    n_draws = min(plan.n_draws, max(_LEAST_DRAWS, _NOISE_WORK // n_kept))
    if batch.draft_logits is not None:
        n_draws *= _DRAWN_DRAFTS_FACTOR
    doubled = draw_seeds(plan.seed, cell.id, 2 * n_draws)
    positions = np.arange(n_draws, dtype=np.int64)
    tokens = target.draw(batch, doubled[:n_draws], positions)
    checks = list(examined.result.checks)
    if batch.draft_logits is not None and target.info.own_noise:
        at = doubled[:n_draws], positions
        checks.append(check_verified(batch, target.filtered(batch), tokens, *at))
    tokens, fresh = tokens[tokens != NOT_REACHED], tokens[:0]
    if support.outside(tokens, distribution).size:
        fresh = target.draw(batch, doubled[n_draws:], positions)
        fresh = fresh[fresh != NOT_REACHED]
    checks.append(support.check(tokens, fresh, distribution))
    if cell.batch == PROBE_PATTERN and target.info.own_noise and distribution.may_keep.any():
        temperature = effective_temperature(cell.params.temperature, examined.conventions)
        z = np.where(examined.mask, scaled(_row(examined), temperature), -np.inf)
        noise = examined.conventions.noise
        checks += probe(batch, z, target, noise=noise, seed=plan.seed, cell_id=cell.id)
    result = replace(examined.result, checks=tuple(checks))
    # What falls outside is the support check's, which asks for a second sample first.
    possible = tokens[support.inside(tokens, distribution) & (tokens >= 0)]
    if possible.size:
        evidence = histogram.gather(possible, distribution)
        result = replace(
            result,
            histogram=histogram.summarize(evidence),
            checks=(*result.checks, *_no_effect(examined, evidence)),
            ladder=result.ladder or histogram.ladder(possible, distribution, _row(examined)),
        )
        examined = replace(examined, evidence=evidence)
    return replace(examined, result=_failed_by(result))


def _row(examined: Examined) -> NDArray[np.float32]:
    assert examined.logits is not None
    return examined.logits


def _no_effect(examined: Examined, evidence: histogram.Evidence) -> list[CheckResult]:
    """What the draws say of each filter that is on, on the rows that ask it."""
    cell, params = examined.cell, examined.cell.params
    logits = _row(examined)
    if kind_of(cell.row) != _NO_EFFECT_KIND or logits.size > _NO_EFFECT_VOCAB_SIZE:
        return []
    found = []
    for name in params.combo:
        others = tuple(other for other in FILTERS if other != name)
        without = reference_distribution(
            logits, project(params, others), examined.conventions
        ).probs
        result = no_effect.check(evidence, without, name)
        if result is not None:
            found.append(result)
    return found


def _result(cell: Cell, outcome: Outcome, *, reason: str = "") -> CellResult:
    return CellResult(
        cell=cell.id,
        combo=cell.combo,
        row_kind=kind_of(cell.row),
        outcome=outcome,
        reason=reason,
    )
