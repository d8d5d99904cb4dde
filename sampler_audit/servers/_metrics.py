"""Counters in the text that Prometheus reads."""

import math
import re


def counter(text: str, name: str) -> float | None:
    """The sum of a metric over all its labels; None where it is not there."""
    values = re.findall(rf"^{re.escape(name)}(?:\{{[^\n]*\}})? ([0-9.eE+]+)", text, re.MULTILINE)
    return math.fsum(map(float, values)) if values else None


def share_accepted(text: str, accepted: str, proposed: str) -> float | None:
    """One counter's share of another; None where either is missing or nothing was counted."""
    taken, offered = counter(text, accepted), counter(text, proposed)
    return taken / offered if taken is not None and offered else None
