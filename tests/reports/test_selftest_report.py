"""The self-test for a person."""

import io
from dataclasses import replace

from rich.console import Console

from sampler_audit.reports import selftest
from sampler_audit.results import HealthyRun, PlantedRun, SelftestReport, SimulatedRuns

REPORT = SelftestReport(
    rows=(
        PlantedRun(defect="weakest-dropped", found=True, by="kept set (12)", draws=18_000),
        PlantedRun(defect="noise-24-bits", found=True, by="noise (3)", draws=18_000),
    ),
    healthy=(HealthyRun(seed=7, outcome="pass", draws=18_000, log_e_run=-2.3),),
    # Clopper-Pearson for 0 of 20,000: upper end 1 - 0.025^(1/20000) = 1.84e-4.
    simulated=SimulatedRuns(n_runs=20_000, n_failed=0, low=0.0, high=1.84e-4, alpha=1e-4),
    outcome="pass",
    seed=7,
    seconds=64.0,
)


def shown(report: SelftestReport, *, quiet: bool = False) -> str:
    """What is printed at 80 columns."""
    file = io.StringIO()
    selftest.show(report, Console(file=file, width=80, highlight=False), quiet=quiet)
    return file.getvalue()


def test_each_defect_stands_beside_what_found_it() -> None:
    """And the healthy runs below."""
    text = shown(REPORT)
    assert "weakest-dropped   kept set (12)" in text
    assert "healthy audit, seed 7: PASS, 18,000 draws, log10 E -1.0" in text
    assert "20,000 simulated healthy runs: 0 failed" in text
    assert "PASS  selftest: 2 of 2 planted defects found, 1 of 1 healthy audits passed" in text


def test_a_defect_that_was_missed_is_seen_at_once() -> None:
    """Not by an empty field."""
    missed = replace(REPORT.rows[0], found=False, by="")
    text = shown(replace(REPORT, rows=(missed,), outcome="fail"))
    assert "NOT FOUND" in text
    assert "FAIL  selftest: 0 of 1" in text


def test_quiet_prints_the_verdict_only() -> None:
    """One line."""
    assert shown(REPORT, quiet=True).startswith("PASS  selftest")
