"""How numbers are said."""

import math

import pytest

from sampler_audit.reports import words


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.0, "0 %"),
        (1.0, "100 %"),
        (0.054, "5.4 %"),
        (0.5, "50.0 %"),
        (0.0012, "0.12 %"),
        (0.9991, "99.910 %"),
        (0.9999999, ">99.999 %"),
        (1e-7, "1e-05 %"),
    ],
)
def test_a_share_strictly_between_never_reads_as_0_or_100(value: float, said: str) -> None:
    """Percentages with the digits that matter at either end."""
    assert words.share(value) == said


@pytest.mark.parametrize(
    ("value", "said"), [(0.0, "<1e-300"), (1e-12, "1e-12"), (0.034, "0.034"), (1.0, "1")]
)
def test_a_pvalue_never_reads_as_zero(value: float, said: str) -> None:
    """Small ones in exponent form, and an underflow as a bound."""
    assert words.pvalue(value) == said


@pytest.mark.parametrize(
    ("e_value", "said"),
    [
        (19.0, "more than 19 to 1"),
        (99999.0, "more than 99,999 to 1"),
        # log10(3e12) = 12.48, rounded down.
        (3e12, "more than 10^12 to 1"),
        (math.inf, "beyond all numbers"),
    ],
)
def test_odds_are_the_e_value_rounded_down(e_value: float, said: str) -> None:
    """Never more than the evidence is."""
    assert words.odds(math.log(e_value)) == said


def test_the_false_alarm_rate_is_a_frequency_of_runs() -> None:
    """1/1e-4 = 10,000; 1/.6 = 1.67, and 1 in 2 would be less than .6."""
    assert words.false_alarm_rate(1e-4) == "at most 1 run in 10,000"
    assert words.false_alarm_rate(0.6) == "at most 1 run in 1"
    assert "not proven" in words.false_alarm_rate(1e-4, "chi-square")


@pytest.mark.parametrize(
    ("value", "said"), [(950, "950"), (1500, "1.5k"), (12_345, "12k"), (3_400_000, "3.4M")]
)
def test_counts_in_tables_are_short(value: int, said: str) -> None:
    """Thousands and millions."""
    assert words.short_count(value) == said


@pytest.mark.parametrize(
    ("log_e", "said"), [(math.log(1000), "3.0"), (math.inf, "inf"), (-math.inf, "-inf")]
)
def test_log10_of_an_e_value(log_e: float, said: str) -> None:
    """log10(1000) = 3; an exact check may make it infinite."""
    assert words.log10_e(log_e) == said


@pytest.mark.parametrize(("value", "said"), [(0.42, "0.4 s"), (59.0, "59 s"), (240.0, "4 min")])
def test_durations(value: float, said: str) -> None:
    """Seconds up to two minutes, then minutes."""
    assert words.seconds(value) == said


def test_a_long_list_says_how_many_more() -> None:
    """The first two of five."""
    assert words.listed(list("abcde"), 2) == "a, b and 3 more"
