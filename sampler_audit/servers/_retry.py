"""When a request is tried again, and after how long."""

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

RETRIED = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses that may pass. 500 too: engines answer it when a batch of others fails."""


@dataclass(frozen=True)
class Backoff:
    """Doubling pauses, or what the server asks for. Times are in seconds.

    A ``Retry-After`` beyond ``longest_s`` is not waited for: the run would seem to hang.
    """

    first_s: float = 0.5
    most_s: float = 30.0
    longest_s: float = 120.0

    def delay_s(self, attempt: int, retry_after: str, now: datetime) -> float | None:
        """The pause after attempt 0, 1, ...; None where the server asks for too long a one."""
        asked = _seconds(retry_after, now)
        if asked is None:
            return min(self.first_s * 2.0**attempt, self.most_s)
        return asked if asked <= self.longest_s else None


def _seconds(retry_after: str, now: datetime) -> float | None:
    """The header in either of its forms; None where it is absent or neither."""
    try:
        seconds = float(retry_after)
    except ValueError:
        try:
            until = parsedate_to_datetime(retry_after)
        except ValueError:
            return None
        # A date without a zone is meant as GMT (RFC 9110, 5.6.7).
        zone = until if until.tzinfo else until.replace(tzinfo=UTC)
        seconds = (zone - now).total_seconds()
    return max(seconds, 0.0) if math.isfinite(seconds) else None
