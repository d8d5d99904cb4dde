import pytest

from sampler_audit.servers._metrics import counter, share_accepted

# The text format of Prometheus, as vLLM's /metrics writes it.
TEXT = """\
# HELP v:accepted_total Number of accepted tokens.
# TYPE v:accepted_total counter
v:accepted_total{engine="0",model="m"} 60.0
v:accepted_total{engine="1",model="m"} 3.31e+01
v:proposed_total{engine="0",model="m"} 147.0
v:proposed_total_created 1.7e9
v:idle 0
"""


def test_a_counter_is_summed_over_its_labels() -> None:
    """60 and 33.1; a metric whose name only begins so is another."""
    assert counter(TEXT, "v:accepted_total") == pytest.approx(93.1)
    assert counter(TEXT, "v:proposed_total") == 147.0
    assert counter(TEXT, "v:idle") == 0.0


def test_the_share_of_accepted_drafts() -> None:
    """93.1 of 147; nothing where there are no drafts, or none was proposed."""
    assert share_accepted(TEXT, "v:accepted_total", "v:proposed_total") == pytest.approx(93.1 / 147)
    assert share_accepted(TEXT, "v:accepted_total", "v:missing") is None
    assert share_accepted(TEXT, "v:accepted_total", "v:idle") is None
