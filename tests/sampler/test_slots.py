import pytest

from sampler_audit.sampler.slots import Slots


def test_last_in_first_out_from_the_highest() -> None:
    """As vLLM's free list: the slot given back last is taken next."""
    slots = Slots(3)
    assert [slots.take(), slots.take()] == [2, 1]
    slots.give_back(2)
    assert [slots.next, slots.take(), slots.take()] == [2, 2, 0]
    assert slots.next is None


def test_who_holds_a_slot() -> None:
    """A slot that nobody holds can neither be used nor given back."""
    slots = Slots(2)
    slot = slots.take()
    assert slot == 1
    slots.require([1])
    slots.give_back(1)
    with pytest.raises(KeyError, match=r"no request holds slot 1; held are \[\]"):
        slots.require([1])
    with pytest.raises(KeyError, match="no request holds slot 1"):
        slots.give_back(1)
