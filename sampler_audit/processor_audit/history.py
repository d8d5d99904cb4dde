"""History: what has happened to the rows or slots of a sequence, and what a wrong row is put to.

A cause is named only where no other can have been it.
"""

from collections.abc import Sequence

from sampler_audit.sampler.processors import BatchUpdate, MoveDirectionality


class History:
    """Of one sequence; ``by_slot`` for processors that keep their state by slot, not by row."""

    def __init__(self, *, by_slot: bool) -> None:
        self._by_slot = by_slot
        self._holders: dict[int, int] = {}
        self._reused = False
        self._in_order = True
        self._directions: set[MoveDirectionality] = set()

    def note(self, update: BatchUpdate | None, seats: Sequence[tuple[int, int]]) -> None:
        """The next step: what changed, and slot and number of the request of each row."""
        if self._by_slot:
            self._take(seats)
            self._in_order &= all(row == slot for row, (slot, _) in enumerate(seats))
        elif update is not None:
            numbers = [number for _, number in seats]
            self._reused |= any(added.row in self._holders for added in update.added)
            self._holders |= dict(enumerate(numbers))
            self._directions |= {move.direction for move in update.moved}

    def cause(self) -> str:
        """A name of KINDS: of what alone can have made a row wrong, or ``state``."""
        if self._by_slot:
            if self._in_order:
                return "leak"
            return "state" if self._reused else "order"
        if not self._directions:
            return "leak"
        if self._reused or len(self._directions) > 1:
            return "state"
        one_way = MoveDirectionality.UNIDIRECTIONAL in self._directions
        return "moved" if one_way else "swapped"

    def _take(self, seats: Sequence[tuple[int, int]]) -> None:
        for slot, number in seats:
            self._reused |= self._holders.get(slot, number) != number
            self._holders[slot] = number
