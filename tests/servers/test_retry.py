import math
from datetime import UTC, datetime

import pytest

from sampler_audit.servers._retry import Backoff

NOW = datetime(2026, 9, 21, 12, 0, 0, tzinfo=UTC)


def test_pauses_double_up_to_a_limit() -> None:
    """0.5 s, doubled, at most 30 s."""
    delays = [Backoff().delay_s(attempt, "", NOW) for attempt in (0, 1, 2, 10)]
    assert delays == [0.5, 1.0, 2.0, 30.0]


@pytest.mark.parametrize(
    ("retry_after", "delay_s"),
    [
        ("7", 7.0),
        ("0", 0.0),
        ("-3", 0.0),
        # RFC 9110, 10.2.3: seconds, or a date.
        ("Mon, 21 Sep 2026 12:00:09 GMT", 9.0),
        ("Mon, 21 Sep 2026 11:00:00 GMT", 0.0),
        ("Mon, 21 Sep 2026 12:00:09", 9.0),
        ("soon", 0.5),
        ("nan", 0.5),
    ],
)
def test_retry_after_is_seconds_or_a_date(retry_after: str, delay_s: float) -> None:
    """A header that is neither is as good as none."""
    assert Backoff().delay_s(0, retry_after, NOW) == delay_s


@pytest.mark.parametrize("retry_after", ["121", "Mon, 21 Sep 2026 13:00:00 GMT"])
def test_too_long_a_pause_is_not_waited_for(retry_after: str) -> None:
    """Beyond two minutes the run would seem to hang."""
    assert Backoff().delay_s(0, retry_after, NOW) is None
    assert Backoff(longest_s=math.inf).delay_s(0, "121", NOW) == 121.0
