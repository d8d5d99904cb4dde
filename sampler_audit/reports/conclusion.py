"""What a whole run comes to: its exit code, and one sentence for each target."""

import math

from sampler_audit.reports import words
from sampler_audit.results import AuditReport, Coverage, Outcome, TargetReport
from sampler_scenarios.params import combo_name

LABELS: dict[Outcome, str] = {
    "pass": "PASS",
    "fail": "FAIL",
    "inconclusive": "INCONCLUSIVE",
    "not_applicable": "n/a",
    "error": "ERROR",
}

NOTHING_LEARNED = (
    "Nothing was learned about an engine: none can be imported by this Python, so only the built-in"
    " sampler was audited. Engines usually live in an environment of their own: name its"
    " interpreter, as in  sampler-audit local --target vllm --python /path/to/venv/bin/python"
)

INTERRUPTED = "Interrupted: this is what was done so far."


def exit_code(report: AuditReport, *, allow_inconclusive: bool = False) -> int:
    """0, 1 a fault, 3 could not audit or not enough power, 130 interrupted.

    Over several targets 1 wins over 3, and 3 over 0. ``allow_inconclusive`` pardons a lack of
    power, never an engine that could not be audited.
    """
    outcomes = {target.outcome for target in report.targets}
    if report.interrupted:
        return 130
    if "fail" in outcomes:
        return 1
    if outcomes & {"error", "not_applicable"} or could_not_audit(report):
        return 3
    if "inconclusive" in outcomes and not allow_inconclusive:
        return 3
    return 0


def could_not_audit(report: AuditReport) -> bool:
    """A named target was not reached, or a search found no engine."""
    if report.searched:
        return nothing_learned(report)
    return bool(report.unavailable) or not report.targets


def nothing_learned(report: AuditReport) -> bool:
    """Engines were searched for and none was found: the built-in sampler is not an engine."""
    return report.searched and all(target.info.name == "builtin" for target in report.targets)


def verdict(target: TargetReport, alpha: float) -> str:
    """Outcome, reason, and what speaks against bad luck, with the stated false-alarm rate."""
    sentences = [f"{LABELS[target.outcome]}  {target.info.name}: {_stop(target.reason)}"]
    if smallest := [combo_name(c.combo) for c in target.combos if c.minimal]:
        sentences.append(f"Smallest failing combinations: {words.listed(smallest, 4)}.")
    exact = sum(cell.kept is not None and cell.kept.verdict == "FAIL" for cell in target.cells)
    if target.outcome == "fail" and exact:
        sentences.append(
            f"{words.plural(exact, 'kept set')} broke an exact rule, in which chance plays no part."
        )
    if target.outcome == "fail" and target.log_e_run >= math.log(1 / alpha):
        sentences.append(f"Odds against bad luck: {words.odds(target.log_e_run)}.")
    if target.outcome in ("fail", "pass"):
        sentences.append(f"False alarms of this gate: {words.false_alarm_rate(alpha)}.")
    return " ".join(sentences)


def coverage(target: TargetReport) -> str:
    """How many of the planted defects this very run would have found, and which not."""
    if not target.coverage:
        return ""
    defects = dict.fromkeys(row.defect for row in target.coverage)
    missed = [row for row in target.coverage if not row.covered]
    found = len(defects) - len({row.defect for row in missed})
    pairs = len(target.coverage)
    text = (
        f"This run would have found {found} of {len(defects)} planted defects; crossed with the"
        f" filters that must be on, {pairs - len(missed)} of {pairs}."
    )
    if missed:
        text += " Not covered: " + "; ".join(_missed(row) for row in missed[:5])
        text += f"; and {len(missed) - 5} more." if len(missed) > 5 else "."
    return text


def _missed(row: Coverage) -> str:
    where = f" with {'+'.join(row.requires)}" if row.requires else ""
    return f"{row.defect}{where}" + (f" ({row.cure.rstrip('.')})" if row.cure else "")


def _stop(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."
