import json
import math
from dataclasses import replace

import pytest

from sampler_audit.draws import TargetInfo
from sampler_audit.errors import UsageError
from sampler_audit.results import (
    SCHEMA_VERSION,
    AuditReport,
    CellResult,
    LadderStep,
    TargetReport,
    from_json,
    to_json,
)

EMPTY = AuditReport(
    version="0.1.0",
    command="sampler-audit local",
    seed=7,
    alpha=1e-4,
    gate="e-value",
    combos="all",
    rows="core",
    targets=(),
    unavailable=(("vllm", "not installed"),),
)


def test_the_schema_version_comes_first() -> None:
    """A reader need not parse a whole report to refuse it."""
    assert next(iter(json.loads(to_json(EMPTY)))) == "schema_version"


def test_reading_a_report_back_gives_the_same() -> None:
    """Pairs, which JSON holds as lists, are tuples again."""
    assert from_json(to_json(EMPTY)) == EMPTY


def report_with(step: LadderStep) -> AuditReport:
    """One target, one cell, one rung."""
    info = TargetInfo(name="a", engine="a 1", device="cpu", path="", convention="c", draws=False)
    cell = CellResult(cell="a", combo=(), row_kind="a", outcome="fail", ladder=(step,))
    return replace(
        EMPTY, targets=(TargetReport(info=info, outcome="fail", reason="", cells=(cell,)),)
    )


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_numbers_that_json_lacks_come_back(value: float) -> None:
    """A row may hold such a logit; strict parsers refuse the names that Python writes for them."""
    text = to_json(
        report_with(LadderStep(token=1, logit=value, expected=0, observed=0, low=0, high=0))
    )
    json.loads(text, parse_constant=pytest.fail)
    assert str(from_json(text).targets[0].cells[0].ladder[0].logit) == str(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not a JSON report"),
        ("[]", "schema version None"),
        ('{"schema_version": 999}', f"999; this version reads {SCHEMA_VERSION}"),
        (f'{{"schema_version": {SCHEMA_VERSION}}}', "not a whole report"),
        (to_json(EMPTY).replace('"targets": []', '"targets": 3'), "not a whole report"),
        (to_json(EMPTY).replace('"seed"', '"sead"'), "not a whole report"),
    ],
    ids=["no JSON", "a list", "another version", "nothing in it", "no list", "another field"],
)
def test_text_that_is_no_report_is_a_usage_error(text: str, message: str) -> None:
    """Whatever it is instead."""
    with pytest.raises(UsageError, match=message):
        from_json(text)
