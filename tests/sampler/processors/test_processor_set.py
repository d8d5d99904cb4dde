"""ProcessorSet: who is called, with what, and that no request sees another's past."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from sampler_audit.sampler.processors import (
    BatchLogitsProcessor,
    BatchUpdate,
    Context,
    EngineConfig,
    LogitsProcessor,
    ProcessorClass,
    ProcessorMisbehaved,
    ProcessorSet,
    RequestStates,
    SlotBuffer,
    update_rows,
)
from sampler_audit.sampler.processors.examples.dry import Dry
from sampler_audit.sampler.processors.examples.end_after import EndAfter
from sampler_audit.sampler.processors.examples.target_token import TargetToken
from sampler_scenarios.params import SamplingParams
from sampler_scenarios.requests import ModelConfig, Request

V, N_SLOTS, MAX_LEN = 6, 5, 256
CPU = torch.device("cpu")
MODEL = ModelConfig(vocab_size=V, max_model_len=MAX_LEN, eos_token_ids=(4,))
CONFIG = EngineConfig(model=MODEL, max_requests=N_SLOTS, max_drafts=3, device=CPU)


class Slots:
    """The little of a sampler that processors look at, written to in place as requests go on."""

    def __init__(self, *classes: ProcessorClass) -> None:
        self.token_ids = torch.full((N_SLOTS, MAX_LEN), -1, dtype=torch.int32)
        prompt_len, prefill_len, self.total_len = torch.zeros(3, N_SLOTS, dtype=torch.int32)
        self.states = RequestStates(
            device=CPU,
            max_num_reqs=N_SLOTS,
            vocab_size=V,
            all_token_ids=SlotBuffer(self.token_ids),
            prompt_len=SlotBuffer(prompt_len),
            prefill_len=SlotBuffer(prefill_len),
            total_len=SlotBuffer(self.total_len),
        )
        self.processors = ProcessorSet(classes, CONFIG, self.states)

    def add(self, slot: int, request: Request) -> bool:
        """What the set says to a request, whose tokens the slot then holds."""
        self.total_len[slot] = 0
        self._append(slot, request.token_ids)
        return self.processors.add(slot, request)

    def commit(self, slot: int, *token_ids: int) -> None:
        """Tokens emitted."""
        self._append(slot, token_ids)
        self.processors.commit(slot, token_ids)

    def _append(self, slot: int, token_ids: Sequence[int]) -> None:
        start, stop = int(self.total_len[slot]), int(self.total_len[slot]) + len(token_ids)
        self.token_ids[slot, start:stop] = torch.tensor(token_ids, dtype=torch.int32)
        self.total_len[slot] = stop

    def context(self, slots: Sequence[int], drafts: Sequence[Sequence[int]] = ()) -> Context:
        """A step of these slots, each with its drafts."""
        drafts = drafts or [()] * len(slots)
        rows = [
            (slot, j) for slot, ids in zip(slots, drafts, strict=True) for j in range(len(ids) + 1)
        ]
        ends = self.total_len.tolist()
        fed = {(slot, 0): int(self.token_ids[slot, ends[slot] - 1]) for slot in slots}
        for slot, ids in zip(slots, drafts, strict=True):
            fed |= {(slot, j): token for j, token in enumerate(ids, start=1)}
        return Context(
            expanded_idx_mapping=torch.tensor([slot for slot, _ in rows], dtype=torch.int32),
            idx_mapping=torch.tensor(slots, dtype=torch.int32),
            idx_mapping_np=np.array(slots, np.int32),
            expanded_local_pos=torch.tensor([j for _, j in rows], dtype=torch.int32),
            input_ids=torch.tensor([fed[row] for row in rows], dtype=torch.int32),
            pos=torch.tensor([ends[slot] - 1 + j for slot, j in rows]),
            seq_lens_upper_bound_np=np.array(
                [ends[slot] + len(ids) for slot, ids in zip(slots, drafts, strict=True)], np.int32
            ),
        )

    def step(self, slots: Sequence[int], drafts: Sequence[Sequence[int]] = ()) -> torch.Tensor:
        """Rows of zeros after both groups of processors."""
        context = self.context(slots, drafts)
        self.processors.apply_staged_writes()
        logits = torch.zeros(len(context.input_ids), V)
        logits = self.processors.apply(logits, context)
        return self.processors.apply_argmax_invariant(logits, context)


def asking(**extra_args: object) -> Request:
    """A request of two tokens with these extra arguments."""
    return Request(SamplingParams(extra_args=extra_args), (1, 2))


class AddOne(LogitsProcessor):
    """Adds one everywhere; wants requests that say so, and counts how it was called."""

    def __init__(self, config: EngineConfig, states: RequestStates) -> None:
        super().__init__(config, states)
        self.n_flushed = 0

    @classmethod
    def validate_params(cls, params: SamplingParams) -> None:
        """Refuses a number."""
        if params.extra_args.get("one") == 7:
            raise ValueError("one must be True, got 7")

    def add_request(self, slot: int, params: SamplingParams) -> bool:  # noqa: ARG002
        """As the request says, whatever it says."""
        answer = params.extra_args.get("one", False)
        return answer  # type: ignore[return-value]  # wrong answers are refused by the set

    def apply_staged_writes(self) -> None:
        """Counts."""
        self.n_flushed += 1

    def apply(self, logits: torch.Tensor, context: Context) -> torch.Tensor:  # noqa: ARG002
        """One for each flush, in a new tensor."""
        return logits + self.n_flushed


class Double(LogitsProcessor):
    """Doubles in place, for all."""

    def apply(self, logits: torch.Tensor, context: Context) -> torch.Tensor:  # noqa: ARG002
        """Every row."""
        return logits.mul_(2)


class RowBias(BatchLogitsProcessor):
    """Adds what each request asks for to the whole of its row, which leaves the argmax alone."""

    def __init__(self, config: EngineConfig, device: torch.device, is_pin_memory: bool) -> None:
        super().__init__(config, device, is_pin_memory)
        self.biases: dict[int, float] = {}

    def is_argmax_invariant(self) -> bool:
        """A row is only shifted."""
        return True

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """By row."""
        update_rows(self.biases, batch_update, lambda params, _p, _o: self._bias(params))

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """In place."""
        for row, bias in self.biases.items():
            logits[row] += bias
        return logits

    def _bias(self, params: SamplingParams) -> float | None:
        bias = params.extra_args.get("bias")
        return bias if isinstance(bias, float) else None


class Wrong(Double):
    """Returns one row."""

    def apply(self, logits: torch.Tensor, context: Context) -> torch.Tensor:  # noqa: ARG002
        """The first."""
        return logits[:1]


def test_a_declined_request_needs_nothing() -> None:
    """The answer is the processor's; a batch-level one cannot say no."""
    assert not Slots(AddOne).add(0, asking())
    assert Slots(AddOne).add(0, asking(one=True))
    assert Slots(AddOne, Double).add(0, asking())
    assert Slots(AddOne, TargetToken).add(0, asking())


