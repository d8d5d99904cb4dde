"""The auditor audited: every planted defect must be found, no healthy sampler may fail.

Runs real audits of the built-in sampler, with one defect planted at a time and with none, and
the verdict on simulated draws. Knows audits and reports, not how a check works.
"""

import time
from collections import Counter
from collections.abc import Callable

from sampler_audit.audit import AuditSettings, TargetRequest, run_audit
from sampler_audit.results import (
    CellResult,
    HealthyRun,
    PlantedRun,
    SelftestReport,
    SimulatedRuns,
    TargetReport,
)
from sampler_audit.statistics.calibration import healthy_runs
from sampler_reference.defects import DEFECTS
from sampler_scenarios.corpus import CORPUS
from sampler_scenarios.params import FILTERS, STAGES

N_HEALTHY = 2
"""Audits without a defect, each with another seed."""

N_SIMULATED = 20_000
"""Runs of the verdict on simulated draws. At alpha 1e-4, 0 to 5 failures agree with that rate."""

ALPHA = 1e-4

PLANTED_COMBOS = "temperature,top_k,temperature+min_p,temperature+top_k+top_p+min_p"
"""Combinations in which every planted defect that needs no stage acts somewhere."""


def run_selftest(
    *, seed: int, progress: Callable[[str, int, int], None] = lambda *_: None
) -> SelftestReport:
    """Plant every defect, audit healthy samplers, simulate the verdict.

    ``progress`` is told what comes next, how much is done and of how much.
    """
    started = time.perf_counter()
    total = len(DEFECTS) + N_HEALTHY + 1
    rows, healthy = [], []
    for done, name in enumerate(DEFECTS):
        progress(name, done, total)
        rows.append(_planted(name, seed))
    for i in range(N_HEALTHY):
        progress(f"healthy {i + 1}", len(DEFECTS) + i, total)
        healthy.append(_healthy(seed + i))
    progress("verdict on simulated draws", total - 1, total)
    simulated = healthy_runs(N_SIMULATED, ALPHA, seed)
    progress("done", total, total)
    sound = all(row.found for row in rows) and all(run.outcome == "pass" for run in healthy)
    return SelftestReport(
        rows=tuple(rows),
        healthy=tuple(healthy),
        simulated=SimulatedRuns(
            n_runs=simulated.n_runs,
            n_failed=simulated.n_failed,
            low=simulated.interval[0],
            high=simulated.interval[1],
            alpha=ALPHA,
        ),
        # Even 6 failures would have chance 1.7 % at the stated rate, were it not conservative.
        outcome="pass" if sound and simulated.interval[0] <= ALPHA else "fail",
        seed=seed,
        seconds=round(time.perf_counter() - started, 2),
    )


def _audit(
    target: str, seed: int, combos: str, options: dict[str, str], only: str | None = None
) -> TargetReport:
    settings = AuditSettings(combos=combos, rows="quick", only=only, seed=seed, alpha=ALPHA)
    return run_audit(settings, [TargetRequest(name=target, options=options)]).targets[0]


def _planted(name: str, seed: int) -> PlantedRun:
    entry = CORPUS.get(DEFECTS[name].entry)
    only = entry.cells[0] if entry else None
    # The twins give the kernels' bits, many times as fast where those are interpreted.
    report = _audit("torch", seed, combos_for(name), {"defect": name}, only)
    checks = failing_checks(report)
    return PlantedRun(
        defect=name,
        found=report.outcome == "fail" and DEFECTS[name].found_by in checks,
        by=", ".join(f"{check} ({n})" for check, n in checks.items()) or report.reason,
        draws=report.n_draws,
    )


def combos_for(name: str) -> str:
    """Combinations in which the defect acts: with its stages, alone and beside all filters."""
    defect = DEFECTS[name]
    stages = [s for s in STAGES if s in {*defect.needs, *sorted(defect.one_of)[:1]}]
    if not stages:
        return PLANTED_COMBOS
    return f"{'+'.join(stages)},{'+'.join((*FILTERS, *stages))}"


def _healthy(seed: int) -> HealthyRun:
    report = _audit("builtin", seed, "all", {})
    return HealthyRun(
        seed=seed, outcome=report.outcome, draws=report.n_draws, log_e_run=report.log_e_run
    )


def failing_checks(report: TargetReport) -> Counter[str]:
    """The checks that failed, with the number of cells they failed in."""
    return Counter(check for cell in report.cells for check in cell_failures(cell))


def cell_failures(cell: CellResult) -> list[str]:
    """The checks that failed in a cell, each once."""
    failing = {check.check: None for check in cell.checks if check.outcome == "fail"}
    if cell.kept is not None and cell.kept.verdict == "FAIL":
        failing = {"kept set": None, **failing}
    return list(failing)
