"""Covering arrays hold every pair of levels; the pairs are enumerated here anew."""

from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampler_scenarios.covering import pairwise


@given(st.lists(st.integers(1, 6), min_size=1, max_size=5))
def test_every_pair_is_covered(sizes: list[int]) -> None:
    """Any two factors meet in every pair of levels, and every level is a level of its factor."""
    levels = [[f"{factor}:{i}" for i in range(size)] for factor, size in enumerate(sizes)]
    rows = pairwise(levels)
    for a, b in combinations(range(len(sizes)), 2):
        assert {(row[a], row[b]) for row in rows} == set(product(levels[a], levels[b]))
    assert all({row[f] for row in rows} == set(levels[f]) for f in range(len(sizes)))


@given(st.lists(st.integers(2, 6), min_size=2, max_size=5))
def test_arrays_are_small(sizes: list[int]) -> None:
    """At most two and a half times the bound below which no array can exist."""
    least = max(a * b for a, b in combinations(sizes, 2))
    assert least <= len(pairwise([range(size) for size in sizes])) <= 2.5 * least


def test_same_array_each_time() -> None:
    """No randomness."""
    levels = [range(8), range(9), range(9), range(4)]
    assert pairwise(levels) == pairwise(levels)


@pytest.mark.parametrize("levels", [[], [[1], []]])
def test_nothing_to_cover(levels: list[list[int]]) -> None:
    """No factor, or one without levels, is refused."""
    with pytest.raises(ValueError, match="every factor needs at least one level"):
        pairwise(levels)
