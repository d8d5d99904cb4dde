"""The report as JUnit XML."""

from collections.abc import Callable
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from sampler_audit.reports import conclusion, junit
from sampler_audit.results import AuditReport, Outcome, TargetReport


def root_of(report: AuditReport, *, allow_inconclusive: bool = False) -> ET.Element:
    """The parsed document."""
    return ET.fromstring(junit.render(report, allow_inconclusive=allow_inconclusive))


def result_of(root: ET.Element, classname: str, name: str) -> str:
    """``failure``, ``error``, ``skipped`` or nothing for a case."""
    case = root.find(f"testsuite/testcase[@classname='{classname}'][@name='{name}']")
    assert case is not None
    return case[0].tag if len(case) else ""


def test_document_of_a_failing_target(
    vllm: TargetReport, failing: AuditReport, golden: Callable[[str, str], None]
) -> None:
    """The whole text."""
    golden("junit.xml", junit.render(replace(failing, targets=(vllm,))))


def test_one_case_a_cell_a_combination_and_the_run(failing: AuditReport) -> None:
    """And one for all targets together."""
    root = root_of(failing)
    for target in failing.targets:
        cases = root.findall(f"testsuite[@name='{target.info.name}']/testcase")
        assert len(cases) == len(target.cells) + len(target.combos) + 1
    assert result_of(root, "sampler-audit.run", "run") == "failure"


def test_counts_add_up(failing: AuditReport) -> None:
    """Cell, combination, target and whole run fail."""
    root = root_of(failing)
    suites = root.findall("testsuite")
    assert root.get("tests") == str(len(root.findall("testsuite/testcase")))
    assert root.get("failures") == "4"
    assert sum(int(suite.get("failures", "")) for suite in suites) == 4
    # Jenkins' junit-10.xsd has the attribute on suites only.
    assert root.get("skipped") is None
    assert all(suite.get("skipped") == "0" for suite in suites)


def test_times_are_those_of_the_clock(failing: AuditReport) -> None:
    """Cells run side by side, so the sum of theirs is no duration."""
    root = root_of(failing)
    assert root.get("time") == f"{failing.seconds:.3f}"
    times = [suite.get("time") for suite in root.findall("testsuite")][:-1]
    assert times == [f"{target.seconds:.3f}" for target in failing.targets]


def test_a_pooled_failure_belongs_to_the_run_alone(passing: AuditReport) -> None:
    """No cell and no combination fails."""
    target = replace(
        passing.targets[0], outcome="fail", reason="the draws as a whole", log_e_run=20
    )
    root = root_of(replace(passing, targets=(target,)))
    assert result_of(root, "builtin.run", "run") == "failure"
    assert root.find("testsuite[@name='builtin']").get("failures") == "1"  # type: ignore[union-attr]  # the suite exists


def test_known_faults_are_skipped(passing: AuditReport, vllm: TargetReport) -> None:
    """The cell and the combination that fails through it alone."""
    cells = [replace(c, known="seen (link)" if c.outcome == "fail" else "") for c in vllm.cells]
    target = replace(vllm, cells=tuple(cells), outcome="pass")
    root = root_of(replace(passing, targets=(target,)))
    assert result_of(root, "vllm.cell", vllm.cells[-1].cell) == "skipped"
    assert result_of(root, "vllm.combination", "top_k+top_p+min_p") == "skipped"
    assert root.get("failures") == "0"


@pytest.mark.parametrize("allow", [False, True])
@pytest.mark.parametrize("outcome", ["pass", "fail", "inconclusive", "error"])
def test_the_run_is_red_exactly_where_the_exit_code_is_not_0(
    passing: AuditReport, outcome: Outcome, allow: bool
) -> None:
    """A CI system may look at either."""
    report = replace(passing, targets=(replace(passing.targets[0], outcome=outcome),))
    code = conclusion.exit_code(report, allow_inconclusive=allow)
    root = root_of(report, allow_inconclusive=allow)
    red = result_of(root, "sampler-audit.run", "run") != ""
    assert red is (code != 0)
    assert red is (root.get("failures") != "0" or root.get("errors") != "0")


@pytest.mark.parametrize(("searched", "result"), [(False, "error"), (True, "skipped")])
def test_a_target_that_is_not_reached(failing: AuditReport, searched: bool, result: str) -> None:
    """An error where it was named."""
    report = replace(failing, unavailable=(("flashinfer", "not here"),), searched=searched)
    assert result_of(root_of(report), "sampler-audit.target", "flashinfer") == result


def test_characters_that_xml_cannot_hold_are_replaced(passing: AuditReport) -> None:
    """A worker's message with terminal escapes."""
    report = replace(passing, unavailable=(("vllm", "\x1b[31mboom\x00"),))
    message = root_of(report).find("testsuite/testcase/error").get("message")  # type: ignore[union-attr]  # the case exists
    assert message == "not reached: \ufffd[31mboom\ufffd"


@pytest.mark.parametrize(
    ("field", "words"), [("interrupted", "Interrupted"), ("searched", "Nothing was learned")]
)
def test_why_the_run_is_red_is_in_its_message(passing: AuditReport, field: str, words: str) -> None:
    """Where no target is to blame."""
    report = replace(passing, interrupted=field == "interrupted", searched=field == "searched")
    assert words in junit.render(report)
