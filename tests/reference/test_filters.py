"""The filters on sorted rows, where every count can be found by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sampler_reference import filters
from sampler_reference.conventions import CONVENTIONS
from sampler_reference.filters import Row, Slack
from sampler_scenarios.params import SamplingParams

EXACT = Slack()
OURS = CONVENTIONS["sampler-audit"]
KEEP_ALL = replace(OURS, ties_at_k="keep_all", ties_at_p="keep_all")
DROPS_CROSSING = replace(OURS, crossing_kept=False)
FLAT = np.zeros(8)
"""Eight equal tokens: the mass before the j-th is j / 8 exactly."""

rows = st.lists(st.floats(-20, 20), min_size=1, max_size=40).map(
    lambda values: -np.sort(-np.array(values))
)


def top_p(x: Row, p: float, slack: Slack = EXACT) -> int:
    """How many tokens of the whole row are in the nucleus."""
    return filters.top_p(x, x.size, SamplingParams(top_p=p), OURS, slack)


def test_total_order_breaks_ties_by_the_lower_id() -> None:
    """Masked tokens come last."""
    x = np.array([1.0, 3.0, -np.inf, 3.0, 2.0, 3.0])
    assert filters.total_order(x).tolist() == [1, 3, 5, 4, 0, 2]


@pytest.mark.parametrize(("k", "expected"), [(-1, 8), (0, 8), (1, 1), (5, 5), (8, 8), (9, 8)])
def test_top_k_keeps_exactly_k_of_a_flat_row(k: int, expected: int) -> None:
    """0 and -1 are off, more than there is keeps all."""
    assert filters.top_k(FLAT, 8, SamplingParams(top_k=k), OURS, EXACT) == expected


def test_top_k_that_keeps_ties_keeps_the_whole_group() -> None:
    """vllm-project/vllm#50979: logits 5 4 4 4 4 1 and k = 3 keep five."""
    x = np.array([5.0, 4, 4, 4, 4, 1])
    assert filters.top_k(x, 6, SamplingParams(top_k=3), KEEP_ALL, EXACT) == 5
    assert filters.top_k(x, 6, SamplingParams(top_k=3), OURS, EXACT) == 3


@pytest.mark.parametrize(
    ("p", "expected"),
    [(1e-8, 1), (0.125, 1), (0.126, 2), (0.5, 4), (0.51, 5), (0.875, 7), (0.876, 8), (1.0, 8)],
)
def test_nucleus_of_a_flat_row_is_the_mass_before_below_p(p: float, expected: int) -> None:
    """Dyadic masses are exact: at 1/2 the fifth token, with 1/2 before it, stays out."""
    assert top_p(FLAT, p) == expected


@pytest.mark.parametrize(("p", "expected"), [(0.01, 1), (0.5, 4), (0.51, 4), (0.99, 7)])
def test_a_dropped_crossing_token_leaves_at_most_p(p: float, expected: int) -> None:
    """Where the mass reaches p exactly nothing crosses; the first token stays all the same."""
    assert filters.top_p(FLAT, 8, SamplingParams(top_p=p), DROPS_CROSSING, EXACT) == expected


def test_top_p_is_the_float32_value() -> None:
    """float32(0.9) < 0.9: of ten equal tokens nine hold more than it, so nine suffice exactly."""
    assert float(np.float32(0.9)) < 0.9
    assert top_p(np.zeros(1000), 0.9) == 900
    # float32(0.7) = 0.69999999 as well, float32(0.8) = 0.80000001 needs one token more.
    assert top_p(np.zeros(1000), 0.8) == 801


def test_top_p_that_rounds_to_one_is_off() -> None:
    """1 - 1e-9 is 1 in float32; 1 - 1e-7 is not."""
    x = np.array([0.0, -40.0])
    assert top_p(x, 1 - 1e-9) == 2
    assert top_p(x, 1 - 1e-7) == 1


def test_top_p_that_keeps_ties_keeps_the_whole_group() -> None:
    """Value based, as FlashInfer cuts: one of eight equal tokens brings all."""
    assert filters.top_p(FLAT, 8, SamplingParams(top_p=0.1), KEEP_ALL, EXACT) == 8
    assert filters.top_p(FLAT, 6, SamplingParams(top_p=0.1), KEEP_ALL, EXACT) == 6


