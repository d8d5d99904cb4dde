"""The report as JUnit XML: one suite a target, with a case a cell, a combination and the run.

Valid against junit-10.xsd of the xUnit plugin of Jenkins, the strictest reader in wide use.

A fault that pools the evidence of many cells belongs to none of them, hence the cases of
combinations and of the run. A known fault is skipped, so that it does not turn a build red.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from sampler_audit.reports import conclusion
from sampler_audit.reports.findings import Finding, cell_facts, findings, known_only
from sampler_audit.reports.ladder import ladder_lines
from sampler_audit.results import AuditReport, CellResult, ComboResult, Outcome, TargetReport
from sampler_scenarios.params import combo_name

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ELEMENTS = {
    "fail": "failure",
    "error": "error",
    "inconclusive": "skipped",
    "not_applicable": "skipped",
}


@dataclass(frozen=True, kw_only=True)
class _Case:
    kind: str
    name: str
    outcome: Outcome
    message: str = ""
    details: str = ""
    seconds: float = 0.0


def render(report: AuditReport, *, allow_inconclusive: bool = False) -> str:
    """The document; its last case is red exactly where the exit code is not 0."""
    root = ET.Element("testsuites", name="sampler-audit")
    for target in report.targets:
        cases = list(_target_cases(target, report))
        _add_suite(root, target.info.name, cases, target.seconds)
    code = conclusion.exit_code(report, allow_inconclusive=allow_inconclusive)
    _add_suite(root, "sampler-audit", list(_whole_run(report, code)), 0.0)
    _count(root, list(root.iter("testcase")), report.seconds)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _target_cases(target: TargetReport, report: AuditReport) -> Iterator[_Case]:
    found = {finding.combo: finding for finding in findings(target)}
    for cell in target.cells:
        yield _cell_case(cell)
    for combo in target.combos:
        yield _combo_case(
            combo, found.get(combo_name(combo.combo)), known=known_only(combo, target)
        )
    verdict = conclusion.verdict(target, report.alpha, report.gate)
    yield _Case(
        kind="run",
        name="run",
        outcome=target.outcome,
        message=verdict,
        details=conclusion.coverage(target),
    )


def _cell_case(cell: CellResult) -> _Case:
    facts = [f"{label}: {text}" for label, text in cell_facts(cell)]
    details = [*facts, cell.repeat, *ladder_lines(cell.ladder, width=100)]
    return _Case(
        kind="cell",
        name=cell.cell,
        outcome="not_applicable" if cell.known else cell.outcome,
        message=f"known fault: {cell.known}" if cell.known else cell.reason or "; ".join(facts),
        details="\n".join(filter(None, details)),
        seconds=cell.seconds,
    )


def _combo_case(combo: ComboResult, finding: Finding | None, *, known: bool) -> _Case:
    message = f"{combo.n_failed} of {combo.n_cells} cells fail"
    return _Case(
        kind="combination",
        name=combo_name(combo.combo),
        outcome="not_applicable" if known else combo.outcome,
        message="known faults only" if known else finding.title if finding else message,
        details=finding.text if finding else "",
    )


def _whole_run(report: AuditReport, code: int) -> Iterator[_Case]:
    for name, reason in (*report.unavailable, *report.broken):
        outcome: Outcome = "not_applicable" if report.searched else "error"
        yield _Case(kind="target", name=name, outcome=outcome, message=f"not reached: {reason}")
    message = f"exit code {code}"
    if report.interrupted:
        message = conclusion.INTERRUPTED
    elif conclusion.nothing_learned(report):
        message = conclusion.NOTHING_LEARNED
    run: Outcome = "pass" if code == 0 else "fail" if code == 1 else "error"
    yield _Case(kind="run", name="run", outcome=run, message=message)


def _add_suite(root: ET.Element, name: str, cases: list[_Case], seconds: float) -> None:
    suite = ET.SubElement(root, "testsuite", name=name)
    for case in cases:
        element = ET.SubElement(
            suite,
            "testcase",
            classname=f"{name}.{case.kind}",
            name=_clean(case.name),
            time=f"{case.seconds:.3f}",
        )
        if case.outcome != "pass":
            result = ET.SubElement(element, _ELEMENTS[case.outcome], message=_clean(case.message))
            result.text = _clean(case.details)
    _count(suite, list(suite), seconds)
    # The document has no such attribute in the schema of Jenkins, which is validated against.
    suite.set("skipped", _how_many(list(suite), "skipped"))


def _count(element: ET.Element, cases: list[ET.Element], seconds: float) -> None:
    """What is in an element and how long it took; cells overlap, so theirs do not add up to it."""
    element.set("tests", str(len(cases)))
    element.set("failures", _how_many(cases, "failure"))
    element.set("errors", _how_many(cases, "error"))
    element.set("time", f"{seconds:.3f}")


def _how_many(cases: list[ET.Element], tag: str) -> str:
    return str(sum(case.find(tag) is not None for case in cases))


def _clean(text: str) -> str:
    """Without the characters that XML cannot hold, which an engine's message may contain."""
    return _NOT_XML.sub("\ufffd", text)
