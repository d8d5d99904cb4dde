"""The report for a person at a terminal, 80 to 100 columns wide. Plain text when piped."""

import os

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sampler_audit.reports import conclusion, summary
from sampler_audit.reports.findings import Finding, findings
from sampler_audit.reports.ladder import ladder_lines
from sampler_audit.results import AuditReport, TargetReport
from sampler_scenarios.params import Combo, combo_name

WIDEST = 100
_STYLES = {
    "PASS": "green",
    "FAIL": "bold red",
    "KNOWN": "yellow",
    "INCONCLUSIVE": "yellow",
    "n/a": "dim",
    "ERROR": "bold magenta",
}
"""By what ``summary.combo_label`` and ``conclusion.LABELS`` say."""

_LAYOUTS = (
    # Of the two p-values the adjusted one is the one to act on; without room for either the
    # verdict says what they come to.
    (96, (), 1, 23),
    (79, ("p",), 0, 18),
    (0, ("band", "draws", "chi2/dof", "p", "Holm p"), 0, 18),
)
"""From this width on: columns left out, gap, and the longest line of a combination's name."""


def make_console(*, no_color: bool = False, stderr: bool = False) -> Console:
    """A console that prints what it is given: no markup, no guessed colours, at most WIDEST."""
    plain = Console(stderr=stderr)
    known = plain.is_terminal or "COLUMNS" in os.environ
    return Console(
        stderr=stderr,
        # None leaves the decision to NO_COLOR and to whether this is a terminal.
        no_color=no_color or None,
        width=min(plain.width, WIDEST) if known else WIDEST,
        highlight=False,
        markup=False,
        emoji=False,
    )


def show(report: AuditReport, console: Console, *, quiet: bool = False) -> None:
    """Print the report; ``quiet`` leaves the verdicts only."""
    if not quiet:
        console.print(Text(f"sampler-audit {report.version}", style="bold"))
        console.print(Text(report.command), soft_wrap=True)
        for target in report.targets:
            _show_target(report, target, console)
        if len(report.targets) > 1:
            console.print(_matrix(report))
        console.print()
    _show_verdicts(report, console)


def _show_target(report: AuditReport, target: TargetReport, console: Console) -> None:
    console.print()
    console.rule(Text(target.info.name, style="bold"), align="left", characters="─")
    console.print(_pairs(summary.header(report, target)))
    if target.combos:
        console.print(_combos(target, console.width))
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


def _combos(target: TargetReport, width: int) -> Table:
    _, left_out, gap, longest = next(layout for layout in _LAYOUTS if width >= layout[0])
    table = Table(box=box.SIMPLE_HEAD, padding=(0, gap, 0, 0), pad_edge=False)
    shown = [i for i, name in enumerate(summary.COMBO_COLUMNS) if name not in left_out]
    for i in shown:
        name = summary.COMBO_COLUMNS[i]
        text = name in ("combination", "verdict")
        # Where the table is too wide, the first column gives way.
        table.add_column(name, justify="left" if text else "right", no_wrap=i > 0)
    for combo in (c for c in target.combos if not summary.is_folded(c, target)):
        row = [Text(cell) for cell in summary.combo_row(combo, target)]
        row[0] = _in_lines(combo_name(combo.combo), longest)
        row[-1].stylize(_STYLES[row[-1].plain])
        table.add_row(*(row[i] for i in shown))
    return table


def _in_lines(name: str, longest: int) -> Text:
    """A combination's name; a long one is broken after a plus sign, so that filters stay whole."""
    lines = [""]
    for part in name.split("+"):
        part = f"{part}+"
        if len(lines[-1]) + len(part) > longest + 1:
            lines.append("")
        lines[-1] += part
    return Text("\n".join(lines).removesuffix("+"))


def _show_finding(finding: Finding, console: Console) -> None:
    mark = "x" if console.options.ascii_only else "✗"
    console.print(Text(f"{mark} {finding.title}", style=_STYLES["FAIL"]))
    facts = list(finding.facts)
    if finding.workaround:
        facts.append(("passes near", finding.workaround))
    console.print(Padding(_pairs(facts), (0, 0, 0, 2), expand=False))
    lines = ladder_lines(
        finding.ladder, width=console.width - 4, ascii_only=console.options.ascii_only
    )
    for line in lines:
        console.print(Text(f"    {line}"), soft_wrap=True)
    if finding.repeat:
        console.print(Text("  repeat with", style="dim"))
        # Not wrapped, so that it can be copied as one line.
        console.print(Text(f"    {finding.repeat}", style="bold"), soft_wrap=True)
    console.print()


def _matrix(report: AuditReport) -> RenderableType:
    """Engines by combinations: one column a target."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("combination", overflow="fold")
    for target in report.targets:
        table.add_column(Text(target.info.name), overflow="fold")
    labels = [
        {combo.combo: summary.combo_label(combo, target) for combo in target.combos}
        for target in report.targets
    ]
    for combo in _all_combos(report):
        said = [seen.get(combo, "-") for seen in labels]
        table.add_row(combo_name(combo), *(Text(s, style=_STYLES.get(s, "")) for s in said))
    return Group(Text(), Text("All targets", style="bold"), table)


def _all_combos(report: AuditReport) -> list[Combo]:
    seen = dict.fromkeys(
        combo.combo
        for target in report.targets
        for combo in target.combos
        if not summary.is_folded(combo, target)
    )
    return sorted(seen, key=len)


def _show_verdicts(report: AuditReport, console: Console) -> None:
    for name, reason in (*report.unavailable, *report.broken):
        console.print(Text(f"not reached  {name}: {reason}"))
    if report.interrupted:
        console.print(Text(conclusion.INTERRUPTED))
    for target in report.targets:
        sentence = conclusion.verdict(target, report.alpha, report.gate)
        text = Text(sentence)
        label = conclusion.LABELS[target.outcome]
        text.stylize(_STYLES[label], 0, len(label))
        console.print(text)
    if conclusion.nothing_learned(report):
        console.print(Text(conclusion.NOTHING_LEARNED))
