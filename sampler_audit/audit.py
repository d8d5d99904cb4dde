"""run_audit: the only place that opens targets and makes reports of what their cells showed.

Opens each target, examines the cells of its plan on as many threads as it has workers, and
turns them into an AuditReport. An interrupted run keeps what was done.
"""

import os
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from sampler_audit import verdict, version
from sampler_audit.combinations import combine_cells
from sampler_audit.draws import Target, TargetInfo
from sampler_audit.errors import TargetError, TargetUnavailable
from sampler_audit.evidence import build_alternatives, cover, evidence_of_run
from sampler_audit.examine import Examined, examine
from sampler_audit.known import KnownFault, mark_known
from sampler_audit.plan import AuditPlan, Gate, build_plan
from sampler_audit.results import AuditReport, CellResult, TargetReport
from sampler_audit.targets import Device, open_target
from sampler_reference.defects import DEFECT_LIST_VERSION
from sampler_scenarios.cells import Cell
from sampler_scenarios.rows import kind_of

_THREADS = min(os.cpu_count() or 1, 2)
"""Cells in flight: as many as an engine has workers."""

_MOST_ERRORS = 3

# Ctrl-C may reach another thread, and Python handles it in the main one when that next runs.
_LOOK_UP_S = 0.5
"""Cells that raise before any other has an answer, after which the engine is given up."""

_LOOK_UP_S = 0.5
"""Longest wait of the main thread: where another one receives Ctrl-C, only this lets it act."""


@dataclass(frozen=True, kw_only=True)
class AuditSettings:
    """What the user asked for; the same for every target of a run."""

    combos: str = "core"
    rows: str = "core"
    only: str | None = None
    n_draws: int | None = None
    alpha: float = 1e-4
    gate: Gate = "e-value"
    seed: int
    command: str = "sampler-audit local"
    known: tuple[KnownFault, ...] = ()


@dataclass(frozen=True, kw_only=True)
class TargetRequest:
    """Which engine, where it runs, and how long one answer may take."""

    name: str
    python: str | None = None
    device: Device = "auto"
    options: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = 600.0
    workers: int | None = None


@dataclass(frozen=True)
class Progress:
    """How far a target's audit is; ``log_e`` is the largest evidence of a single cell so far."""

    target: str
    done: int
    total: int
    log_e: float


def run_audit(
    settings: AuditSettings,
    requests: Sequence[TargetRequest],
    progress: Callable[[Progress], None] = lambda _: None,
) -> AuditReport:
    """Audit every target that can be opened, one after the other.

    Raises:
        UsageError: settings that ask for something that does not exist.
    """
    started = time.perf_counter()
    reports: list[TargetReport] = []
    unavailable: list[tuple[str, str]] = []
    broken: list[tuple[str, str]] = []
    interrupted = False
    # The plan is built before any engine is opened, so that usage errors come first.
    plan = _plan_for(settings)
    # Every target takes its share of the run's false-alarm rate.
    alpha = settings.alpha / max(len(requests), 1)
    for request in requests:
        try:
            with _opened(request) as target:
                report, interrupted = _audit_target(settings, alpha, request, target, progress)
                reports.append(report)
        except TargetUnavailable as exc:
            unavailable.append((request.name, str(exc)))
        except TargetError as exc:
            broken.append((request.name, str(exc)))
        except KeyboardInterrupt:
            interrupted = True
        if interrupted:
            break
    return AuditReport(
        version=version(),
        command=settings.command,
        seed=settings.seed,
        alpha=settings.alpha,
        gate=settings.gate,
        combos=plan.combos,
        rows=plan.rows,
        targets=tuple(reports),
        unavailable=tuple(unavailable),
        defect_list_version=DEFECT_LIST_VERSION,
        broken=tuple(broken),
        interrupted=interrupted,
        seconds=round(time.perf_counter() - started, 2),
    )


def dry_run(
    settings: AuditSettings, requests: Sequence[TargetRequest]
) -> list[tuple[TargetInfo, AuditPlan]]:
    """The plan of every target, which depends on whether it is slow."""
    plans = []
    for request in requests:
        with _opened(request) as target:
            plans.append((target.info, _plan_for(settings, target.info)))
    return plans


def repeat_command(settings: AuditSettings, request: TargetRequest, cell: str) -> str:
    """The command that examines one cell again: same engine, device, noise, draws and gate."""
    default = AuditSettings(seed=settings.seed)
    options = {
        "python": request.python,
        "device": request.device if request.device != "auto" else None,
        **request.options,
        "draws": settings.n_draws,
        "gate": settings.gate if settings.gate != default.gate else None,
        "alpha": settings.alpha if settings.alpha != default.alpha else None,
        "only": cell,
        "seed": settings.seed,
    }
    given = [f for k, v in options.items() if v is not None for f in (f"--{k}", str(v))]
    return shlex.join(["sampler-audit", "local", "--target", request.name, *given])


