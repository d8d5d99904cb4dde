"""Classical goodness of fit, Pearson's chi-square with G beside it: shown, and by choice a gate."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special


@dataclass(frozen=True)
class ChiSquareResult:
    """Two statistics of one table, each with the upper tail of chi-square at ``dof``.

    Attributes:
        statistic: Pearson's ``sum((x - e)^2 / e)``; inf where an impossible token was drawn.
        dof: Bins after pooling, less one.
        pvalue: Tail of ``statistic``; 1 where nothing could be tested (``dof`` 0).
        g_statistic: ``2 * sum(x * log(x / e))``, the likelihood ratio.
        g_pvalue: Tail of ``g_statistic``.
        n_bins: Bins after pooling; summed over the cells of a combination.
        n_draws: Draws; summed over the cells of a combination.
    """

    statistic: float
    dof: int
    pvalue: float
    g_statistic: float
    g_pvalue: float
    n_bins: int
    n_draws: int


def chi_square(
    f_obs: ArrayLike, f_exp_probs: ArrayLike, *, min_expected: float = 5.0
) -> ChiSquareResult:
    """Test the null that the counts ``f_obs [k]`` are independent draws from ``f_exp_probs [k]``.

    Bins with fewer than ``min_expected`` expected draws are pooled into one, and that one into
    the smallest of the others if it is still too small.

    Invalid where the law is known only up to noise (then compare with the law of the noise box
    that is nearest to the counts, which errs on the safe side), where one looks repeatedly and
    stops at the first alarm, and far out in the tail: at 5 expected draws Pearson's p-values
    below 1e-4 come out some times too often, G's within about twice.

    Raises:
        ValueError: shapes that differ, negative values, or probabilities that do not sum to 1.
    """
    counts, probs = np.asarray(f_obs, dtype=np.float64), np.asarray(f_exp_probs, dtype=np.float64)
    if counts.shape != probs.shape or counts.ndim != 1:
        raise ValueError(f"f_obs and f_exp_probs must be [k], got {counts.shape}, {probs.shape}")
    if (counts < 0).any() or (probs < 0).any() or abs(probs.sum() - 1) > 1e-6:
        raise ValueError("f_obs must be >= 0, and f_exp_probs >= 0 with sum 1")
    n_draws = round(counts.sum())
    observed, expected = _pooled(counts, n_draws * probs, min_expected)
    if (counts[probs == 0] > 0).any():
        return _result(np.inf, np.inf, observed.size - 1, observed.size, n_draws)
    if observed.size == 1:
        return _result(0.0, 0.0, 0, 1, n_draws)
    pearson = ((observed - expected) ** 2 / expected).sum()
    return _result(
        pearson, float(_g(observed, expected)), observed.size - 1, observed.size, n_draws
    )


def g_pvalues(
    counts: NDArray[np.int64], probs: NDArray[np.float64], *, min_expected: float = 5.0
) -> NDArray[np.float64]:
    """``chi_square(...).g_pvalue`` of many tables of equally many draws, ``[n, k] -> [n]``.

    ``probs`` ``[k]`` are all positive.
    """
    observed, expected = _pooled(counts, counts[0].sum() * probs, min_expected)
    if expected.size == 1:
        return np.ones(len(counts))
    return np.asarray(special.chdtrc(expected.size - 1, _g(observed, expected)))


def combine(results: Sequence[ChiSquareResult]) -> ChiSquareResult:
    """One test of independent cells: statistics, degrees of freedom, bins and draws add up."""
    return _result(
        sum(r.statistic for r in results),
        sum(r.g_statistic for r in results),
        sum(r.dof for r in results),
        sum(r.n_bins for r in results),
        sum(r.n_draws for r in results),
    )


def _pooled(
    counts: NDArray[np.float64] | NDArray[np.int64],
    expected: NDArray[np.float64],
    min_expected: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Observed ``[..., k]`` and expected ``[k]`` counts of the pooled bins."""
    labels = _pool(expected, min_expected)
    into = np.eye(labels.max() + 1)[labels]
    return counts @ into, expected @ into


def _g(observed: NDArray[np.float64], expected: NDArray[np.float64]) -> NDArray[np.float64]:
    """``2 * sum(x * log(x / e))`` over the last axis."""
    g = 2 * special.xlogy(observed, observed / expected).sum(axis=-1)
    # G is never negative; rounding can say so where the counts fit exactly.
    return np.asarray(np.maximum(g, 0.0))


def _pool(expected: NDArray[np.float64], min_expected: float) -> NDArray[np.int64]:
    """Labels of the pooled bins, ``[k]``: 0, 1, ... for the large ones, the last for the rest."""
    large = expected >= min_expected
    labels = np.where(large, np.cumsum(large) - 1, large.sum())
    rest = expected[~large].sum()
    if large.any() and rest < min_expected:
        smallest = np.argmin(np.where(large, expected, np.inf))
        labels = np.where(large, labels, labels[smallest])
    return labels.astype(np.int64)


def _result(pearson: float, g: float, dof: int, n_bins: int, n_draws: int) -> ChiSquareResult:
    return ChiSquareResult(
        float(pearson), dof, _tail(pearson, dof), float(g), _tail(g, dof), n_bins, n_draws
    )


def _tail(statistic: float, dof: int) -> float:
    if np.isinf(statistic):
        return 0.0
    return float(special.chdtrc(dof, statistic)) if dof else 1.0
