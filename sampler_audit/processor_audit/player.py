"""Player: one sequence of turns, played on one instance and judged by fresh ones.

Every request also has an instance of its own, which serves nobody else: what that one answers is
what its rows must be. A second instance gets the same steps, and must give the same bits.
"""

import os
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from sampler_audit.processor_audit.history import History
from sampler_audit.processor_audit.instance import Instance, Subject
from sampler_audit.processor_audit.judging import (
    Memory,
    as_fault,
    difference,
    row_faults,
    same_bits,
    same_row,
)
from sampler_audit.processor_audit.scene import Guest, Scene
from sampler_audit.processor_audit.turns import Fault, Turn, request_label
from sampler_audit.sampler.processors import (
    BatchLogitsProcessor,
    BatchTracker,
    BatchUpdate,
    LiveRequest,
    MoveDirectionality,
    ProcessorMisbehaved,
)
from sampler_scenarios.params import SamplingParams


@dataclass(frozen=True)
class Setting:
    """Parameters that requests may have, and how they are shown."""

    text: str
    params: SamplingParams


@dataclass
class Played:
    """What a sequence showed, and how often each thing happened in it: requests added and removed,
    steps, moves, swaps, and rows that the processor changed.
    """  # noqa: D205 - one sentence

    faults: list[Fault] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


@dataclass(eq=False)
class _Seat:
    """A guest, its slots in both instances, and an instance of its own with its slot there."""

    guest: Guest
    live: LiveRequest
    slot: int
    twin_slot: int
    alone: Instance
    slot_alone: int


