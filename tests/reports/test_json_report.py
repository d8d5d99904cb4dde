"""The report as JSON."""

from sampler_audit.reports import json
from sampler_audit.results import AuditReport, from_json


def test_reading_it_back_gives_the_same_report(failing: AuditReport) -> None:
    """Every cell and every number."""
    assert from_json(json.render(failing)) == failing
