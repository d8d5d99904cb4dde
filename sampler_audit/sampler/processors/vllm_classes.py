"""Classes written for an installed vLLM, as processors of ours: recognised, and spoken to in kind.

Methods have the same names and order of arguments; what differs is what they are handed. vLLM is
imported only where such a class exists, which cannot have been defined without it.
"""

import importlib
from collections.abc import Sequence
from typing import cast

import torch

from sampler_audit.sampler.processors.batch_level import (
    Added,
    BatchLogitsProcessor,
    BatchUpdate,
    Moved,
)
from sampler_audit.sampler.processors.engine_config import EngineConfig
from sampler_audit.sampler.processors.interface import Context, LogitsProcessor, RequestStates
from sampler_audit.sampler.processors.rules import Level
from sampler_scenarios.params import SamplingParams

METHODS: dict[Level, tuple[str, ...]] = {
    # The first that fits counts: batch-level classes of vLLM's own have an `add_request` too.
    "batch-level": ("validate_params", "update_state", "is_argmax_invariant", "apply"),
    "slot-level": ("validate_params", "add_request", "apply_staged_writes", "apply"),
}
"""What each of the interfaces consists of, ours and vLLM's."""


def vllm_level(processor: type) -> Level | None:
    """The interface that a class derived from one of vLLM's has, by its methods; None of others."""
    if not any(base.__module__.split(".")[0] == "vllm" for base in processor.__mro__):
        return None
    for level, methods in METHODS.items():
        if all(callable(getattr(processor, method, None)) for method in methods):
            return level
    return None


def adopt_slot_level(theirs: type[LogitsProcessor]) -> type[LogitsProcessor]:
    """Ours around ``theirs``, a class of vLLM's V2 interface."""

    class Adopted(LogitsProcessor):
        def __init__(self, config: EngineConfig, states: RequestStates) -> None:
            super().__init__(config, states)
            self._processor = theirs(config, states)

        @classmethod
        def validate_params(cls, params: SamplingParams) -> None:
            theirs.validate_params(_vllm_params(params))

        def add_request(self, slot: int, params: SamplingParams) -> bool:
            return self._processor.add_request(
                slot, _vllm_params(params, self.config.model.eos_token_ids)
            )

        def apply_staged_writes(self) -> None:
            self._processor.apply_staged_writes()

        def apply(self, logits: torch.Tensor, context: Context) -> torch.Tensor:
            return self._processor.apply(logits, context)

    Adopted.__name__ = Adopted.__qualname__ = theirs.__name__
    return Adopted


def adopt_batch_level(theirs: type[BatchLogitsProcessor]) -> type[BatchLogitsProcessor]:
    """Ours around ``theirs``, a class of vLLM's V1 interface."""

    class Adopted(BatchLogitsProcessor):
        def __init__(self, config: EngineConfig, device: torch.device, is_pin_memory: bool) -> None:
            super().__init__(config, device, is_pin_memory)
            self._processor = theirs(config, device, is_pin_memory)

        @classmethod
        def validate_params(cls, params: SamplingParams) -> None:
            theirs.validate_params(_vllm_params(params))

        def is_argmax_invariant(self) -> bool:
            return self._processor.is_argmax_invariant()

        def update_state(self, batch_update: BatchUpdate | None) -> None:
            eos_token_ids = self.config.model.eos_token_ids
            self._processor.update_state(batch_update and _vllm_update(batch_update, eos_token_ids))

        def apply(self, logits: torch.Tensor) -> torch.Tensor:
            return self._processor.apply(logits)

    Adopted.__name__ = Adopted.__qualname__ = theirs.__name__
    return Adopted


def _vllm_update(update: BatchUpdate, eos_token_ids: Sequence[int]) -> BatchUpdate:
    """The update as vLLM's own type, with its directions, which its classes compare with."""
    vllm = importlib.import_module("vllm.v1.sample.logits_processor")
    directions = vllm.MoveDirectionality
    return cast(
        BatchUpdate,
        vllm.BatchUpdate(
            batch_size=update.batch_size,
            removed=update.removed,
            added=[
                Added(
                    index, _vllm_params(params, eos_token_ids), prompt_token_ids, output_token_ids
                )
                for index, params, prompt_token_ids, output_token_ids in update.added
            ],
            moved=[
                Moved(first, second, directions[direction.name])
                for first, second, direction in update.moved
            ],
        ),
    )


def _vllm_params(params: SamplingParams, eos_token_ids: Sequence[int] = ()) -> SamplingParams:
    """The parameters as vLLM's own type, which has every field of ours that a processor reads.

    Set one by one after construction, which would refuse or change values that we take
    (temperatures above 2 and below 0.01). Bad words are strings there and left out.
    """
    theirs = importlib.import_module("vllm").SamplingParams(
        stop_token_ids=list(params.stop_token_ids), ignore_eos=params.ignore_eos
    )
    values = {name: getattr(params, name) for name in _SAME} | {
        "logit_bias": dict(params.logit_bias) or None,
        "extra_args": dict(params.extra_args) or None,
        "allowed_token_ids": _list_or_none(params.allowed_token_ids),
        "logprob_token_ids": _list_or_none(params.logprob_token_ids),
        "trace_decode_token_ids": _list_or_none(params.trace_token_ids),
    }
    for name, value in values.items():
        # Releases differ in the newer ones.
        if hasattr(theirs, name):
            setattr(theirs, name, value)
    if eos_token_ids:
        theirs.update_from_generation_config({"eos_token_id": list(eos_token_ids)})
    return cast(SamplingParams, theirs)


_SAME = (
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "repetition_penalty",
    "frequency_penalty",
    "presence_penalty",
    "min_tokens",
    "max_tokens",
    "thinking_token_budget",
    "seed",
    "n",
    "logprobs",
    "prompt_logprobs",
)
"""Fields of the same name and meaning."""


def _list_or_none(token_ids: Sequence[int] | None) -> list[int] | None:
    return None if token_ids is None else list(token_ids)
