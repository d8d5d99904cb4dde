"""The self-test for a person: which planted defect was found, and by what."""

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sampler_audit.reports import conclusion, words
from sampler_audit.results import SelftestReport


def show(report: SelftestReport, console: Console, *, quiet: bool = False) -> None:
    """Print one row a defect, one line a healthy run, and the verdict."""
    if not quiet:
        console.print(_planted(report))
        for run in report.healthy:
            label = conclusion.LABELS[run.outcome]
            console.print(
                Text(
                    f"healthy run, seed {run.seed}: {label}, {words.count(run.draws)} draws,"
                    f" log10 E {words.log10_e(run.log_e_run)}"
                )
            )
    found = sum(row.found for row in report.rows)
    quiet_runs = sum(run.outcome != "fail" for run in report.healthy)
    verdict = (
        f"{conclusion.LABELS[report.outcome]}  selftest: {found} of {len(report.rows)} planted"
        f" defects found; {quiet_runs} of {words.plural(len(report.healthy), 'healthy run')} not"
        f" failed; seed {report.seed}, {words.seconds(report.seconds)}"
    )
    console.print(Text(verdict, style="green" if report.outcome == "pass" else "bold red"))


def _planted(report: SelftestReport) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("planted defect", overflow="fold")
    table.add_column("found by", overflow="fold")
    table.add_column("draws", justify="right", no_wrap=True)
    for row in report.rows:
        by = Text(row.by, style="green") if row.found else Text("NOT FOUND", style="bold red")
        table.add_row(Text(row.defect), by, words.count(row.draws))
    return table
