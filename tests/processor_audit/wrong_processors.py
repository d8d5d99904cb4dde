"""Logits processors with one fault each, as somebody would write them by mistake.

All but the parameters' read ``extra_args``: ``bias``, added to token 3.
"""

import os
from collections.abc import Callable

import numpy as np
import torch

from sampler_audit.sampler.processors import (
    AdapterLogitsProcessor,
    BatchLogitsProcessor,
    BatchUpdate,
    Context,
    EngineConfig,
    LogitsProcessor,
    MoveDirectionality,
    RequestLogitsProcessor,
    RequestStates,
    update_rows,
)
from sampler_scenarios.params import SamplingParams

TOKEN = 3


def bias_of(params: SamplingParams) -> float | None:
    """What a request asks for."""
    bias = params.extra_args.get("bias")
    return bias if isinstance(bias, float) else None


class Bias(BatchLogitsProcessor):
    """Right: what the others are derived from."""

    def __init__(self, config: EngineConfig, device: torch.device, is_pin_memory: bool) -> None:
        super().__init__(config, device, is_pin_memory)
        self.biases: dict[int, float] = {}

    def is_argmax_invariant(self) -> bool:
        """A bias can make its token the likeliest."""
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Biases follow their rows."""
        update_rows(self.biases, batch_update, lambda params, _prompt, _output: bias_of(params))

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """In place; a row beyond the batch would be a fault of its own."""
        for row, bias in self.biases.items():
            if row < len(logits):
                logits[row, TOKEN] += bias
        return logits


class KeepsTheLastOne(Bias):
    """leak: a new request without a bias inherits that of the row."""

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Forgets that a row may be taken by a request that asks for nothing."""
        if batch_update is None:
            return
        before = dict(self.biases)
        super().update_state(batch_update)
        for row, params, _, _ in batch_update.added:
            if bias_of(params) is None and row in before and not batch_update.moved:
                self.biases[row] = before[row]