def test_slack_moves_the_edge_of_the_nucleus_both_ways() -> None:
    """At p = 1/2 on eight equal tokens one more or one fewer is a matter of rounding."""
    assert top_p(FLAT, 0.501, Slack(mass=0.002)) == 5
    assert top_p(FLAT, 0.5, Slack(mass=0.002)) == 5
    assert top_p(FLAT, 0.501, Slack(mass=-0.002)) == 4


@pytest.mark.parametrize(("min_p", "expected"), [(0, 4), (0.3, 2), (0.5, 2), (0.51, 1), (1, 1)])
def test_min_p_keeps_equality(min_p: float, expected: int) -> None:
    """The second token has exactly half of the first one's probability."""
    x = np.array([0.0, math.log(0.5), math.log(0.25), math.log(0.01)])
    assert filters.min_p(x, 4, SamplingParams(min_p=min_p), OURS, EXACT) == expected


def test_min_p_of_one_keeps_ties_of_the_maximum_at_any_slack() -> None:
    """No rounding of the threshold can drop the maximum itself."""
    x = np.array([3.0, 3.0, 2.0])
    assert filters.min_p(x, 3, SamplingParams(min_p=1), OURS, Slack(min_p=-0.1)) == 2


def test_min_p_example_of_a_public_report() -> None:
    """state-spaces/mamba#927: logits 5 4 1.9 1 and min_p .5 have the threshold 4.307."""
    x = np.array([5.0, 4, 1.9, 1])
    assert filters.min_p(x, 4, SamplingParams(min_p=0.5), OURS, EXACT) == 1


def test_min_p_is_the_float32_value() -> None:
    """float32(0.1) is 1.5e-8 larger than .1 in relation, more than the 1e-9 of this token."""
    x = np.array([0.0, math.log(0.1) + 1e-9])
    assert filters.min_p(x, 2, SamplingParams(min_p=0.1), OURS, EXACT) == 1


def test_min_p_threshold_of_float32_arithmetic() -> None:
    """As in vllm 0.32.0 min_p.py: 20 + ln .1 = 17.69741492, in float32 the number below.

    Float32 numbers are 2^-19 apart there; 9278542 * 2^-19 = 17.69741440, and one less.
    """
    x = np.array([20, 9278542 * 2.0**-19, 9278541 * 2.0**-19])
    params = SamplingParams(min_p=0.1)
    assert filters.min_p(x, 3, params, OURS, EXACT) == 1
    assert filters.min_p(x, 3, params, CONVENTIONS["vllm-triton"], EXACT) == 2


@settings(derandomize=True)
@given(x=rows, p=st.floats(1e-6, 1), more=st.floats(0, 1))
def test_nuclei_nest(x: Row, p: float, more: float) -> None:
    """A larger p keeps at least as much, and at least one token."""
    larger = p + (1 - p) * more
    assert 1 <= top_p(x, p) <= top_p(x, min(1.0, larger))


@settings(derandomize=True)
@given(x=rows, k=st.integers(1, 50), more=st.integers(0, 50))
def test_top_k_sets_nest(x: Row, k: int, more: int) -> None:
    """A larger k keeps at least as much, whatever the rule for ties."""
    for conventions in (OURS, KEEP_ALL):
        small, large = (
            filters.top_k(x, x.size, SamplingParams(top_k=n), conventions, EXACT)
            for n in (k, k + more)
        )
        assert min(k, x.size) <= small <= large <= x.size


@settings(derandomize=True)
@given(x=rows, p=st.floats(1e-6, 0.999))
def test_the_nucleus_holds_p_and_no_token_too_many(x: Row, p: float) -> None:
    """Oracle: math.fsum, an exact second route to both masses that define the edge."""
    n, p32 = top_p(x, p), float(np.float32(p))
    weights = [math.exp(v - x[0]) for v in x]
    total = math.fsum(weights)
    # 1e-12 bounds the rounding of forty float64 additions and exponentials.
    assert math.fsum(weights[:n]) / total >= p32 - 1e-12
    assert math.fsum(weights[: n - 1]) / total < p32 + 1e-12
