"""One sequence of turns: how it is told, and what it is compared with."""

from types import ModuleType

from sampler_audit.processor_audit.audited import Audited
from sampler_audit.processor_audit.player import Played
from sampler_audit.processor_audit.turns import Turn

BIAS = {"extra_args": {"bias": 4.0}}
ASKS, ASKS_NOTHING = 0, 1
"""Settings by index: the neutral ones come last."""


def turn(
    *, remove: tuple[int, ...] = (), add: tuple[int, ...] = (), swap: tuple[int, int] | None = None
) -> Turn:
    """One without drafts on plain logits."""
    swaps = [swap] if swap else []
    return {"remove": [*remove], "add": [*add], "swap": swaps, "drafts": 0, "masked": False}


def played(cls: type, *turns: Turn) -> Played:
    """What they show."""
    return Audited(cls, [BIAS], vocab_size=32, seed=1).play(turns)


def test_a_turn_that_empties_the_batch_is_told_with_the_next_step(wrong: ModuleType) -> None:
    """It makes none itself, but the slot is free for the next request."""
    leaves, comes = turn(remove=(0,)), turn(add=(ASKS_NOTHING,))
    (fault,) = played(wrong.StaleSlot, turn(add=(ASKS,)), leaves, comes).faults
    assert fault["kind"] == "leak"
    assert fault["steps"] == [
        'add A {"extra_args": {"bias": 4.0}}; step',
        "remove A; add B {}; step",
    ]


def test_a_swap_counts_from_both_ends(wrong: ModuleType) -> None:
    """The first of four and the last change places."""
    four = (ASKS, ASKS_NOTHING, ASKS_NOTHING, ASKS_NOTHING)
    (fault,) = played(wrong.SwapCopiesToBoth, turn(add=four), turn(swap=(0, 0))).faults
    assert fault["steps"][-1] == "swap A and D; step"
    assert fault["where"].startswith("row 0 of request D: token 3 got")


def test_the_last_row_moves_up(wrong: ModuleType) -> None:
    """As engines fill a gap, so that one removal makes one move and no swap."""
    three = (ASKS_NOTHING, ASKS_NOTHING, ASKS)
    result = played(wrong.IgnoresMoves, turn(add=three), turn(remove=(0,)))
    assert [fault["kind"] for fault in result.faults] == ["moved"]
    assert (result.counts["moves"], result.counts["swaps"]) == (1, 0)
