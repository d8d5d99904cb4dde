"""The self-test for a person: which planted defect was found, and by what."""

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sampler_audit.reports import conclusion, words
from sampler_audit.results import HealthyRun, SelftestReport, SimulatedRuns


def show(report: SelftestReport, console: Console, *, quiet: bool = False) -> None:
    """Print a row a defect, a line a healthy run, the simulated runs and the verdict."""
    if not quiet:
        console.print(_planted(report))
        for run in report.healthy:
            console.print(Text(_healthy_words(run)))
        console.print(Text(_simulated_words(report.simulated)))
    style = "green" if report.outcome == "pass" else "bold red"
    console.print(Text(_verdict(report), style=style))


def _planted(report: SelftestReport) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("planted defect", overflow="fold")
    table.add_column("found by (cells)", overflow="fold")
    table.add_column("draws", justify="right", no_wrap=True)
    for row in report.rows:
        by = Text(row.by, style="green") if row.found else Text("NOT FOUND", style="bold red")
        table.add_row(Text(row.defect), by, words.count(row.draws))
    return table


def _healthy_words(run: HealthyRun) -> str:
    return (
        f"healthy audit, seed {run.seed}: {conclusion.LABELS[run.outcome]},"
        f" {words.count(run.draws)} draws, log10 E {words.log10_e(run.log_e_run)}"
    )


def _simulated_words(runs: SimulatedRuns) -> str:
    return (
        f"verdict on {words.count(runs.n_runs)} simulated healthy runs: {runs.n_failed} failed"
        f" (95 % interval of the rate {runs.low:.1e} to {runs.high:.1e}; stated {runs.alpha:g})"
    )


def _verdict(report: SelftestReport) -> str:
    found = sum(row.found for row in report.rows)
    passed = sum(run.outcome == "pass" for run in report.healthy)
    return (
        f"{conclusion.LABELS[report.outcome]}  selftest: {found} of {len(report.rows)} planted"
        f" defects found, {passed} of {len(report.healthy)} healthy audits passed; seed"
        f" {report.seed}, {words.seconds(report.seconds)}"
    )
