"""Chi-square and G against scipy.stats, R and the pooling rule by hand."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from sampler_audit.statistics.chi_square import chi_square, combine, g_pvalues


def test_values_of_r() -> None:
    """The example of R's manual page."""
    # From ?chisq.test of R, given probabilities: X-squared = 9.9901, df = 4, p-value = 0.04059.
    result = chi_square([89, 37, 30, 28, 2], [0.40, 0.20, 0.20, 0.15, 0.05])
    assert (result.dof, result.n_bins, result.n_draws) == (4, 5, 186)
    assert result.statistic == pytest.approx(9.9901, abs=5e-5)
    assert result.pvalue == pytest.approx(0.04059, abs=5e-6)


@pytest.mark.parametrize(
    ("probs", "groups"),
    [
        ([0.5, 0.3, 0.2], [[0], [1], [2]]),
        # 100 draws: 4 and 3 expected pool to 7, a bin of its own.
        ([0.5, 0.43, 0.04, 0.03], [[0], [1], [2, 3]]),
        # 2 expected are still too few: they join the smallest large bin.
        ([0.5, 0.4, 0.08, 0.02], [[0], [1], [2, 3]]),
        ([0.08, 0.02, 0.5, 0.4], [[2], [3], [0, 1]]),
        # A bin with nothing expected and nothing drawn changes nothing.
        ([0.6, 0.4, 0.0], [[0], [1, 2]]),
    ],
)
def test_pooled_table_against_scipy(probs: list[float], groups: list[list[int]]) -> None:
    """Both statistics and tails equal scipy's on the table pooled by hand."""
    counts = np.random.default_rng(11).multinomial(100, probs)
    observed = [counts[g].sum() for g in groups]
    expected = [100 * np.array(probs)[g].sum() for g in groups]
    result = chi_square(counts, probs)
    pearson, g = (stats.power_divergence(observed, expected, lambda_=kind) for kind in (1, 0))
    assert result.dof == len(groups) - 1
    found = (result.statistic, result.pvalue, result.g_statistic, result.g_pvalue)
    assert found == pytest.approx((pearson.statistic, pearson.pvalue, g.statistic, g.pvalue))


@pytest.mark.parametrize("n_draws", [3, 100, 2000])
def test_many_tables_at_once(n_draws: int) -> None:
    """Each has the p-value that scipy gives its table after pooling; 1 where one bin is left."""
    probs = np.array([0.6, 0.3, 0.06, 0.04])
    tables = np.random.default_rng(5).multinomial(n_draws, probs, size=6)
    # Expected 60 30 6 4: the last joins the third. At 2000 draws all bins stand, at 3 none does.
    groups = {3: [[0, 1, 2, 3]], 100: [[0], [1], [2, 3]], 2000: [[0], [1], [2], [3]]}[n_draws]
    observed = np.stack([tables[:, g].sum(axis=1) for g in groups], axis=1)
    expected = n_draws * np.array([probs[g].sum() for g in groups])
    pvalues = (
        stats.power_divergence(observed, expected, lambda_="log-likelihood", axis=1).pvalue
        if len(groups) > 1
        else np.ones(6)
    )
    np.testing.assert_allclose(g_pvalues(tables, probs), pvalues, rtol=1e-9)


def test_impossible_draw_is_certain() -> None:
    """A draw of a token of probability 0 has p-value 0 in both tests, pooled or not."""
    result = chi_square([60, 39, 1], [0.6, 0.4, 0.0])
    assert (result.statistic, result.pvalue, result.g_pvalue) == (np.inf, 0.0, 0.0)
    assert chi_square([9, 1], [1.0, 0.0]).pvalue == 0


@pytest.mark.parametrize("counts", [[0, 0], [2, 1]])
def test_too_few_draws_test_nothing(counts: list[int]) -> None:
    """One bin is left: no degrees of freedom, p-value 1."""
    result = chi_square(counts, [0.6, 0.4])
    assert (result.statistic, result.dof, result.pvalue, result.g_pvalue) == (0, 0, 1, 1)


def test_combine_adds_cells() -> None:
    """Statistics and degrees of freedom of independent cells add; so does an impossible draw."""
    a, b = chi_square([60, 40], [0.5, 0.5]), chi_square([30, 50, 20], [0.2, 0.6, 0.2])
    both = combine([a, b])
    # (10^2/50)*2 = 4, and 10^2/20 + 10^2/60 + 0 = 6.6667
    assert both.statistic == pytest.approx(10.66667)
    assert (both.dof, both.n_bins) == (3, 5)
    assert both.pvalue == pytest.approx(stats.chi2.sf(10.66667, 3), rel=1e-4)
    assert both.n_draws == 200
    assert combine([a, chi_square([9, 1], [1.0, 0.0])]).pvalue == 0


def test_combine_of_nothing_tests_nothing() -> None:
    """No cells, no evidence."""
    assert dataclasses.astuple(combine([])) == (0, 0, 1, 0, 1, 0, 0)


@pytest.mark.parametrize(
    ("counts", "probs", "message"),
    [
        ([1, 2], [0.5, 0.25, 0.25], "must be"),
        ([1, -2], [0.5, 0.5], ">= 0"),
        ([1, 2], [0.5, 0.6], "sum 1"),
    ],
)
def test_bad_input_is_refused(counts: list[int], probs: list[float], message: str) -> None:
    """Shapes and ranges are checked."""
    with pytest.raises(ValueError, match=message):
        chi_square(counts, probs)
