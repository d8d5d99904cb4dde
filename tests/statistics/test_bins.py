"""Bins of large vocabularies."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sampler_audit.statistics.bins import bin_tokens, binned


def _classes(vocab_size: int, n_kept: int, n_borderline: int) -> list[NDArray[np.bool_]]:
    rank = np.arange(vocab_size)
    return [rank < n_kept, (rank >= n_kept) & (rank < n_kept + n_borderline)]


def test_few_tokens_are_alone_in_descending_order() -> None:
    """Kept tokens by probability, ties by id, then borderline ones together, then dropped ones."""
    probs = np.array([0.1, 0.4, 0.05, 0.1, 0.05, 0.2, 0.1])
    must = np.array([True, True, False, True, False, False, False])
    may = np.array([True, True, True, True, True, False, False])
    assert bin_tokens(probs, must, may).tolist() == [1, 0, 3, 2, 3, 4, 4]


def test_no_empty_bins_where_a_class_is_absent() -> None:
    """Without borderline or dropped tokens there is no bin for them."""
    kept = np.ones(3, dtype=np.bool_)
    assert bin_tokens(np.array([0.2, 0.5, 0.3]), kept, kept).tolist() == [2, 0, 1]
    assert bin_tokens(np.array([0.2, 0.5, 0.3]), ~kept, kept).tolist() == [0, 0, 0]


@given(
    weights=st.lists(st.floats(0, 1e6), min_size=1, max_size=300),
    n_kept=st.integers(0, 300),
    n_borderline=st.integers(1, 9),
    max_bins=st.integers(8, 40),
)
@settings(derandomize=True, deadline=None)
def test_bins_partition_by_class(
    weights: list[float], n_kept: int, n_borderline: int, max_bins: int
) -> None:
    """At most max_bins labels without gaps; no bin mixes classes; order follows probability."""
    probs = np.sort(np.array(weights) + 1e-300)[::-1] / (sum(weights) + 1e-290)
    must, may = _classes(probs.size, n_kept, n_borderline)
    labels = bin_tokens(probs, must, may, max_bins=max_bins)
    assert labels.max() < max_bins
    assert (np.diff(labels) >= 0).all()
    assert set(labels) == set(range(labels.max() + 1))
    for member in (must, may):
        assert not set(labels[member]) & set(labels[~member])


@pytest.mark.parametrize("exponent", [0.0, 0.3, 1.0, 1.5])
def test_every_early_stop_takes_half_of_some_tail(exponent: float) -> None:
    """Uniform to steep Zipf: where a filter stops early, a tail of bins loses half its mass."""
    weights = np.arange(1, 5001, dtype=np.float64) ** -exponent
    probs = np.asarray(weights / weights.sum())
    must, may = _classes(probs.size, probs.size, 0)
    starts = np.unique(bin_tokens(probs, must, may), return_index=True)[1]
    tail = np.cumsum(probs[::-1])[::-1]
    # 16 bins are groups, so halving ends at 2^-15 of the mass of the tokens that are not alone.
    cuts = np.flatnonzero(tail > tail[starts[16]] * 2.0**-15)
    before = starts[np.searchsorted(starts, cuts, side="right") - 1]
    assert (tail[cuts] >= tail[before] / 2).all()


def test_weak_tokens_worth_missing_stay_alone() -> None:
    """The last four of 100 tokens of 1 % have bins of their own; those of 1 in 10,000 have not."""
    for n, alone in ((100, True), (10_000, False)):
        must, may = _classes(n, n, 0)
        labels = bin_tokens(np.full(n, 1 / n), must, may)
        assert (np.bincount(labels)[-4:] == 1).all() == alone


def test_binned_sums() -> None:
    """Values of one label add up."""
    labels = np.array([1, 0, 1, 2])
    assert binned(labels, np.array([0.5, 0.25, 0.125, 0.0])).tolist() == [0.25, 0.625, 0.0]
    assert binned(labels, np.array([1, 2, 3, 4])).tolist() == [2, 4, 4]


def test_bad_input_is_refused() -> None:
    """Too few bins for the classes, or nothing that may be drawn."""
    kept = np.ones(3, dtype=np.bool_)
    with pytest.raises(ValueError, match="at least 8, got 4"):
        bin_tokens(np.ones(3) / 3, kept, kept, max_bins=4)
    with pytest.raises(ValueError, match="all are dropped"):
        bin_tokens(np.ones(3) / 3, ~kept, ~kept)