def test_a_processor_that_wants_nobody_of_the_step_is_not_called() -> None:
    """Though it wanted a request that is not in the step."""
    slots = Slots(AddOne)
    slots.add(0, asking(one=True))
    slots.add(1, asking())
    assert slots.step([1]).tolist() == [[0] * V]


def test_a_processor_that_wants_somebody_gets_every_row() -> None:
    """The row of the request that it declined too: here it changes both."""
    slots = Slots(AddOne)
    slots.add(0, asking(one=True))
    slots.add(1, asking())
    assert slots.step([1, 0]).tolist() == [[1] * V] * 2


def test_a_recycled_slot_is_asked_again() -> None:
    """The second request of the slot declines, by removal or at once."""
    for remove in (True, False):
        slots = Slots(AddOne)
        slots.add(0, asking(one=True))
        if remove:
            slots.processors.remove(0)
        slots.add(0, asking())
        assert slots.step([0]).tolist() == [[0] * V]


def test_processors_run_in_load_order() -> None:
    """(0 + 1) * 2, and 0 * 2 + 1."""
    for classes, expected in (((AddOne, Double), 2), ((Double, AddOne), 1)):
        slots = Slots(*classes)
        slots.add(0, asking(one=True))
        assert slots.step([0])[0, 0] == expected


def test_batch_level_processors_keep_their_place_in_load_order() -> None:
    """Doubled before or after the target is kept makes no difference, but the mask stays."""
    slots = Slots(TargetToken, AddOne)
    slots.add(0, asking(one=True, target_token=3))
    assert slots.step([0])[0].tolist() == [-np.inf] * 3 + [1] + [-np.inf] * 2


def test_staged_writes_are_flushed_once_a_step() -> None:
    """Two steps are 1, then 2."""
    slots = Slots(AddOne)
    slots.add(0, asking(one=True))
    assert slots.step([0])[0, 0] == 1
    assert slots.step([0])[0, 0] == 2


@pytest.mark.parametrize(("temperatures", "runs"), [((0, 0), False), ((0, 1), True)])
def test_argmax_invariant_ones_do_not_run_for_the_greedy(
    temperatures: tuple[float, float], runs: bool
) -> None:
    """Unless one request of the step is not greedy; then all rows are theirs."""
    slots = Slots(RowBias)
    for slot, temperature in enumerate(temperatures):
        params = SamplingParams(temperature=temperature, extra_args={"bias": 3.0})
        slots.add(slot, Request(params, (1,)))
    assert slots.step([0, 1]).tolist() == [[3 * runs] * V] * 2


