"""Sequences of turns by Hypothesis: first all of them, then the smallest for each kind of fault.

Knows what a turn is, and of a processor only what playing turns shows.
"""

import contextlib
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from hypothesis import Phase, configuration, find, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky, NoSuchExample

from sampler_audit.processor_audit.turns import KINDS, STATE_KINDS, Fault, Turn

Play = Callable[[Sequence[Turn]], tuple[list[Fault], dict[str, int]]]

_MOST_TURNS = 12
_MOST_LIVE = 6
_MOST_SHRINKS = 500
"""Plays spent on making one sequence smaller; what is reached by then is reported."""


@dataclass(frozen=True)
class Searched:
    """Faults in the order of KINDS, one a kind, and how much was tried before any was shrunk."""

    faults: tuple[Fault, ...]
    counts: Counter[str]


def search(
    play: Play,
    *,
    n_settings: int,
    most_drafts: int,
    n_sequences: int,
    seed: int,
    progress: Callable[[str, int, int], None],
) -> Searched:
    """Every kind of fault that about ``n_sequences`` sequences show, each with its smallest.

    The same for the same ``seed``, as long as ``play`` is.
    """
    plays = _Plays(play)
    sorts = sorts_of_sequences(n_settings, most_drafts)
    first: dict[str, tuple[int, Fault]] = {}
    counts: Counter[str] = Counter()

    def note(sort: int, sequence: list[Turn]) -> bool:
        faults, seen = plays(sequence)
        for fault in faults:
            first.setdefault(fault["kind"], (sort, fault))
        counts.update(seen, sequences=1)
        progress("sequences", counts["sequences"], n_sequences)
        return False

    n_each = -(-n_sequences // len(sorts))
    with _nothing_written():
        for sort, turns in enumerate(sorts):
            _find(turns, partial(note, sort), n_each, seed)
        if any(kind in first for kind in STATE_KINDS):
            first.pop("state", None)
        kinds = [kind for kind in KINDS if kind in first]
        faults = []
        for i, kind in enumerate(kinds):
            progress("smallest sequences", i, len(kinds))
            sort, fault = first[kind]
            shows = plays.shows(kind)
            _find(sorts[sort], shows, n_each, seed)
            faults.append(shows.smallest or fault)
    return Searched(tuple(faults), counts)


@contextlib.contextmanager
def _nothing_written() -> Iterator[None]:
    """Hypothesis keeps what it learns in the current folder, unless it is told of another."""
    with tempfile.TemporaryDirectory() as home:
        configuration.set_hypothesis_home_dir(home)
        try:
            yield
        finally:
            configuration.set_hypothesis_home_dir(None)


def sorts_of_sequences(n_settings: int, most_drafts: int) -> list[st.SearchStrategy[list[Turn]]]:
    """Sequences; shrinking takes turns and events away and prefers the first settings.

    Three sorts let one thing happen only, so that a fault can be put down to it: rows that are
    used again, rows that move up, rows that change places. In the last sort all of it happens.
    """
    row = st.sampled_from(range(_MOST_LIVE))
    setting = st.sampled_from(range(n_settings))
    added = st.lists(setting, max_size=3)
    swaps = st.lists(st.tuples(row, row), max_size=2)
    extras = st.tuples(st.sampled_from(range(most_drafts + 1)), st.booleans())
    full = st.lists(setting, min_size=1, max_size=_MOST_LIVE)
    start = st.builds(_turn, _NONE, full, _NONE, extras)
    replaced = st.builds(_replacing, row, setting, extras)
    removed = st.builds(_turn, st.lists(row, min_size=1, max_size=2), _NONE, _NONE, extras)
    swapped = st.builds(_turn, _NONE, added, swaps, extras)
    mixed = st.builds(_turn, st.lists(row, max_size=2), added, swaps, extras)
    return [
        st.builds(_joined, start, st.lists(replaced, max_size=_MOST_LIVE)),
        st.builds(_joined, start, st.lists(removed, max_size=_MOST_LIVE)),
        st.lists(swapped, min_size=1, max_size=_MOST_TURNS),
        st.lists(mixed, min_size=1, max_size=_MOST_TURNS),
    ]


_NONE: st.SearchStrategy[list[Any]] = st.just([])


def _turn(
    remove: list[int], add: list[int], swap: list[tuple[int, int]], extras: tuple[int, bool]
) -> Turn:
    drafts, masked = extras
    return {"remove": remove, "add": add, "swap": swap, "drafts": drafts, "masked": masked}


def _replacing(row: int, setting: int, extras: tuple[int, bool]) -> Turn:
    return _turn([row], [setting], [], extras)


def _joined(first: Turn, others: list[Turn]) -> list[Turn]:
    return [first, *others]


class _Enough(BaseException):
    """Ends a search from within; not an Exception, which Hypothesis would take for a finding."""


class _Plays:
    """Every sequence played once: what was seen stays true even where a processor has moods."""

    def __init__(self, play: Play) -> None:
        self._play = play
        self._seen: dict[str, tuple[list[Fault], dict[str, int]]] = {}

    def __call__(self, sequence: Sequence[Turn]) -> tuple[list[Fault], dict[str, int]]:
        key = json.dumps(sequence)
        if key not in self._seen:
            self._seen[key] = self._play(sequence)
        return self._seen[key]

    def shows(self, kind: str) -> "_Shows":
        return _Shows(self, kind)


class _Shows:
    """Whether a sequence has a fault of a kind; keeps the one that needs the least telling.

    Raises _Enough when the shrinking is spent.
    """

    def __init__(self, plays: _Plays, kind: str) -> None:
        self._plays = plays
        self._kind = kind
        self._n_left = _MOST_SHRINKS
        self.smallest: Fault | None = None

    def __call__(self, sequence: list[Turn]) -> bool:
        faults = [fault for fault in self._plays(sequence)[0] if fault["kind"] == self._kind]
        if self.smallest is not None:
            self._n_left -= 1
        for fault in faults:
            if self.smallest is None or _size(fault) < _size(self.smallest):
                self.smallest = fault
        if not self._n_left:
            raise _Enough
        return bool(faults)


def _size(fault: Fault) -> int:
    return sum(map(len, fault["steps"]))


def _find(
    turns: st.SearchStrategy[list[Turn]],
    condition: Callable[[list[Turn]], bool],
    n_sequences: int,
    seed: int,
) -> None:
    """Ask for sequences, and for smaller ones as soon as one meets the condition."""
    with contextlib.suppress(NoSuchExample, Flaky, _Enough):
        find(
            turns,
            condition,
            settings=settings(
                max_examples=n_sequences,
                database=None,
                deadline=None,
                phases=(Phase.generate, Phase.shrink),
            ),
            random=Random(seed),
        )
