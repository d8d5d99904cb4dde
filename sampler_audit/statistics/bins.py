"""Bins for histograms of large vocabularies: few enough to test, fine where filters cut."""

import numpy as np
from numpy.typing import NDArray

WEAK_TOKENS = 4
"""How many of the weakest kept tokens get a bin of their own ..."""

WEAK_PROB = 1e-3
"""... where the weakest is at least this probable, so that ten thousand draws would miss it."""


def bin_tokens(
    probs: NDArray[np.float64],
    must_keep: NDArray[np.bool_],
    may_keep: NDArray[np.bool_],
    *,
    max_bins: int = 32,
) -> NDArray[np.int64]:
    """The bin of each token, ``[vocab_size]`` int64: 0, 1, ... without gaps, at most ``max_bins``.

    Kept tokens come first, in descending order of ``probs [vocab_size]`` with ties by lowest id,
    so that a suffix of their bins is a tail of the law. Then one bin of all borderline tokens
    (``may_keep`` and not ``must_keep``; this is where ties go that conventions leave open), then
    one of all dropped tokens; either is absent where it would be empty.

    Where there are more kept tokens than bins, the most probable ones stay alone, the weakest
    ones too if they are probable enough to be missed, and the ones between are cut where the
    mass of their tail has halved again. So wherever a filter stops too early, some tail of bins
    has lost at least half of its mass; the resolution ends where the tail has halved as often as
    there are groups, about one for every two bins.

    Raises:
        ValueError: ``max_bins`` below 8, or no token that may be kept.
    """
    if max_bins < 8:
        raise ValueError(f"max_bins must be at least 8, got {max_bins}")
    borderline = may_keep & ~must_keep
    dropped = ~(may_keep | must_keep)
    if dropped.all():
        raise ValueError("at least one token must be kept or borderline; all are dropped")
    kept = np.flatnonzero(must_keep)
    kept = kept[np.argsort(-probs[kept], kind="stable")]
    labels = np.zeros(probs.size, dtype=np.int64)
    labels[kept] = _bin_kept(probs[kept], max_bins - int(borderline.any()) - int(dropped.any()))
    labels[borderline] = max_bins
    labels[dropped] = max_bins + 1
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)


def _bin_kept(probs: NDArray[np.float64], n_bins: int) -> NDArray[np.int64]:
    """Bins of probabilities in descending order, ``[n] -> [n]``, at most ``n_bins``."""
    if probs.size <= n_bins:
        return np.arange(probs.size)
    n_weak = WEAK_TOKENS if probs[-1] >= WEAK_PROB else 0
    n_groups = (n_bins - n_weak) // 2
    n_head = n_bins - n_weak - n_groups
    middle = probs[n_head : probs.size - n_weak]
    # Probabilities may underflow to 0; such tokens join the last group.
    tail = np.maximum(np.cumsum(middle[::-1])[::-1], np.finfo(np.float64).tiny)
    groups = np.floor(np.log2(tail[0] / tail)).clip(0, n_groups - 1).astype(np.int64)
    return np.concatenate([np.arange(n_head), n_head + groups, n_bins - n_weak + np.arange(n_weak)])


def binned(
    labels: NDArray[np.int64], values: NDArray[np.float64] | NDArray[np.int64]
) -> NDArray[np.float64]:
    """Sums of ``values [n]`` by label, ``[k]`` with k one more than the largest label.

    Sums of bounds are bounds of sums: the bins of a noise box are a noise box.
    """
    return np.asarray(np.bincount(labels, weights=values), dtype=np.float64)
