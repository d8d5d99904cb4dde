"""The report as JSON: every cell, a schema version, and everything that other formats show."""

from sampler_audit.results import AuditReport, to_json


def render(report: AuditReport) -> str:
    """``results.to_json`` as the text of a file."""
    return to_json(report) + "\n"
