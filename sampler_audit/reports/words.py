"""How numbers are said: odds, shares, p-values, counts. Knows no result type."""

import math

_LN10 = math.log(10)


def share(value: float) -> str:
    """A probability as a percentage; never a rounded 0 % or 100 % for one strictly between."""
    percent = 100 * value
    if percent <= 0 or percent >= 100:
        return f"{percent:.0f} %"
    if percent > 99.999:
        return ">99.999 %"
    if percent < 0.001:
        return f"{percent:.0e} %"
    edge = min(percent, 100 - percent)
    return f"{percent:.{3 if edge < 0.1 else 2 if edge < 1 else 1}f} %"


def pvalue(value: float) -> str:
    """A p-value: never a rounded zero."""
    if value == 0:
        return "<1e-300"
    return f"{value:.2g}" if value >= 0.001 else f"{value:.0e}"


def log10_e(log_e: float) -> str:
    """The base-10 logarithm of an e-value given by its natural one."""
    if math.isinf(log_e):
        return "inf" if log_e > 0 else "-inf"
    return f"{log_e / _LN10:.1f}"


def odds(log_e: float) -> str:
    """An e-value above 1 as odds against bad luck; rounded down, so never more than there are."""
    exponent = log_e / _LN10
    if math.isinf(exponent):
        return "beyond all numbers"
    if exponent >= 6:
        return f"more than 10^{math.floor(exponent)} to 1"
    return f"more than {count(math.floor(math.exp(log_e) + 1e-9))} to 1"


def false_alarm_rate(alpha: float, gate: str = "e-value") -> str:
    """``alpha`` as a frequency of runs, never a smaller one.

    The chi-square gate has no proven rate; DESIGN.md 5 has the measurement.
    """
    if gate != "e-value":
        return f"not proven; 1.0 to 1.4 times {alpha:g} when measured"
    return f"at most 1 run in {count(math.floor(1 / alpha + 1e-9))}"


def count(value: int) -> str:
    """With thousands separators."""
    return f"{value:,}"


def short_count(value: int) -> str:
    """At most five characters below 10^9: 950, 12k, 3.4M."""
    for size, letter in ((10**6, "M"), (10**3, "k")):
        if value >= size:
            scaled = value / size
            return f"{scaled:.1f}{letter}" if scaled < 10 else f"{scaled:.0f}{letter}"
    return str(value)


def plural(n: int, noun: str) -> str:
    """``1 cell``, ``2 cells``."""
    return f"{count(n)} {noun}{'' if n == 1 else 's'}"


def seconds(value: float) -> str:
    """A duration as a person says it."""
    if value >= 120:
        return f"{value / 60:.0f} min"
    return f"{value:.0f} s" if value >= 10 else f"{value:.1f} s"


def listed(items: list[str], most: int) -> str:
    """The first ``most`` items, and how many more there are."""
    more = len(items) - most
    return ", ".join(items[:most]) + (f" and {more} more" if more > 0 else "")
