"""Classes that derive from vLLM's, on the little of vLLM that they touch.

What is spelled here of vLLM 0.32.0 proves nothing about it; tests/e2e/test_vllm_processors.py does.
"""

import enum
import sys
import types
from collections import namedtuple
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
import torch

from sampler_audit.sampler.processors import (
    BatchLogitsProcessor,
    BatchTracker,
    Context,
    EngineConfig,
    LiveRequest,
    LogitsProcessor,
    ProcessorRefused,
    RequestStates,
    SlotBuffer,
    load_processors,
)
from sampler_scenarios.params import SamplingParams
from sampler_scenarios.requests import ModelConfig

CPU = torch.device("cpu")
MODEL = ModelConfig(vocab_size=4, max_model_len=9, eos_token_ids=(3,))
CONFIG = EngineConfig(model=MODEL, max_requests=2, max_drafts=5, device=CPU)

TheirDirection = enum.Enum("TheirDirection", ["UNIDIRECTIONAL", "SWAP"])
TheirUpdate = namedtuple("TheirUpdate", ["batch_size", "removed", "added", "moved"])


class TheirParams(SimpleNamespace):
    """Fields are set one by one, as on vLLM's own."""

    stop_token_ids: list[int]
    temperature = 1.0
    seed: int | None = None
    logit_bias: dict[int, float] | None = None
    extra_args: dict[str, object] | None = None

    def update_from_generation_config(self, generation_config: dict[str, list[int]]) -> None:
        """Joins the end-of-sequence tokens to the stop tokens."""
        self.stop_token_ids = [*self.stop_token_ids, *generation_config["eos_token_id"]]


class TheirBase:
    """Whatever comes from a module of vLLM."""

    __module__ = "vllm.v1.anywhere"

    built: ClassVar[list[tuple[object, ...]]] = []
    added: ClassVar[list[tuple[int, TheirParams]]] = []
    updates: ClassVar[list[object]] = []

    def __init__(self, *arguments: object) -> None:
        self.built.append(arguments)

    @classmethod
    def validate_params(cls, params: TheirParams) -> None:
        """Refuses an argument."""
        if params.extra_args:
            raise ValueError(f"no {params.extra_args}")

    def apply(self, logits: torch.Tensor, *_context: object) -> torch.Tensor:
        """One more."""
        return logits + 1


class TheirSlotLevel(TheirBase):
    """Keeps what it is handed."""

    def add_request(self, slot: int, params: TheirParams) -> bool:
        """Keeps them."""
        self.added.append((slot, params))
        return False

    def apply_staged_writes(self) -> None:
        """Is seen to have been called."""
        self.updates.append("flushed")


class TheirBatchLevel(TheirBase):
    """The same; has an ``add_request`` of its own, as one of vLLM's batch-level classes does."""

    @staticmethod
    def add_request() -> None:
        """Not that of the interface."""

    def apply_staged_writes(self) -> None:
        """Not either."""

    def is_argmax_invariant(self) -> bool:
        """It adds the same everywhere."""
        return True

    def update_state(self, batch_update: object) -> None:
        """Keeps it."""
        self.updates.append(batch_update)