class Player:
    """Plays one sequence, in which at most ``most_live`` requests are there at a time."""

    def __init__(
        self,
        subject: Subject,
        settings: Sequence[Setting],
        scene: Scene,
        *,
        most_live: int,
        argmax_invariant: bool,
    ) -> None:
        self._subject = subject
        self._settings = settings
        self._scene = scene
        self._most_live = most_live
        self._argmax_invariant = argmax_invariant
        self._seats: list[_Seat] = []
        self._n_admitted = 0
        self._tracker = BatchTracker()
        self._history = History(by_slot=not issubclass(subject.cls, BatchLogitsProcessor))
        self._memory = Memory()
        self._steps: list[str] = []
        self._events: list[str] = []
        self._played = Played()

    def play(self, turns: Sequence[Turn]) -> Played:
        """Every turn, up to the first after which a row cannot be trusted."""
        try:
            self._instance, self._twin = Instance(self._subject), Instance(self._subject)
            for turn in turns:
                if not self._turn(turn):
                    break
        except ProcessorMisbehaved as error:
            self._fault("returned", str(error))
        # The processor is anybody's code; what it raises is told with the steps that led there.
        except (Exception, SystemExit) as error:
            if _is_ours(error):
                raise
            self._fault("raised", raised_where(error))
        return self._played

    def _turn(self, turn: Turn) -> bool:
        """Whether the sequence can go on."""
        self._remove_and_add(turn["remove"], turn["add"])
        self._swap(turn["swap"])
        if not self._seats:
            return True
        n_drafts = min(turn["drafts"], self._subject.max_drafts)
        drafts = [
            self._scene.next_tokens(seat.guest, (n_drafts + seat.guest.number) % (n_drafts + 1))
            for seat in self._seats
        ]
        with_drafts = f"step with drafts {drafts}" if any(drafts) else "step"
        masked = " on masked logits" if turn["masked"] else ""
        self._steps.append("; ".join([*self._events, with_drafts + masked]))
        self._events = []
        self._played.counts["steps"] += 1
        if not self._step(drafts, masked=turn["masked"]):
            return False
        for seat in self._seats:
            (token_id,) = self._scene.next_tokens(seat.guest, 1)
            seat.guest.request = seat.guest.request.extended([token_id])
            self._instance.commit(seat.slot, token_id)
            self._twin.commit(seat.twin_slot, token_id)
            seat.alone.commit(seat.slot_alone, token_id)
        return True

    def _remove_and_add(self, removed: Sequence[int], added: Sequence[int]) -> None:
        """New requests take the rows that became free; then the last ones fill what is left.

        As engines do it, so that nobody changes places who was not asked to.
        """
        rows: list[_Seat | None] = list(self._seats)
        for index in removed:
            if taken := [seat for seat in rows if seat]:
                seat = taken[index % len(taken)]
                rows[rows.index(seat)] = None
                self._remove(seat)
        for index in added:
            if len([seat for seat in rows if seat]) == self._most_live:
                break
            seat = self._admit(self._settings[index % len(self._settings)])
            if None in rows:
                rows[rows.index(None)] = seat
            else:
                rows.append(seat)
        self._seats = _condensed(rows)

    def _remove(self, seat: _Seat) -> None:
        self._instance.remove(seat.slot)
        self._twin.remove(seat.twin_slot)
        self._played.counts["removed"] += 1
        self._events.append(f"remove {_label(seat)}")

    def _admit(self, setting: Setting) -> _Seat:
        guest = self._scene.new_guest(self._n_admitted, setting.params)
        self._n_admitted += 1
        self._played.counts["added"] += 1
        self._events.append(f"add {request_label(guest.number)} {setting.text}")
        # While it is asked, so that what it raises is told with this.
        self._steps.append("; ".join(self._events))
        alone = Instance(self._subject)
        seat = _Seat(
            guest,
            LiveRequest(setting.params),
            self._instance.add(guest.request),
            self._twin.add(guest.request),
            alone,
            alone.add(guest.request),
        )
        self._steps.pop()
        return seat

    def _swap(self, pairs: Sequence[tuple[int, int]]) -> None:
        seats = self._seats
        for from_start, from_end in pairs if seats else ():
            first, second = from_start % len(seats), (-1 - from_end) % len(seats)
            if first != second:
                seats[first], seats[second] = seats[second], seats[first]
                self._events.append(f"swap {_label(seats[second])} and {_label(seats[first])}")

    def _step(self, drafts: list[list[int]], *, masked: bool) -> bool:
        before = [
            self._scene.logits(seat.guest, len(ids) + 1, masked=masked)
            for seat, ids in zip(self._seats, drafts, strict=True)
        ]
        whole = torch.cat(before)
        update = self._tracker.update([seat.live for seat in self._seats])
        self._count(update)
        self._history.note(update, [(seat.slot, seat.guest.number) for seat in self._seats])
        given = whole.clone()
        after = self._instance.step(given, [seat.slot for seat in self._seats], drafts)
        after_snapshot = after.clone()
        again = self._twin.step(whole.clone(), [seat.twin_slot for seat in self._seats], drafts)
        if not same_bits(after_snapshot, again):
            row = _first_other_row(after_snapshot, again)
            told = difference(after_snapshot[row], again[row])
            self._fault("nondeterministic", f"row {row}, a second instance: {told}")
            return False
        for kind, where in self._memory.faults(given, whole, after):
            self._fault(kind, where)
        return self._judge_rows(before, after_snapshot, drafts)

    def _judge_rows(
        self,
        before: list[torch.Tensor],
        after: torch.Tensor,
        drafts: list[list[int]],
    ) -> bool:
        start, right = 0, True
        for i, (seat, logits) in enumerate(zip(self._seats, before, strict=True)):
            rows = after[start : start + len(logits)]
            expected = seat.alone.step(logits.clone(), [seat.slot_alone], [drafts[i]])
            where = f"row {start} of request {_label(seat)}"
            start += len(logits)
            if not same_row(rows, expected):
                row = _first_other_row(rows, expected)
                kind = self._state_kind(i, before, drafts)
                self._fault(
                    kind,
                    f"{where}: {difference(rows[row], expected[row])}, its value alone",
                )
                right = False
                continue
            for one, processed in zip(logits, rows, strict=True):
                self._played.counts["changed rows"] += not same_row(one, processed)
                for kind, place in row_faults(
                    one, processed, argmax_invariant=self._argmax_invariant
                ):
                    self._fault(kind, f"{where}, {place}")
        return right

    def _state_kind(self, i: int, before: list[torch.Tensor], drafts: list[list[int]]) -> str:
        """Whether fresh instances disagree too, and if not, what happened to the rows last."""
        in_batch = self._fresh(range(len(self._seats)), before, drafts)
        start = sum(len(logits) for logits in before[:i])
        alone = self._fresh([i], before, drafts)
        if not same_row(in_batch[start : start + len(alone)], alone):
            return "neighbour"
        return self._history.cause()

    def _fresh(
        self, seats: Sequence[int], before: list[torch.Tensor], drafts: list[list[int]]
    ) -> torch.Tensor:
        """What an instance makes of this step that has seen nothing before it."""
        instance = Instance(self._subject)
        slots = [instance.add(self._seats[i].guest.request) for i in seats]
        logits = torch.cat([before[i] for i in seats])
        return instance.step(logits, slots, [drafts[i] for i in seats])

    def _count(self, update: BatchUpdate | None) -> None:
        for _, _, direction in update.moved if update else ():
            swap = direction is MoveDirectionality.SWAP
            self._played.counts["swaps" if swap else "moves"] += 1

    def _fault(self, kind: str, where: str) -> None:
        if kind not in {fault["kind"] for fault in self._played.faults}:
            self._played.faults.append(as_fault(kind, where, self._steps))


def raised_where(error: BaseException) -> str:
    """The exception, and the innermost place in code that is neither ours nor torch's."""
    place = _place(error)
    file = os.path.basename(place.filename)
    return f"{type(error).__name__}: {error} ({file}:{place.lineno} in {place.name})"


def _place(error: BaseException) -> traceback.FrameSummary:
    frames = traceback.extract_tb(error.__traceback__)
    torch_folder = os.path.dirname(torch.__file__)
    return [f for f in frames if not f.filename.startswith(torch_folder)][-1]


def _is_ours(error: BaseException) -> bool:
    return os.path.dirname(_place(error).filename) == os.path.dirname(__file__)


def _condensed(rows: Sequence[_Seat | None]) -> list[_Seat]:
    """Without gaps, each filled by the last row."""
    rows = list(rows)
    seats = []
    while rows:
        seat = rows.pop(0)
        while seat is None and rows:
            seat = rows.pop()
        if seat is not None:
            seats.append(seat)
    return seats


def _label(seat: _Seat) -> str:
    return request_label(seat.guest.number)


def _first_other_row(left: torch.Tensor, right: torch.Tensor) -> int:
    for row, (one, other) in enumerate(zip(left, right, strict=True)):
        if not same_row(one, other):
            return row
    # In bits, then.
    return int((left.view(torch.int32) != right.view(torch.int32)).any(1).int().argmax())