class IgnoresMoves(Bias):
    """moved: one-way moves are not followed."""

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Takes the one-way moves out."""
        swaps = MoveDirectionality.SWAP
        self._without(batch_update, lambda direction: direction is swaps)

    def _without(
        self, update: BatchUpdate | None, followed: Callable[[MoveDirectionality], bool]
    ) -> None:
        if update is not None:
            moved = [move for move in update.moved if followed(move.direction)]
            update = BatchUpdate(update.batch_size, update.removed, update.added, moved)
        super().update_state(update)


class SwapCopiesToBoth(Bias):
    """swapped: both rows end with the state of the first (vllm-project/vllm#51890)."""

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Writes the first row's state over the second's before it is read."""
        super().update_state(batch_update)
        for first, second, direction in batch_update.moved if batch_update else ():
            if direction is MoveDirectionality.SWAP:
                self.biases.pop(first, None)
                if second in self.biases:
                    self.biases[first] = self.biases[second]


class BiasesEverybody(Bias):
    """neighbour: one request's bias is added to all rows."""

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """Forgets the row index."""
        logits[:, TOKEN] += sum(self.biases.values())
        return logits


class FiresTheDice(Bias):
    """nondeterministic: noise from a generator that nobody seeded per request."""

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """A little of it."""
        return logits + 1e-3 * torch.rand(logits.shape)


class ClaimsArgmaxInvariance(Bias):
    """argmax: a bias is no such thing."""

    def is_argmax_invariant(self) -> bool:
        """Skipped in greedy batches, then."""
        return True


class ForcesAMaskedToken(Bias):
    """masked: gives the token a value of its own, whatever a grammar said."""

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """Assigns instead of adding."""
        for row, bias in self.biases.items():
            logits[row, TOKEN] = bias
        return logits


class DividesByZero(Bias):
    """nan: subtracts -inf, where a row holds masked tokens."""

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """Centres the row on its smallest logit."""
        for row in self.biases:
            logits[row] -= logits[row].min()
        return logits


class ReturnsItsBuffer(Bias):
    """aliased: the answer of every step is the same memory."""

    def __init__(self, config: EngineConfig, device: torch.device, is_pin_memory: bool) -> None:
        super().__init__(config, device, is_pin_memory)
        self.buffer = torch.empty(config.max_requests, config.model.vocab_size)

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """Saves an allocation."""
        answer = self.buffer[: len(logits)]
        return answer.copy_(super().apply(logits))


class ReturnsTheCopy(Bias):
    """dropped: changes the logits and returns what it had put aside."""

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """Mixes up the two tensors."""
        untouched = logits.clone()
        super().apply(logits)
        return untouched


class ReturnsNothing(Bias):
    """returned: in place, and no return statement."""

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """None, which every type checker would have seen."""
        super().apply(logits)
        return None  # type: ignore[return-value] # the fault


class RaisesInLargeBatches(Bias):
    """raised: an index that exists in small batches only."""

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """Assumes two rows at most."""
        if len(logits) > 2:
            raise LookupError("no buffer for row 2")
        return super().apply(logits)


class AcceptsEverything(AdapterLogitsProcessor):
    """accepted: no validate_params, and a step that takes no text."""

    def is_argmax_invariant(self) -> bool:
        """A bias can make its token the likeliest."""
        return False

    def new_req_logits_processor(self, params: SamplingParams) -> RequestLogitsProcessor | None:
        """Whatever ``bias`` is."""
        bias = params.extra_args.get("bias")

        def add(_output_token_ids: list[int], row: torch.Tensor) -> torch.Tensor:
            assert isinstance(bias, float)
            row[TOKEN] += bias
            return row

        return None if bias is None else add


class RefusesWithATypeError(Bias):
    """refusal: compares before it looks at the type."""

    @classmethod
    def validate_params(cls, params: SamplingParams) -> None:
        """Raises ValueError for large numbers, and what Python raises for text."""
        bias = params.extra_args.get("bias", 0.0)
        if bias > 100:  # type: ignore[operator] # the fault
            raise ValueError(f"bias must be at most 100, got {bias}")


class SlotBias(LogitsProcessor):
    """Right: the slot-level counterpart."""

    def __init__(self, config: EngineConfig, states: RequestStates) -> None:
        super().__init__(config, states)
        self.biases = np.zeros(config.max_requests, np.float32)

    def add_request(self, slot: int, params: SamplingParams) -> bool:
        """Overwrites what the slot held."""
        self.biases[slot] = bias_of(params) or 0.0
        return bool(self.biases[slot])

    def apply(self, logits: torch.Tensor, context: Context) -> torch.Tensor:
        """In place, drafts included."""
        logits[:, TOKEN] += torch.from_numpy(self.biases)[context.expanded_idx_mapping.long()]
        return logits


class StaleSlot(SlotBias):
    """leak: a slot is written only by those who ask for something (vllm-project/vllm#39833)."""

    def add_request(self, slot: int, params: SamplingParams) -> bool:
        """Returns early, and says yes as the default does."""
        if (bias := bias_of(params)) is not None:
            self.biases[slot] = bias
        return True


class RowForSlot(SlotBias):
    """order: takes row i for slot i, which is true until somebody leaves."""

    def apply(self, logits: torch.Tensor, context: Context) -> torch.Tensor:
        """Right in every test that only ever adds requests, and has no drafts."""
        slots = context.expanded_idx_mapping
        if context.expanded_local_pos.any():
            return super().apply(logits, context)
        logits[:, TOKEN] += torch.from_numpy(self.biases)[: len(slots)]
        return logits


class ForgetsDrafts(SlotBias):
    """neighbour: takes row i for request i, so that drafts shift everything after them."""

    def apply(self, logits: torch.Tensor, context: Context) -> torch.Tensor:
        """Uses the mapping without drafts."""
        slots = context.idx_mapping.long()
        logits[: len(slots), TOKEN] += torch.from_numpy(self.biases)[slots]
        return logits


class RaisesAtOnce(Bias):
    """Cannot be constructed."""

    def __init__(self, config: EngineConfig, device: torch.device, is_pin_memory: bool) -> None:
        super().__init__(config, device, is_pin_memory)
        raise OSError("no such device")


class EndsItsProcess(Bias):
    """As a crash in compiled code does."""

    def apply(self, logits: torch.Tensor) -> torch.Tensor:  # noqa: ARG002 - the interface
        """Takes nobody along but its own process."""
        os._exit(7)