@contextmanager
def _opened(request: TargetRequest) -> Iterator[Target]:
    target = open_target(
        request.name,
        python=request.python,
        device=request.device,
        options=request.options,
        workers=request.workers,
        timeout_s=request.timeout_s,
    )
    try:
        yield target
    finally:
        target.close()


def _plan_for(settings: AuditSettings, info: TargetInfo | None = None) -> AuditPlan:
    """The plan for one target; without one, for a target that can do nothing special."""
    return build_plan(
        combos=settings.combos,
        rows=settings.rows,
        only=settings.only,
        n_draws=settings.n_draws,
        alpha=settings.alpha,
        gate=settings.gate,
        seed=settings.seed,
        slow=info is None or info.slow,
        stages=info.stages if info else (),
        stateful=info is not None and info.stateful,
        verifies_drafts=info is not None and info.verifies_drafts,
    )


def _audit_target(
    settings: AuditSettings,
    alpha: float,
    request: TargetRequest,
    target: Target,
    progress: Callable[[Progress], None],
) -> tuple[TargetReport, bool]:
    started = time.perf_counter()
    plan = replace(_plan_for(settings, target.info), alpha=alpha)
    examined, errors, interrupted = _examine_all(plan, target, progress)
    cells = (*verdict.name_cells(examined, plan), *errors)
    cells, known, gone = mark_known(settings.known, target.info.name, cells)
    # Whether they fail or not: leaving out only those that do would bias the evidence.
    judged = [
        e
        for e in examined
        if not any(fault.names(target.info.name, e.result.cell) for fault in settings.known)
    ]
    alternatives = build_alternatives(judged)
    evidence = evidence_of_run(judged, alternatives)
    full = settings.only is None and not interrupted
    covered = cover(alternatives, plan) if full else ()
    outcome, reason = verdict.decide(cells, evidence, covered, plan, complete=full)
    combos = combine_cells(cells, examined, plan, evidence)
    shown = {combo.worst for combo in combos if combo.outcome == "fail"}
    cells = tuple(
        replace(c, repeat=repeat_command(settings, request, c.cell))
        if c.outcome not in ("pass", "not_applicable") or c.cell in shown
        else replace(c, ladder=())
        for c in cells
    )
    return TargetReport(
        info=target.info,
        outcome=outcome,
        reason=reason,
        cells=cells,
        combos=combos,
        coverage=covered,
        fitting_conventions=verdict.fitting_conventions(judged, target.info),
        alpha=alpha,
        log_e_run=evidence.log_e,
        n_draws=sum(c.histogram.n_draws for c in cells if c.histogram),
        seconds=round(time.perf_counter() - started, 2),
        known=known,
        known_gone=gone,
    ), interrupted


def _examine_all(
    plan: AuditPlan, target: Target, progress: Callable[[Progress], None]
) -> tuple[list[Examined], list[CellResult], bool]:
    """Examined cells in the plan's order, cells that raised, and whether the user interrupted."""
    done: dict[Cell, Examined] = {}
    errors: list[CellResult] = []
    interrupted = False
    largest = 0.0
    executor = ThreadPoolExecutor(max_workers=_THREADS)
    pending: dict[Future[Examined], Cell] = {}
    try:
        for cell in plan.cells:
            pending[executor.submit(examine, cell, target, plan)] = cell
        while pending:
            finished, _ = wait(pending, timeout=_LOOK_UP_S, return_when=FIRST_COMPLETED)
            for future in finished:
                cell = pending.pop(future)
                _collect(future, cell, done, errors)
                largest = max(largest, _cell_log_e(done.get(cell)))
            progress(Progress(target.info.name, len(done), len(plan.cells), largest))
            if len(errors) >= _MOST_ERRORS and not done:
                break
    except KeyboardInterrupt:
        interrupted = True
        executor.shutdown(wait=False, cancel_futures=True)
        # Ends the requests of cells in flight, which may take as long as the engine likes.
        target.close()
    finally:
        executor.shutdown(wait=True, cancel_futures=True)
    return [done[c] for c in plan.cells if c in done], errors, interrupted


def _cell_log_e(examined: Examined | None) -> float:
    histogram = examined.result.histogram if examined else None
    return histogram.log_e if histogram else 0.0


def _collect(
    future: Future[Examined], cell: Cell, done: dict[Cell, Examined], errors: list[CellResult]
) -> None:
    try:
        done[cell] = future.result()
    except TargetError as exc:
        errors.append(
            CellResult(
                cell=cell.id,
                combo=cell.combo,
                row_kind=kind_of(cell.row),
                outcome="error",
                reason=f"{type(exc).__name__}: {exc}",
            )
        )
