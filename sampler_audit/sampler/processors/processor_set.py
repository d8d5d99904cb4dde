"""ProcessorSet: the custom logits processors of one sampler, of both interfaces, as one stage."""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from sampler_audit.sampler.processors.batch_level import BatchLogitsProcessor, group_by_argmax
from sampler_audit.sampler.processors.engine_config import EngineConfig
from sampler_audit.sampler.processors.errors import ProcessorMisbehaved, checked_logits
from sampler_audit.sampler.processors.interface import Context, LogitsProcessor, RequestStates
from sampler_audit.sampler.processors.loader import ProcessorClass
from sampler_audit.sampler.processors.tracker import BatchTracker, LiveRequest
from sampler_scenarios.params import SamplingParams
from sampler_scenarios.requests import Request


class ProcessorSet:
    """Processors in the order of ``classes``, and the requests that they know of, by slot.

    Logits are float32 ``[n_rows, vocab_size]``; whoever calls ``apply`` must take what it returns.
    ``is_greedy`` tells which requests take the largest logit.
    """

    def __init__(
        self,
        classes: Sequence[ProcessorClass],
        config: EngineConfig,
        states: RequestStates,
        *,
        is_greedy: Callable[[SamplingParams], bool] = lambda params: params.temperature == 0,
    ) -> None:
        self._greedy = is_greedy
        self._classes = tuple(classes)
        built = [_build(cls, config, states) for cls in self._classes]
        self._slot_level = [p for p in built if isinstance(p, _SlotLevel)]
        self._batch_level = [p for p in built if isinstance(p, BatchLogitsProcessor)]
        always, self._unless_greedy = group_by_argmax(self._batch_level)
        before = {*map(id, always), *map(id, self._slot_level)}
        self._before_temperature = [p for p in built if id(p) in before]
        self._requests: dict[int, LiveRequest] = {}
        self._tracker = BatchTracker()

    def validate_params(self, params: SamplingParams) -> None:
        """Ask every processor.

        Raises:
            ValueError: what the first of them to refuse raises.
        """
        for cls in self._classes:
            cls.validate_params(params)

    def add(self, slot: int, request: Request) -> bool:
        """Take a request into a slot, whoever was there; whether its logits are to be changed.

        Batch-level processors cannot say, so that the answer is yes where there is one.

        Raises:
            ProcessorMisbehaved: a processor did not answer yes or no.
        """
        self._requests[slot] = LiveRequest(
            request.params, list(request.prompt_token_ids), list(request.output_token_ids)
        )
        # Every processor must hear of the request, so no short cut at the first yes.
        wanted = [member.add(slot, request.params) for member in self._slot_level]
        return bool(self._batch_level) or any(wanted)

    def commit(self, slot: int, token_ids: Sequence[int]) -> None:
        """Tokens that the request of a slot has emitted."""
        self._requests[slot].output_token_ids.extend(token_ids)

    def remove(self, slot: int) -> None:
        """The request of a slot has ended; nobody is told, as in vLLM, until rows change."""
        del self._requests[slot]

    def apply_staged_writes(self) -> None:
        """Once a step, before ``apply``."""
        for member in self._slot_level:
            member.processor.apply_staged_writes()

    def apply(self, logits: torch.Tensor, context: Context) -> torch.Tensor:
        """What comes before temperature, in load order.

        A slot-level processor that wanted no request of this step is not called.

        Raises:
            ProcessorMisbehaved: a processor returned something else than logits.
        """
        update = self._tracker.update([self._requests[slot] for slot in _slots(context)])
        for processor in self._batch_level:
            processor.update_state(update)
        for member in self._before_temperature:
            if isinstance(member, BatchLogitsProcessor):
                logits = _apply_batch_level(member, logits)
            else:
                logits = member.apply(logits, context)
        return logits

    def apply_argmax_invariant(self, logits: torch.Tensor, context: Context) -> torch.Tensor:
        """What comes after temperature; nothing where every request of this step is greedy.

        Follows an ``apply`` on the same step.

        Raises:
            ProcessorMisbehaved: a processor returned something else than logits.
        """
        if all(self._is_greedy(slot) for slot in _slots(context)):
            return logits
        for processor in self._unless_greedy:
            logits = _apply_batch_level(processor, logits)
        return logits

    def _is_greedy(self, slot: int) -> bool:
        return self._greedy(self._requests[slot].params)


class _SlotLevel:
    """A slot-level processor and the slots whose requests it wanted."""

    def __init__(self, processor: LogitsProcessor, n_slots: int) -> None:
        self.processor = processor
        self._name = type(processor).__name__
        self._wanted = np.zeros(n_slots, np.bool_)

    def add(self, slot: int, params: SamplingParams) -> bool:
        answer = self.processor.add_request(slot, params)
        if not isinstance(answer, bool | np.bool_):
            raise ProcessorMisbehaved(
                f"{self._name}.add_request must return whether it changes the request's logits, "
                f"True or False, got {answer!r}"
            )
        self._wanted[slot] = answer
        return bool(answer)

    def apply(self, logits: torch.Tensor, context: Context) -> torch.Tensor:
        if not self._wanted[context.idx_mapping_np].any():
            return logits
        answer = self.processor.apply(logits, context)
        return checked_logits(answer, logits, f"{self._name}.apply")


def _build(
    cls: ProcessorClass, config: EngineConfig, states: RequestStates
) -> _SlotLevel | BatchLogitsProcessor:
    if issubclass(cls, LogitsProcessor):
        return _SlotLevel(cls(config, states), config.max_requests)
    return cls(config, states.device, states.device.type == "cuda")


def _apply_batch_level(processor: BatchLogitsProcessor, logits: torch.Tensor) -> torch.Tensor:
    return checked_logits(processor.apply(logits), logits, f"{type(processor).__name__}.apply")


def _slots(context: Context) -> list[int]:
    return [int(slot) for slot in context.idx_mapping_np]
