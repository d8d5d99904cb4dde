"""Typical and edge values are inside the ranges and mean what they say."""

from itertools import combinations, product

import pytest

from sampler_scenarios.combos import ALL_COMBOS
from sampler_scenarios.params import FILTERS, Combo, SamplingParams, combo_name
from sampler_scenarios.settings import (
    EDGE_MIN_PS,
    EDGE_TEMPERATURES,
    EDGE_TOP_PS,
    edge_params,
    edge_top_ks,
    typical_params,
)


@pytest.mark.parametrize("combo", ALL_COMBOS, ids=combo_name)
def test_typical_params_have_their_combination(combo: Combo) -> None:
    """One or two distinct settings with exactly the combination's filters on."""
    typical = typical_params(combo)
    assert 1 <= len(set(typical)) == len(typical) <= 2
    assert {params.combo for params in typical} == {combo}


def test_the_field_reports_setting_is_typical() -> None:
    """All filters on as in the report comes first among all four."""
    report = SamplingParams(temperature=0.6, top_k=20, top_p=0.95, min_p=0.05)
    assert typical_params(FILTERS)[0] == report


@pytest.mark.parametrize(
    ("vocab_size", "expected"),
    [
        (1, (-1, 0, 1, 2, 20, 50)),
        (2, (-1, 0, 1, 2, 3, 20, 50)),
        (4096, (-1, 0, 1, 2, 20, 50, 4095, 4096, 4097)),
    ],
)
def test_edge_top_ks(vocab_size: int, expected: tuple[int, ...]) -> None:
    """{-1, 0, 1, 2, 20, 50, V-1, V, V+1}, each once."""
    assert edge_top_ks(vocab_size) == expected


@pytest.mark.parametrize("vocab_size", [1, 2, 50, 51, 4096])
def test_edge_params_pair_every_two_values(vocab_size: int) -> None:
    """Every two edge values of two filters occur together, in an array near the least size."""
    values: dict[str, set[float]] = {
        "temperature": set(EDGE_TEMPERATURES),
        "top_k": set(edge_top_ks(vocab_size)),
        "top_p": set(EDGE_TOP_PS),
        "min_p": set(EDGE_MIN_PS),
    }
    rows = edge_params(vocab_size)
    for a, b in combinations(FILTERS, 2):
        together = {(getattr(row, a), getattr(row, b)) for row in rows}
        assert together == set(product(values[a], values[b]))
    assert len(rows) <= 100  # top_k and top_p alone need 81
