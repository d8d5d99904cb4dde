"""Combinations by name."""

import pytest

from sampler_scenarios.combos import ALL_COMBOS, COMBO_SETS, STAGE_COMBOS, select_combos
from sampler_scenarios.params import FILTERS, STAGES, combo_name


def test_sixteen_combinations() -> None:
    """Every subset of four filters once, the empty one first."""
    assert len(set(ALL_COMBOS)) == 16
    assert ALL_COMBOS[0] == ()
    assert ALL_COMBOS[-1] == ("temperature", "top_k", "top_p", "min_p")


def test_stage_combinations() -> None:
    """Ten stages beside sixteen combinations of filters, and 10 * 9 / 2 pairs of stages."""
    assert len(set(STAGE_COMBOS)) == len(STAGE_COMBOS) == 160 + 45
    for stage in STAGES:
        beside = {combo[:-1] for combo in STAGE_COMBOS if combo[-1:] == (stage,)}
        assert set(ALL_COMBOS) <= beside
    assert sum(not set(combo) & set(FILTERS) and len(combo) == 2 for combo in STAGE_COMBOS) == 45


# Subsets of four of at most 1, 2, 3 and 4 elements: sums of 1, 4, 6, 4, 1.
@pytest.mark.parametrize(
    ("name", "count"), [("singles", 5), ("pairs", 11), ("triples", 15), ("all", 16), ("core", 16)]
)
def test_named_sets(name: str, count: int) -> None:
    """A set holds its size of combinations and all smaller ones."""
    assert len(select_combos(name)) == len(COMBO_SETS[name]) == count


@pytest.mark.parametrize("combo", [*ALL_COMBOS, *STAGE_COMBOS], ids=combo_name)
def test_every_combination_is_selected_by_its_name(combo: tuple[str, ...]) -> None:
    """The name of a combination selects it alone."""
    assert select_combos(combo_name(combo)) == {combo}


def test_lists() -> None:
    """Commas join sets and subsets; the order of filters does not matter."""
    assert select_combos("none, min_p+top_k") == {(), ("top_k", "min_p")}
    assert select_combos("singles,top_k+top_p") == COMBO_SETS["singles"] | {("top_k", "top_p")}


@pytest.mark.parametrize("text", ["", "top_q", "top_k+", "top_k,,top_p", "quads", "none+top_k"])
def test_unknown(text: str) -> None:
    """What is no combination is refused with what is known."""
    known = "known: core, singles, pairs, triples, all, none, or filters and stages joined by"
    with pytest.raises(ValueError, match=f"unknown combination '.*'; {known}"):
        select_combos(text)
