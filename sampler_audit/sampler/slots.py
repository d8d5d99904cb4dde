"""Slots: which rows of the state tensors are taken. Knows no request and clears nothing."""

from collections.abc import Sequence


class Slots:
    """A last-in-first-out list of free slots, so that a recycled slot is used again at once.

    The first slot taken is the highest. Freeing clears nothing: whoever takes a slot rewrites all
    of its state (the free list of vllm 0.32.0, v1/worker/gpu/states.py).
    """

    def __init__(self, n_slots: int) -> None:
        self._free = list(range(n_slots))
        self._taken: set[int] = set()

    def require(self, slots: Sequence[int]) -> None:
        """Nothing, where each of the slots is held, and named once.

        Raises:
            KeyError: one that nobody holds.
            ValueError: one that is named twice.
        """
        for slot in slots:
            if slot not in self._taken:
                raise KeyError(
                    f"no request holds slot {slot}; held are {sorted(self._taken)}, "
                    "as add returned them"
                )
        if len({*slots}) < len(slots):
            raise ValueError(f"slots must be distinct, got {list(slots)}")

    @property
    def next(self) -> int | None:
        """The slot that will be taken next, or None where all are held."""
        return self._free[-1] if self._free else None

    def take(self) -> int:
        """Take the next slot."""
        slot = self._free.pop()
        self._taken.add(slot)
        return slot

    def give_back(self, slot: int) -> None:
        """Raises KeyError for a slot that nobody holds."""
        self.require([slot])
        self._taken.remove(slot)
        self._free.append(slot)
