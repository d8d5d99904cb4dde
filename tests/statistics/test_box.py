"""The noise box against brute force and generic optimisers."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import optimize, special

from sampler_audit.statistics.box import (
    Box,
    hidden_variation,
    mass_range,
    max_log_likelihood,
    nearest_law,
    noise_box,
)

KEPT = np.array([True, True, True, False, False])
BORDERLINE = np.array([False, False, False, True, False])


def _random_box(rng: np.random.Generator, eps: float = 0.2) -> Box:
    return noise_box(rng.dirichlet(np.ones(5)), KEPT, BORDERLINE, eps)


def _optimised(counts: NDArray[np.int64], box: Box) -> float:
    """The largest log-likelihood by L-BFGS-B over the logs of the weights, where it is concave."""
    n, floor = counts.sum(), 1e-30

    def loss(u: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        total = special.logsumexp(u)
        return n * total - counts @ u, n * np.exp(u - total) - counts

    low, high = np.log(np.maximum(box.lower, floor)), np.log(np.maximum(box.upper, floor))
    found = optimize.minimize(
        loss, high, jac=True, bounds=list(zip(low, high, strict=True)), method="L-BFGS-B",
        options={"ftol": 1e-16, "gtol": 1e-10, "maxiter": 5000},
    )  # fmt: skip
    return -float(found.fun)


@pytest.mark.parametrize("seed", range(20))
def test_water_filling_equals_a_generic_optimiser(seed: int) -> None:
    """The closed form reaches the optimum that L-BFGS-B finds."""
    rng = np.random.default_rng(seed)
    box = _random_box(rng)
    counts = np.append(rng.multinomial(60, rng.dirichlet(np.ones(4))), 0)
    assert max_log_likelihood(counts, box) == pytest.approx(_optimised(counts, box), abs=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_nearest_law_is_nearest_in_total_variation(seed: int) -> None:
    """No law of the box is nearer to the shares: a linear program over laws and their scale."""
    rng = np.random.default_rng(seed)
    box = _random_box(rng)
    shares = rng.dirichlet(np.ones(5))
    # Variables: law [5], distance [5], scale. |shares - law| <= distance, law / scale in bounds.
    one, zero, column = np.eye(5), np.zeros((5, 5)), np.zeros((5, 1))
    bounds = [[one, -one, column], [-one, -one, column]]
    bounds += [[-one, zero, box.lower[:, None]], [one, zero, -box.upper[:, None]]]
    found = optimize.linprog(
        np.r_[np.zeros(5), np.full(5, 0.5), 0], A_ub=np.block(bounds),
        b_ub=np.r_[shares, -shares, np.zeros(10)], A_eq=[np.r_[np.ones(5), np.zeros(6)]], b_eq=[1],
    )  # fmt: skip
    law = nearest_law(shares, box)
    assert box.contains(law)
    assert np.abs(shares - law).sum() / 2 == pytest.approx(found.fun, abs=1e-9)


def test_leading_dimensions_are_separate_problems() -> None:
    """Counts and boxes broadcast over everything but their last axis."""
    rng = np.random.default_rng(5)
    boxes, counts = [_random_box(rng) for _ in range(3)], rng.integers(0, 9, size=(4, 3, 5))
    counts[..., 4] = 0
    stacked = Box(np.stack([b.lower for b in boxes]), np.stack([b.upper for b in boxes]))
    single = [[max_log_likelihood(counts[i, j], boxes[j]) for j in range(3)] for i in range(4)]
    np.testing.assert_allclose(max_log_likelihood(counts, stacked), single, rtol=1e-12)


@given(
    logits=st.lists(st.floats(-8, 8), min_size=2, max_size=6),
    seed=st.integers(0, 2**32 - 1),
    eps=st.floats(0, 0.5),
)
@settings(derandomize=True, deadline=None)
def test_box_contains_every_perturbed_answer(logits: list[float], seed: int, eps: float) -> None:
    """The softmax of log-probs moved by up to eps is a law of the box, and never likelier."""
    rng = np.random.default_rng(seed)
    moved = special.softmax(np.array(logits) + rng.uniform(-eps, eps, len(logits)))
    kept = np.ones(len(logits), dtype=np.bool_)
    box = noise_box(special.softmax(logits), kept, kept, eps)
    counts = rng.multinomial(30, moved)
    assert box.contains(moved)
    assert max_log_likelihood(counts, box) >= special.xlogy(counts, moved).sum() - 1e-9


def test_contains_refuses_laws_outside() -> None:
    """A law that drops a kept token, leaks, or moves further than the noise is not in the box."""
    box = noise_box(np.array([0.4, 0.3, 0.2, 0.05, 0.05]), KEPT, BORDERLINE, 0.1)
    assert box.contains(np.array([0.4, 0.3, 0.2, 0, 0]) / 0.9)
    assert not box.contains(np.array([0.6, 0.4, 0, 0, 0]))
    assert not box.contains(np.array([0.4, 0.3, 0.2, 0.05, 0.05]))
    assert not box.contains(np.array([0.5, 0.3, 0.2, 0, 0]))


def test_impossible_draw_has_no_likelihood() -> None:
    """One draw of a must-drop token has likelihood 0 under every law; no draws have 1."""
    box = _random_box(np.random.default_rng(0))
    assert max_log_likelihood([3, 0, 0, 0, 1], box) == -np.inf
    assert max_log_likelihood([0, 0, 0, 0, 0], box) == 0


def test_mass_range_is_attained_at_corners() -> None:
    """Smallest and largest share over all corners of the box, by enumeration."""
    box = _random_box(np.random.default_rng(3))
    corners = np.array(list(itertools.product(*zip(box.lower, box.upper, strict=True))))
    laws = corners / corners.sum(axis=1, keepdims=True)
    sets = np.array(list(itertools.product([False, True], repeat=5)))
    low, high = mass_range(box, sets)
    np.testing.assert_allclose(low, (laws @ sets.T).min(axis=0), atol=1e-15)
    np.testing.assert_allclose(high, (laws @ sets.T).max(axis=0), atol=1e-15)


def test_mass_range_of_one_token_moves_its_log_odds_by_twice_the_noise() -> None:
    """The published form: logit(lo) = logit(m) - 2 eps, logit(hi) = logit(m) + 2 eps."""
    kept = np.ones(3, dtype=np.bool_)
    box = noise_box(np.array([0.7, 0.25, 0.05]), kept, kept, 0.1)
    low, high = mass_range(box, np.array([False, False, True]))
    assert special.logit([low, high]) - special.logit(0.05) == pytest.approx([-0.2, 0.2])


def test_hidden_variation_is_attained_by_two_halves() -> None:
    """Half the mass up by eps and half down moves tanh(eps) / 2: 5.0 % at 0.1, 14.6 % at 0.3."""
    kept = np.ones(2, dtype=np.bool_)
    high = mass_range(noise_box(np.array([0.5, 0.5]), kept, kept, 0.3), np.array([True, False]))[1]
    assert hidden_variation(0.3) == pytest.approx(high - 0.5)
    assert hidden_variation(0.1) == pytest.approx(0.0498, abs=5e-5)


@pytest.mark.parametrize(
    ("lower", "upper", "message"),
    [
        ([0.5], [0.4], "0 <= lower <= upper"),
        ([-0.1], [0.4], "0 <= lower <= upper"),
        ([0.1], [np.inf], "finite"),
        ([0.0, 0.0], [0.0, 0.0], "at least one token"),
        ([0.0, 0.0], [1.0], "one shape"),
    ],
)
def test_impossible_boxes_are_refused(lower: list[float], upper: list[float], message: str) -> None:
    """Bounds that hold no law are an error of the caller."""
    with pytest.raises(ValueError, match=message):
        Box(np.array(lower), np.array(upper))