def test_argmax_invariant_ones_come_after_temperature() -> None:
    """They are no part of the stage before it."""
    slots = Slots(RowBias)
    slots.add(0, asking(bias=3.0))
    context = slots.context([0])
    assert slots.processors.apply(torch.zeros(1, V), context).tolist() == [[0] * V]


def test_two_looks_at_one_step_are_one_step() -> None:
    """The rows of a step that is repeated are not moved twice."""
    slots = Slots(TargetToken)
    for slot in (0, 1):
        slots.add(slot, asking(target_token=slot))
    slots.step([0, 1])
    assert torch.equal(slots.step([1, 0]), slots.step([1, 0]))


def test_drafts_are_seen_as_emitted() -> None:
    """The row after each draft is the row that the request would have had there, mates or not."""
    slots, drafts, dry = Slots(Dry), (2, 1), asking(dry_multiplier=1, dry_allowed_length=1)
    for slot in (3, 1):
        slots.add(slot, dry)
        slots.commit(slot, 1)
    rows = slots.step([1, 3], [(2,), drafts])[2:]
    for row, draft in zip(rows, (*drafts, 0), strict=True):
        assert torch.equal(row, slots.step([3])[0])
        assert row.any()
        slots.commit(3, draft)


def test_parameters_are_shown_to_every_class() -> None:
    """The first refusal is the one that counts; it is passed on as it is."""
    with pytest.raises(ValueError, match=r"^one must be True, got 7$"):
        Slots(Double, AddOne).processors.validate_params(SamplingParams(extra_args={"one": 7}))


def test_an_answer_to_a_request_must_be_yes_or_no() -> None:
    """None is what a method returns that forgot to."""
    with pytest.raises(ProcessorMisbehaved) as raised:
        Slots(AddOne).add(0, asking(one=None))
    assert str(raised.value) == (
        "AddOne.add_request must return whether it changes the request's logits, True or False, "
        "got None"
    )


def test_the_logits_returned_must_be_all_of_them() -> None:
    """One row of two."""
    slots = Slots(Wrong)
    for slot in (0, 1):
        slots.add(slot, asking())
    with pytest.raises(ProcessorMisbehaved) as raised:
        slots.step([0, 1])
    assert str(raised.value) == (
        "Wrong.apply must return the logits, float32 [2, 6], got float32 [1, 6]"
    )


CLASSES = (Dry, TargetToken, RowBias, EndAfter)
EXTRAS: tuple[dict[str, object], ...] = (
    {},
    {"target_token": 3},
    {"bias": 2.0},
    {"end_after": 2},
    {"dry_multiplier": 1.0, "dry_allowed_length": 1, "bias": 0.5},
)
a_slot = st.integers(0, N_SLOTS - 1)
some_token_ids = st.lists(st.integers(0, V - 1), max_size=4)


class Churn(RuleBasedStateMachine):
    """Requests come and go, emit tokens and change rows; each row is as if it were alone."""

    def __init__(self) -> None:
        super().__init__()
        self.slots = Slots(*CLASSES)
        self.present: dict[int, Request] = {}

    @rule(slot=a_slot, extra_args=st.sampled_from(EXTRAS), output=some_token_ids)
    def add(self, slot: int, extra_args: dict[str, object], output: list[int]) -> None:
        """Whoever held the slot."""
        params = SamplingParams(extra_args=extra_args)
        self.present[slot] = Request(params, (1, 2, 1), tuple(output))
        self.slots.add(slot, self.present[slot])

    @rule(slot=a_slot, token_ids=some_token_ids)
    def commit(self, slot: int, token_ids: list[int]) -> None:
        """Tokens emitted, if the slot holds a request."""
        if slot in self.present:
            self.present[slot] = self.present[slot].extended(token_ids)
            self.slots.commit(slot, *token_ids)

    @rule(slot=a_slot)
    def remove(self, slot: int) -> None:
        """The request of the slot has ended, if it holds one."""
        if self.present.pop(slot, None):
            self.slots.processors.remove(slot)

    @rule(order=st.permutations(range(N_SLOTS)), n_requests=st.integers(1, N_SLOTS))
    def step(self, order: list[int], n_requests: int) -> None:
        """Some of the requests, in any order, beside a fresh set for each."""
        slots = [slot for slot in order if slot in self.present][:n_requests]
        for slot, row in zip(slots, self.slots.step(slots) if slots else [], strict=True):
            fresh = Slots(*CLASSES)
            fresh.add(0, self.present[slot])
            assert torch.equal(row, fresh.step([0])[0])


TestChurn = Churn.TestCase
TestChurn.settings = settings(
    derandomize=True, deadline=None, max_examples=50, stateful_step_count=30
)
