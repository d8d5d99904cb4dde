"""The report as Markdown, for a file, a pull request or the step summary of GitHub Actions."""

from sampler_audit.reports import conclusion, summary
from sampler_audit.reports.findings import Finding, findings
from sampler_audit.reports.ladder import ladder_lines
from sampler_audit.results import AuditReport, TargetReport


def render(report: AuditReport) -> str:
    """Verdicts first, then one section a target."""
    lines = ["# sampler-audit", "", f"Version {report.version}: {_code(report.command)}", ""]
    alpha, gate = report.alpha, report.gate
    lines += [f"- {conclusion.verdict(target, alpha, gate)}" for target in report.targets]
    unreached = (*report.unavailable, *report.broken)
    lines += [f"- not reached: {name}: {reason}" for name, reason in unreached]
    lines += [f"- {conclusion.INTERRUPTED}"] if report.interrupted else []
    lines += [f"- {conclusion.NOTHING_LEARNED}"] if conclusion.nothing_learned(report) else []
    for target in report.targets:
        lines += _target(report, target)
    return "\n".join(lines) + "\n"


def _target(report: AuditReport, target: TargetReport) -> list[str]:
    lines = ["", f"## {target.info.name}", ""]
    lines += [f"- {label}: {text}" for label, text in summary.header(report, target)]
    lines += _table(target)
    for finding in findings(target):
        lines += _finding(finding)
    lines += ["", *(f"- {label}: {text}" for label, text in summary.notes(target))]
    return lines


def _table(target: TargetReport) -> list[str]:
    if not target.combos:
        return []
    head, rule = summary.COMBO_COLUMNS, [":--", *["--:"] * 8, ":--"]
    shown = (combo for combo in target.combos if not summary.is_folded(combo, target))
    rows = [summary.combo_row(combo, target) for combo in shown]
    return ["", *(f"| {' | '.join(row)} |" for row in (head, rule, *rows))]


def _finding(finding: Finding) -> list[str]:
    lines = [
        "",
        f"### {finding.title}",
        "",
        *(f"- {label}: {text}" for label, text in finding.facts),
    ]
    if finding.workaround:
        lines.append(f"- Passes nearby: {finding.workaround}")
    if finding.ladder:
        lines += ["", *_block("text", *ladder_lines(finding.ladder, width=100))]
    if finding.repeat:
        lines += ["", "Repeat with:", "", *_block("sh", finding.repeat)]
    return lines


def _block(language: str, *lines: str) -> list[str]:
    return [f"```{language}", *lines, "```"]


def _code(text: str) -> str:
    return f"`{text}`"
