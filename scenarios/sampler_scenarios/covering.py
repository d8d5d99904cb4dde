"""Pairwise covering arrays: few rows in which every two factors meet in every pair of levels.

Most faults of a filter need one other filter at a certain value; the full product of levels would
cost thirty times as much. Knows levels, not what they mean.
"""

from collections.abc import Sequence
from itertools import combinations, product
from typing import TypeVar

T = TypeVar("T")
_Pair = tuple[int, int, int, int]
"""Factor, its level, a later factor, its level; all by index."""


def pairwise(levels: Sequence[Sequence[T]]) -> list[tuple[T, ...]]:
    """Rows, one level of each factor in each, that hold every pair of levels of two factors.

    Greedy and deterministic: a row starts from the first pair not yet held, then each other factor
    takes the level that adds most new pairs, the earliest on a tie. At least as many rows as the
    product of the two longest factors; with a single factor, its levels.

    Raises:
        ValueError: no factor at all, or a factor without levels.
    """
    sizes = [len(factor) for factor in levels]
    if not sizes or 0 in sizes:
        raise ValueError(f"every factor needs at least one level, got factors of {sizes}")
    if len(sizes) == 1:
        return [(level,) for level in levels[0]]
    missing = dict.fromkeys(_all_pairs(sizes))
    rows = []
    while missing:
        row = _greedy_row(sizes, missing)
        for pair in _pairs_of(row):
            missing.pop(pair, None)
        rows.append(tuple(levels[factor][level] for factor, level in sorted(row.items())))
    return rows


def _all_pairs(sizes: Sequence[int]) -> list[_Pair]:
    return [
        (a, i, b, j)
        for a, b in combinations(range(len(sizes)), 2)
        for i, j in product(range(sizes[a]), range(sizes[b]))
    ]


def _pairs_of(row: dict[int, int]) -> list[_Pair]:
    return [(a, row[a], b, row[b]) for a, b in combinations(sorted(row), 2)]


def _greedy_row(sizes: Sequence[int], missing: dict[_Pair, None]) -> dict[int, int]:
    a, i, b, j = next(iter(missing))
    row = {a: i, b: j}
    for factor in sorted(set(range(len(sizes))) - row.keys(), key=lambda f: -sizes[f]):

        def gain(level: int, factor: int = factor) -> int:
            return sum(pair in missing for pair in _pairs_of({**row, factor: level}))

        row[factor] = max(range(sizes[factor]), key=gain)
    return row
