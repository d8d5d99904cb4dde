"""Combinations of filters and stages, by name. Knows which there are, not what they do."""

from collections.abc import Mapping
from itertools import chain, combinations, product

from sampler_scenarios.params import FILTERS, STAGES, Combo, combo_name, make_combo

ALL_COMBOS: tuple[Combo, ...] = tuple(
    chain.from_iterable(combinations(FILTERS, size) for size in range(len(FILTERS) + 1))
)
"""The sixteen subsets of the four filters, the smallest first."""

STAGE_COMBOS: tuple[Combo, ...] = (
    *((*combo, stage) for combo, stage in product(ALL_COMBOS, STAGES)),
    *combinations(STAGES, 2),
)
"""Each stage beside each combination of filters, 160, then the 45 pairs of stages without any."""


def _up_to(size: int) -> frozenset[Combo]:
    return frozenset(combo for combo in ALL_COMBOS if len(combo) <= size)


COMBO_SETS: Mapping[str, frozenset[Combo]] = {
    "core": _up_to(4),
    "singles": _up_to(1),
    "pairs": _up_to(2),
    "triples": _up_to(3),
    "all": _up_to(4),
}
"""Named sets. ``core`` holds all combinations too: a plan tries it on few rows."""


def select_combos(text: str) -> frozenset[Combo]:
    """The combinations that ``text`` names: sets and subsets, separated by commas.

    A subset is ``none``, or filters and stages joined by ``+`` in any order, such as
    ``top_k+min_p`` or ``top_k+logit_bias``. The sets hold no stages, see STAGE_COMBOS.

    Raises:
        ValueError: a name that is neither, with what is known.
    """
    return frozenset().union(*(_select_one(part.strip()) for part in text.split(",")))


def _select_one(name: str) -> frozenset[Combo]:
    if name in COMBO_SETS:
        return COMBO_SETS[name]
    try:
        return frozenset({() if name == combo_name(()) else make_combo(name.split("+"))})
    except ValueError:
        raise ValueError(
            f"unknown combination {name!r}; known: {', '.join(COMBO_SETS)}, none, or filters and"
            f" stages joined by + among {', '.join((*FILTERS, *STAGES))}"
        ) from None
