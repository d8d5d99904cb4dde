"""The classes under an error of the log-probs hold every answer that such an error can give."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sampler_reference.conventions import CONVENTIONS, Conventions
from sampler_reference.defect_laws import right_law
from sampler_reference.distribution import reference_distribution
from sampler_scenarios.params import SamplingParams

OURS = CONVENTIONS["sampler-audit"]
ALL = [*CONVENTIONS.values(), replace(OURS, name="drops-crossing", crossing_kept=False)]

VERTICES = [np.array(signs) for signs in itertools.product([-1.0, 1.0], repeat=5)]
"""All ways in which the errors of five tokens can be at the ends of their interval."""


def single_filters() -> st.SearchStrategy[SamplingParams]:
    """One filter at a time, at temperature 1."""
    return st.one_of(
        st.builds(SamplingParams, top_k=st.integers(1, 4)),
        st.builds(SamplingParams, top_p=st.floats(0.1, 0.99)),
        st.builds(SamplingParams, min_p=st.floats(0.05, 1)),
    )


rows = st.lists(st.floats(-2, 2), min_size=5, max_size=5).map(
    lambda values: np.array(values, dtype=np.float32)
)
errors = st.sampled_from([0.02, 0.1, 0.5])


def perturbed(
    x: NDArray[np.float32], params: SamplingParams, conventions: Conventions, eps: float
) -> list[NDArray[np.float64]]:
    """The exact law at every vertex of the errors.

    0.999: the float32 rounding of x + error and of x / T must not leave the stated error.
    """
    return [
        right_law((x + 0.999 * eps * signs).astype(np.float32), params, conventions)
        for signs in VERTICES
    ]


@settings(derandomize=True, max_examples=200, deadline=None)
@given(
    x=rows,
    params=st.builds(
        SamplingParams,
        temperature=st.sampled_from([0, 0.5, 1, 2]),
        top_k=st.sampled_from([-1, 1, 2, 3, 4]),
        top_p=st.one_of(st.just(1.0), st.floats(0.1, 1)),
        min_p=st.one_of(st.just(0.0), st.floats(0, 1)),
    ),
    conventions=st.sampled_from(ALL),
    eps=errors,
)
def test_the_box_holds_every_perturbed_answer(
    x: NDArray[np.float32], params: SamplingParams, conventions: Conventions, eps: float
) -> None:
    """At all 32 vertices the kept set lies between the classes and the law within the bounds."""
    box = reference_distribution(x, params, conventions, eps)
    for probs in perturbed(x, params, conventions, eps):
        assert (box.must_keep <= (probs > 0)).all()
        assert ((probs > 0) <= box.may_keep).all()
        assert box.n_kept_range[0] <= np.count_nonzero(probs) <= box.n_kept_range[1]
        assert_law_in_box(probs, box.lower, box.upper)


def assert_law_in_box(
    probs: NDArray[np.float64], lower: NDArray[np.float64], upper: NDArray[np.float64]
) -> None:
    """At some scale s every s * probs lies between its bounds."""
    on = probs > 0
    assert (upper[on] / probs[on]).min() >= (lower[on] / probs[on]).max() * (1 - 1e-12)


@settings(derandomize=True, max_examples=150, deadline=None)
@given(x=rows, params=single_filters(), eps=errors)
def test_the_classes_of_a_single_filter_are_no_wider_than_needed(
    x: NDArray[np.float32], params: SamplingParams, eps: float
) -> None:
    """A token is certain exactly if all vertices keep it.

    For top_k and min_p it is possible exactly if some vertex keeps it; top_p's bound is attained
    only where tokens are further apart than two errors.
    """
    box = reference_distribution(x, params, OURS, 0.999 * eps, mass_error=0.0)
    laws = np.array(perturbed(x, params, OURS, eps))
    assert np.array_equal(box.must_keep, (laws > 0).all(axis=0))
    if params.top_p == 1 or np.diff(np.sort(x)).min() > 2 * eps:
        assert np.array_equal(box.may_keep, (laws > 0).any(axis=0))


@pytest.mark.parametrize(
    ("p", "must", "may"), [(0.68, 1, 1), (0.70, 1, 2), (0.76, 1, 2), (0.78, 2, 2)]
)
def test_the_mass_before_a_token_has_a_range(p: float, must: int, may: int) -> None:
    """Logits 1 and 0, error .1: the first holds 1 / (1 + e^(-1 +- .2)), .690 to .769."""
    x = np.array([1, 0], dtype=np.float32)
    d = reference_distribution(x, SamplingParams(top_p=p), OURS, eps=0.1)
    assert (d.must_keep.sum(), d.may_keep.sum()) == (must, may)


def test_possible_survivors_lend_no_certain_mass() -> None:
    """Three tokens on min_p's edge may all be gone: the first then holds .668, beyond p = .6."""
    x = np.array([0, -0.5, -1, -1, -1], dtype=np.float32)
    params = SamplingParams(top_p=0.6, min_p=float(np.exp(-1)))
    d = reference_distribution(x, params, OURS, eps=0.1)
    assert d.must_keep.tolist() == [True, False, False, False, False]
    assert any(np.count_nonzero(probs) == 1 for probs in perturbed(x, params, OURS, 0.1))


def test_a_second_filter_counts_on_certain_survivors_alone() -> None:
    """min_p leaves two tokens for sure and two perhaps: the latter cannot enter the best two."""
    x = np.array([3, 2, 0.05, -0.05], dtype=np.float32)
    params = SamplingParams(top_k=2, min_p=float(np.exp(-3)))
    d = reference_distribution(x, params, OURS, eps=0.1)
    assert d.must_keep.tolist() == d.may_keep.tolist() == [True, True, False, False]


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
    sure = reference_distribution(x, greedy, OURS, eps=0.04)
    assert sure.must_keep.tolist() == sure.may_keep.tolist() == [False, True, False]


def test_an_error_beyond_all_measure_excludes_nothing() -> None:
    """Eps / T = 1e5 nats: every token may be drawn, none must, and nothing overflows."""
    x = np.array([3, 1, 0], dtype=np.float32)
    d = reference_distribution(x, SamplingParams(temperature=1e-6, top_p=0.9), OURS, eps=0.1)
    assert d.may_keep.tolist() == [True, False, False]
    wide = reference_distribution(x, SamplingParams(temperature=1e-6, top_p=0.9), OURS, eps=5)
    assert wide.may_keep.all()
    assert np.isfinite(wide.upper).all()
    assert not (wide.must_keep | (wide.lower > 0)).any()
