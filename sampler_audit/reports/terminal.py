"""The report for a person at a terminal, 80 to 100 columns wide. Plain text when piped."""

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from sampler_scenarios.params import Combo, combo_name

from sampler_audit.reports import conclusion, summary
from sampler_audit.reports.findings import Finding, findings
from sampler_audit.reports.ladder import ladder_lines
from sampler_audit.results import AuditReport, Outcome, TargetReport

WIDEST = 100

_STYLES: dict[Outcome, str] = {
    "pass": "green",
    "fail": "bold red",
    "inconclusive": "yellow",
    "not_applicable": "dim",
    "error": "bold magenta",
}


def show(report: AuditReport, console: Console, *, quiet: bool = False) -> None:
    """Print the report; ``quiet`` leaves the verdicts only."""
    if not quiet:
        console.print(Text(f"sampler-audit {report.version}", style="bold"))
        console.print(Text(report.command), soft_wrap=True)
        for target in report.targets:
            _show_target(report, target, console)
        if len(report.targets) > 1:
            console.print(_matrix(report))
    _show_verdicts(report, console)


def _show_target(report: AuditReport, target: TargetReport, console: Console) -> None:
    console.print()
    console.rule(Text(target.info.name, style="bold"), align="left", characters="─")
    console.print(_pairs(summary.header(report, target)))
    if target.combos:
        console.print(_combos(target))
    for finding in findings(target):
        _show_finding(finding, console)
    console.print(_pairs(summary.notes(target)))


def _pairs(pairs: list[tuple[str, str]]) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for label, text in pairs:
        grid.add_row(Text(label), Text(text))
    return grid


def _combos(target: TargetReport) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    first, *numbers, last = summary.COMBO_COLUMNS
    table.add_column(first, overflow="fold")
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column(last, no_wrap=True)
    for combo in target.combos:
        name, *cells, verdict = summary.combo_row(combo)
        table.add_row(
            _breakable(name), *map(Text, cells), Text(verdict, style=_STYLES[combo.outcome])
        )
    return table


def _breakable(name: str) -> Text:
    """Filters stay whole: the name may be broken after a plus sign only."""
    return Text(name.replace("+", "+\u200b"))


def _show_finding(finding: Finding, console: Console) -> None:
    console.print(Text(f"✗ {finding.title}", style=_STYLES["fail"]))
    for fact in finding.facts:
        console.print(Padding(Text(fact), (0, 0, 0, 2)))
    lines = ladder_lines(
        finding.ladder, width=console.width - 4, ascii_only=console.options.ascii_only
    )
    for line in lines:
        console.print(Padding(Text(line, no_wrap=True), (0, 0, 0, 4)))
    if finding.workaround:
        console.print(Padding(Text(f"Passes nearby: {finding.workaround}"), (0, 0, 0, 2)))
    if finding.repeat:
        console.print(Padding(Text("Repeat with:"), (0, 0, 0, 2)))
        # Not wrapped, so that it can be copied as one line.
        console.print(Text(f"    {finding.repeat}", style="bold"), soft_wrap=True)
    console.print()


def _matrix(report: AuditReport) -> RenderableType:
    """Engines by combinations: one column a target."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("combination", overflow="fold")
    for target in report.targets:
        table.add_column(Text(target.info.name), overflow="fold")
    outcomes = [{c.combo: c.outcome for c in target.combos} for target in report.targets]
    for combo in _all_combos(report):
        row = [Text("-") if combo not in seen else _label(seen[combo]) for seen in outcomes]
        table.add_row(_breakable(combo_name(combo)), *row)
    return Group(Text(), Text("All targets", style="bold"), table)


def _all_combos(report: AuditReport) -> list[Combo]:
    seen = dict.fromkeys(combo.combo for target in report.targets for combo in target.combos)
    return sorted(seen, key=len)


def _label(outcome: Outcome) -> Text:
    return Text(conclusion.LABELS[outcome], style=_STYLES[outcome])


def _show_verdicts(report: AuditReport, console: Console) -> None:
    for name, reason in report.unavailable:
        console.print(Text(f"not reached  {name}: {reason}"))
    if report.interrupted:
        console.print(Text(conclusion.INTERRUPTED))
    for target in report.targets:
        sentence = conclusion.verdict(target, report.alpha)
        text = Text(sentence)
        text.stylize(_STYLES[target.outcome], 0, len(conclusion.LABELS[target.outcome]))
        console.print(text)
    if conclusion.nothing_learned(report):
        console.print(Text(conclusion.NOTHING_LEARNED))
