"""What a whole run comes to: its exit code, and one sentence for each target."""

import math
from collections.abc import Sequence

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
    """A named target was not reached, one is broken, or a search found no engine."""
    if report.broken:
        return True
    if report.searched:
        return nothing_learned(report)
    return bool(report.unavailable) or not report.targets


def nothing_learned(report: AuditReport) -> bool:
    """Engines were searched for and none was found: the built-in sampler is not an engine."""
    return report.searched and all(target.info.name == "builtin" for target in report.targets)


def verdict(target: TargetReport, alpha: float, gate: str = "e-value") -> str:
    """Outcome, reason, and what speaks against bad luck, with the stated false-alarm rate."""
    sentences = [f"{LABELS[target.outcome]}  {target.info.name}: {_stop(target.reason)}"]
    if smallest := [combo_name(c.combo) for c in target.combos if c.minimal]:
        sentences.append(f"Smallest failing combinations: {words.listed(smallest, 4)}.")
    exact = sum(
        cell.kept is not None and cell.kept.verdict == "FAIL" and not cell.known
        for cell in target.cells
    )
    if target.outcome == "fail" and exact:
        sentences.append(
            f"{words.plural(exact, 'kept set')} broke an exact rule, in which chance plays no part."
        )
    if target.outcome == "fail" and target.log_e_run >= math.log(1 / alpha):
        sentences.append(f"Odds against bad luck: {words.odds(target.log_e_run)}.")
    if target.outcome in ("fail", "pass"):
        sentences.append(f"False alarms of this gate: {words.false_alarm_rate(alpha, gate)}.")
    return " ".join(sentences)


def coverage(target: TargetReport) -> str:
    """How many planted defects this very run would have found, of those that its cells can show."""
    missed: dict[str, list[Coverage]] = {row.defect: [] for row in target.coverage}
    for row in target.coverage:
        missed[row.defect] += [] if row.covered else [row]
    told = [_missed(name, rows) for name, rows in missed.items() if rows]
    n_ways, n_missed = len(target.coverage), sum(map(len, missed.values()))
    if not n_ways:
        return ""
    text = (
        f"This run would have found {len(missed) - len(told)} of the"
        f" {words.plural(len(missed), 'planted defect')} that its cells can show; crossed with the"
        f" filters that must be on, {n_ways - n_missed} of {n_ways}."
    )
    if told:
        text += f" Not covered: {'; '.join(told[:5])}"
        text += f"; and {len(told) - 5} more." if len(told) > 5 else "."
    return text


def _missed(defect: str, rows: Sequence[Coverage]) -> str:
    """A defect, the filters with which it might be missed, and the first cure."""
    first = rows[0]
    where = f" with {combo_name(first.requires)}" if first.requires else ""
    if len(rows) > 1:
        where = f" with {len(rows)} sets of filters, as {combo_name(first.requires)}"
    return f"{defect}{where}" + (f" ({first.cure.rstrip('.')})" if first.cure else "")


def _stop(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."
