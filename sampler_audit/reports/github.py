"""Annotations of GitHub Actions: one workflow command a finding.

The format is that of "Workflow commands for GitHub Actions", and escaping that of actions/toolkit
packages/core/src/command.ts. GitHub shows ten annotations of a kind a step, so at most ten errors
are written.
"""

from sampler_audit.reports import conclusion
from sampler_audit.reports.findings import findings
from sampler_audit.results import AuditReport, TargetReport

MOST_ANNOTATIONS = 10


def annotations(report: AuditReport) -> list[str]:
    """The commands to print, errors first; nothing where nothing is wrong."""
    errors, warnings = [], []
    for target in report.targets:
        errors += _errors(target, report)
        if target.outcome in ("inconclusive", "error", "not_applicable"):
            title = f"sampler-audit {target.info.name}"
            warnings.append(
                _command("warning", title, conclusion.verdict(target, report.alpha, report.gate))
            )
    if conclusion.nothing_learned(report):
        warnings.append(_command("warning", "sampler-audit", conclusion.NOTHING_LEARNED))
    if not report.searched:
        warnings += [
            _command("warning", f"sampler-audit {name}", f"not reached: {reason}")
            for name, reason in (*report.unavailable, *report.broken)
        ]
    return _at_most(errors) + warnings


def _errors(target: TargetReport, report: AuditReport) -> list[str]:
    if target.outcome != "fail":
        return []
    found = [
        _command(
            "error",
            f"sampler-audit {target.info.name}: {finding.combo}",
            f"{finding.title}\n{finding.text}",
        )
        for finding in findings(target)
    ]
    verdict = conclusion.verdict(target, report.alpha, report.gate)
    return found or [_command("error", f"sampler-audit {target.info.name}", verdict)]


def _at_most(errors: list[str]) -> list[str]:
    if len(errors) <= MOST_ANNOTATIONS:
        return errors
    shown = errors[: MOST_ANNOTATIONS - 1]
    more = f"{len(errors) - len(shown)} more findings: see the step summary"
    return [*shown, _command("error", "sampler-audit", more)]


def _command(kind: str, title: str, message: str) -> str:
    return f"::{kind} title={_escape_property(title)}::{_escape(message)}"


def _escape(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape(text).replace(":", "%3A").replace(",", "%2C")
