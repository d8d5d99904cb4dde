"""Replayed defects against exact power."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from sampler_audit.statistics.box import noise_box
from sampler_audit.statistics.power import (
    PlannedCell,
    classical_coverage_by_set,
    coverage,
    coverage_by_set,
    draws_needed,
)


def _cell(law: list[float], defect: list[float], n_draws: int, *, eps: float = 0.0) -> PlannedCell:
    probs: NDArray[np.float64] = np.array(law)
    return PlannedCell(
        noise_box(probs, probs > 0, probs > 0, eps), np.array(defect), n_draws=n_draws
    )


def test_power_equals_the_binomial() -> None:
    """One cell of two tokens: the runs found are binomial with the power summed exactly."""
    cell = _cell([0.7, 0.3], [0.85, 0.15], 40)
    # Seen x times, the defect has log odds x ln(.15/.3) + (40 - x) ln(.85/.7), softened by rho.
    x = np.arange(41)
    odds = np.minimum(0.5**x * (0.85 / 0.7) ** (40 - x), np.exp(3))
    pooled = np.mean([1 - r + r * odds for r in (0.1, 0.5, 0.95)], axis=0)
    exact = stats.binom.pmf(x, 40, 0.15)[pooled >= np.exp(1)].sum()
    assert 0.3 < exact < 0.9
    power = coverage([cell], 1.0, np.random.default_rng(6), n_runs=2000)
    low, high = stats.binom.interval(1 - 1e-6, 2000, exact)
    assert low <= power.n_found <= high


def test_lower_bound_is_one_sided() -> None:
    """200 of 200 found prove 0.05^(1/200) = 98.5 %; none found prove nothing."""
    always, never = _cell([0.5, 0.5], [1, 0], 20), _cell([0.5, 0.5], [1, 0], 1)
    rng = np.random.default_rng(0)
    found, missed = coverage([always], 2.0, rng), coverage([never], 2.0, rng)
    assert (found.n_runs, found.n_found, found.covered) == (200, 200, True)
    assert found.lower95 == pytest.approx(0.05 ** (1 / 200))
    assert (missed.n_found, missed.lower95, missed.covered) == (0, 0, False)


def test_defect_inside_the_noise_is_not_exercised() -> None:
    """A law that the box allows leaves no cell in which the defect could be seen."""
    power = coverage(
        [_cell([0.7, 0.3], [0.72, 0.28], 1000, eps=0.1)], 1.0, np.random.default_rng(0)
    )
    assert (power.n_cells, power.n_found) == (0, 0)
    assert coverage([], 1.0, np.random.default_rng(0)).n_cells == 0


def test_leak_is_found_by_one_impossible_draw() -> None:
    """A leaked token of 1 % fails the run at its first draw, however high the threshold."""
    cell = _cell([0.6, 0.4, 0.0], [0.594, 0.396, 0.01], 100)
    power = coverage([cell], 50.0, np.random.default_rng(8), n_runs=2000)
    # Chance 1 - .99^100 = 63.4 %.
    low, high = stats.binom.interval(1 - 1e-6, 2000, 1 - 0.99**100)
    assert low <= power.n_found <= high


def test_noise_costs_power() -> None:
    """The same defect is found less often where the log-probs are known less well."""
    found = [
        coverage(
            [_cell([0.7, 0.3], [0.85, 0.15], 60, eps=eps)] * 6, 6.0, np.random.default_rng(1)
        ).n_found
        for eps in (0.0, 0.1, 0.3)
    ]
    assert found[0] > found[1] > found[2]


def test_draws_needed() -> None:
    """A 5 % token dropped in 50 cells at one draw each: 8 times as many draws cover it."""
    cells = [_cell([0.95, 0.05], [1, 0], 1)] * 50
    # Nothing is seen, so n draws give (mean over rho of (1 - rho + rho .95^-n)^50), for certain:
    # log 8.7 at n = 4 and 18.8 at n = 8.
    rng = np.random.default_rng(3)
    assert draws_needed(cells, 14.0, rng) == 8
    assert draws_needed(cells, 8.0, rng) == 4
    assert draws_needed([replace(cells[0], q_defect=np.array([0.95, 0.05]))], 14.0, rng) is None


def test_sets_of_cells_have_their_own_power() -> None:
    """Fifty cells find what five do not; a set without a cell that shows it is not exercised."""
    cells = [_cell([0.95, 0.05], [1, 0], 8)] * 50 + [_cell([0.95, 0.05], [0.95, 0.05], 8)]
    members = np.zeros((3, 51), dtype=np.bool_)
    members[0], members[1, :5], members[2, 50] = True, True, True
    powers = coverage_by_set(cells, members, 14.0, np.random.default_rng(4))
    assert [p.n_found for p in powers] == [200, 0, 0]
    assert [p.n_cells for p in powers] == [50, 5, 0]


def test_the_classical_gate_needs_one_cell_that_shows_the_defect() -> None:
    """Fifty cells together do not help the classical gate.

    A dropped token of 5 %: G = -2 n ln .95 is 41 at n = 400, p = 1.5e-10 on one degree of
    freedom, and 8.2 at n = 80, p = .004.
    """
    rng = np.random.default_rng(6)
    for n_draws, found in ((400, 200), (80, 0)):
        cells = [_cell([0.95, 0.05], [1, 0], n_draws)] * 50
        members = np.ones((1, 50), dtype=np.bool_)
        (power,) = classical_coverage_by_set(cells, members, 1e-4 / 50, rng)
        assert (power.n_found, power.n_cells) == (found, 50)


def test_leaks_that_a_larger_error_would_allow_do_not_fail_a_run_alone() -> None:
    """A third of the impossible draws is telling: 20 draws that leak 30 % of the time."""
    probs = np.array([0.6, 0.4, 0.0])
    kept = np.array([True, True, False])
    box = noise_box(probs, kept, kept, 0.01)
    cell = PlannedCell(box, np.array([0.42, 0.28, 0.3]), n_draws=20, telling=1 / 3)
    # One cell alone is far from ln(10^6), so that only a telling draw finds it: 1 - .9^20.
    power = coverage([cell], np.log(1e6), np.random.default_rng(8), n_runs=2000)
    low, high = stats.binom.interval(1 - 1e-6, 2000, 1 - 0.9**20)
    assert low <= power.n_found <= high
