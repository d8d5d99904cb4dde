"""The classes under an error of the log-probs hold every answer that such an error can give."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sampler_reference.conventions import CONVENTIONS, Conventions
from sampler_reference.distribution import reference_distribution
from sampler_scenarios.params import SamplingParams

OURS = CONVENTIONS["sampler-audit"]
ALL = [*CONVENTIONS.values(), replace(OURS, name="drops-crossing", crossing_kept=False)]

all_params = st.builds(
    SamplingParams,
    temperature=st.sampled_from([0, 0.5, 1, 2]),
    top_k=st.integers(-1, 12),
    top_p=st.floats(0.05, 1),
    min_p=st.sampled_from([0, 0.05, 0.3, 1]),
)


@settings(derandomize=True, max_examples=300)
@given(
    logits=st.lists(st.floats(-5, 5, width=16), min_size=1, max_size=12),
    params=all_params,
    conventions=st.sampled_from(ALL),
    eps=st.sampled_from([0.01, 0.1, 0.5]),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_box_holds_every_perturbed_answer(
    logits: list[float], params: SamplingParams, conventions: Conventions, eps: float, seed: int
) -> None:
    """Errors at the ends of the interval and inside it, drawn from a seeded generator."""
    x = np.array(logits, dtype=np.float32)
    box = reference_distribution(x, params, conventions, eps)
    rng = np.random.default_rng(seed)
    # 0.999: the float32 rounding of x + error and of x / T must not leave the stated error.
    errors = 0.999 * eps * rng.choice([-1, 1, rng.uniform(-1, 1)], size=x.size)
    there = reference_distribution((x + errors).astype(np.float32), params, conventions)
    assert (box.must_keep <= there.kept).all()
    assert (there.kept <= box.may_keep).all()
    assert_law_in_box(there.probs, box.lower, box.upper)


def assert_law_in_box(
    probs: NDArray[np.float64], lower: NDArray[np.float64], upper: NDArray[np.float64]
) -> None:
    """At some scale s every s * probs lies between its bounds."""
    on = probs > 0
    assert (upper[on] / probs[on]).min() >= (lower[on] / probs[on]).max() * (1 - 1e-12)


@pytest.mark.parametrize(
    "params", [SamplingParams(top_k=3), SamplingParams(top_p=0.8), SamplingParams(min_p=0.2)]
)
def test_a_wide_gap_leaves_no_borderline_token(params: SamplingParams) -> None:
    """Three tokens at 2, 1.9, 1.8 and the rest at -3: an error of .1 moves none across."""
    x = np.array([2, 1.9, 1.8, -3, -3, -3], dtype=np.float32)
    d = reference_distribution(x, params, OURS, eps=0.1)
    assert d.must_keep.tolist() == d.may_keep.tolist() == [True] * 3 + [False] * 3


def test_a_gap_below_twice_the_error_is_borderline() -> None:
    """Second and third differ by .15: errors of .1 can swap them, errors of .05 cannot."""
    x, params = np.array([5, 1.15, 1, -5], dtype=np.float32), SamplingParams(top_k=2)
    wide = reference_distribution(x, params, OURS, eps=0.1)
    assert wide.must_keep.tolist() == [True, False, False, False]
    assert wide.may_keep.tolist() == [True, True, True, False]
    assert reference_distribution(x, params, OURS, eps=0.05).may_keep.sum() == 2


def test_temperature_divides_the_error() -> None:
    """At T = .5 an error of .1 widens weights by e^(+-.2)."""
    x = np.array([1, 0], dtype=np.float32)
    d = reference_distribution(x, SamplingParams(temperature=0.5), OURS, eps=0.1)
    assert np.log(d.upper / d.lower) == pytest.approx([0.4, 0.4])


def test_greedy_with_two_candidates_is_not_certain() -> None:
    """A maximum that leads by less than twice the error may lose."""
    x, greedy = np.array([1, 1.1, -4], dtype=np.float32), SamplingParams(temperature=0)
    d = reference_distribution(x, greedy, OURS, eps=0.1)
    assert not d.must_keep.any()
    assert d.may_keep.tolist() == [True, True, False]
    assert reference_distribution(x, greedy, OURS, eps=0.04).must_keep.tolist() == [
        False,
        True,
        False,
    ]


def test_an_error_beyond_all_measure_excludes_nothing() -> None:
    """Eps / T = 1e5 nats: every token may be drawn, none must, and nothing overflows."""
    x = np.array([3, 1, 0], dtype=np.float32)
    d = reference_distribution(x, SamplingParams(temperature=1e-6, top_p=0.9), OURS, eps=0.1)
    assert d.may_keep.tolist() == [True, False, False]
    wide = reference_distribution(x, SamplingParams(temperature=1e-6, top_p=0.9), OURS, eps=5)
    assert wide.may_keep.all()
    assert np.isfinite(wide.upper).all()
    assert not (wide.must_keep | (wide.lower > 0)).any()