@pytest.fixture(autouse=True)
def vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules of that name with what is imported from them; nothing heard yet."""
    for heard in (TheirBase.built, TheirBase.added, TheirBase.updates):
        heard.clear()
    package = types.ModuleType("vllm")
    interface = types.ModuleType("vllm.v1.sample.logits_processor")
    for module, name, value in (
        (package, "SamplingParams", TheirParams),
        (interface, "BatchUpdate", TheirUpdate),
        (interface, "MoveDirectionality", TheirDirection),
    ):
        monkeypatch.setattr(module, name, value, raising=False)
        monkeypatch.setitem(sys.modules, module.__name__, module)


def test_each_level_becomes_one_of_ours() -> None:
    """Told by methods, under its own name in messages."""
    slot_level, batch_level = load_processors([TheirSlotLevel, TheirBatchLevel])
    assert issubclass(slot_level, LogitsProcessor)
    assert issubclass(batch_level, BatchLogitsProcessor)
    assert (slot_level.__name__, batch_level.__name__) == ("TheirSlotLevel", "TheirBatchLevel")


def test_methods_alone_do_not_make_a_processor() -> None:
    """Neither the methods without the base nor the base without the methods."""
    look_alike = type("LookAlike", (), dict(vars(TheirBatchLevel)))
    for source in (look_alike, TheirBase):
        with pytest.raises(ProcessorRefused, match="is no logits processor"):
            load_processors([source])


def slot_level() -> tuple[LogitsProcessor, RequestStates]:
    """The slot-level class, built, and what it was built with."""
    (cls,) = load_processors([TheirSlotLevel])
    assert issubclass(cls, LogitsProcessor)
    nothing = SlotBuffer(torch.zeros(2, 9, dtype=torch.int32))
    states = RequestStates(CPU, 2, 4, nothing, nothing, nothing, nothing)
    return cls(CONFIG, states), states


def batch_level() -> BatchLogitsProcessor:
    """The batch-level class, built."""
    (cls,) = load_processors([TheirBatchLevel])
    assert issubclass(cls, BatchLogitsProcessor)
    return cls(CONFIG, CPU, False)


def test_constructors_get_configuration_and_buffers() -> None:
    """The configuration answers in vLLM's words too."""
    _, states = slot_level()
    batch_level()
    assert TheirBase.built == [(CONFIG, states), (CONFIG, CPU, False)]
    assert CONFIG.scheduler_config.max_num_seqs == 2
    assert (CONFIG.model_config.max_model_len, CONFIG.model_config.get_vocab_size()) == (9, 4)
    assert CONFIG.speculative_config is not None
    assert CONFIG.speculative_config.num_speculative_tokens == 5
    assert CONFIG.device_config.device == CPU


def test_buffers_are_read_in_three_ways() -> None:
    """On the device, on the host and as an array, each with its present content."""
    tensor = torch.zeros(3, dtype=torch.int32)
    buffer = SlotBuffer(tensor)
    tensor[1] = 5
    assert buffer.gpu is tensor
    assert buffer.cpu.tolist() == buffer.np.tolist() == [0, 5, 0]


def test_requests_come_with_their_parameters() -> None:
    """Of vLLM's type, which has no other fields; with the model's stop tokens; empty is None."""
    processor, _ = slot_level()
    params = SamplingParams(temperature=5, logit_bias={1: 2.0}, stop_token_ids=(2,))
    assert not processor.add_request(1, params)
    processor.apply_staged_writes()
    ((slot, theirs),) = TheirBase.added
    assert (slot, theirs.temperature, theirs.logit_bias) == (1, 5, {1: 2.0})
    assert (theirs.stop_token_ids, theirs.extra_args) == ([2, 3], None)
    assert not hasattr(theirs, "min_p")
    assert TheirBase.updates == ["flushed"]


def test_updates_come_with_their_directions() -> None:
    """Of vLLM's types, with the output list itself; None stays None."""
    processor, tracker = batch_level(), BatchTracker()
    a, b, c = (LiveRequest(SamplingParams(seed=seed)) for seed in (0, 1, 2))
    for requests in ([a, b, c], [c, b], [b, c], [b, c]):
        processor.update_state(tracker.update(requests))
    first, second, third, fourth = TheirBase.updates
    assert isinstance(first, TheirUpdate)
    assert [(row, params.seed) for row, params, _, _ in first.added] == [(0, 0), (1, 1), (2, 2)]
    assert first.added[0].output_token_ids is a.output_token_ids
    assert second == TheirUpdate(2, [], [], [(2, 0, TheirDirection["UNIDIRECTIONAL"])])
    assert third == TheirUpdate(2, [], [], [(0, 1, TheirDirection["SWAP"])])
    assert fourth is None


def test_answers_are_passed_on() -> None:
    """Logits, the group, and refusals at admission."""
    processor, _ = slot_level()
    i32 = torch.zeros(1, dtype=torch.int32)
    context = Context(i32, i32, np.zeros(1, np.int32), i32, i32, i32, np.ones(1, np.int32))
    assert processor.apply(torch.zeros(1, 4), context).tolist() == [[1] * 4]
    assert batch_level().apply(torch.zeros(1, 4)).tolist() == [[1] * 4]
    assert batch_level().is_argmax_invariant()
    for adopted in (processor, batch_level()):
        with pytest.raises(ValueError, match=r"^no \{'a': 1\}$"):
            adopted.validate_params(SamplingParams(extra_args={"a": 1}))
