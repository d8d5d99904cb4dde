"""One instance of a processor, run as an engine runs it: slots, buffers and the layout of a step.

The batch is told by slots in the order of rows; what is right it does not know.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from sampler_audit.sampler.processors import (
    Context,
    EngineConfig,
    ProcessorClass,
    ProcessorSet,
    RequestStates,
    SlotBuffer,
)
from sampler_scenarios.requests import ModelConfig, Request

_CPU = torch.device("cpu")


@dataclass(frozen=True)
class Subject:
    """What is audited, and the engine around it.

    Attributes:
        cls: The class, as the sampler's loader gives it.
        model: Facts about the model.
        max_requests: How many slots an instance has.
        max_drafts: The most draft tokens of a request in a step.
    """

    cls: ProcessorClass
    model: ModelConfig
    max_requests: int
    max_drafts: int

    @property
    def config(self) -> EngineConfig:
        """What a new instance is told."""
        return EngineConfig(
            model=self.model,
            max_requests=self.max_requests,
            max_drafts=self.max_drafts,
            device=_CPU,
        )


class Instance:
    """A fresh processor. Slots are taken last out, first in, as engines do."""

    def __init__(self, subject: Subject) -> None:
        n_slots, max_len = subject.max_requests, subject.model.max_model_len
        self._token_ids = torch.full((n_slots, max_len), -1, dtype=torch.int32)
        self._prompt_len, self._prefill_len, self._total_len = (
            torch.zeros(n_slots, dtype=torch.int32) for _ in range(3)
        )
        states = RequestStates(
            device=_CPU,
            max_num_reqs=n_slots,
            vocab_size=subject.model.vocab_size,
            all_token_ids=SlotBuffer(self._token_ids),
            prompt_len=SlotBuffer(self._prompt_len),
            prefill_len=SlotBuffer(self._prefill_len),
            total_len=SlotBuffer(self._total_len),
        )
        self._processors = ProcessorSet([subject.cls], subject.config, states)
        self._free = list(range(n_slots))[::-1]

    def add(self, request: Request) -> int:
        """The slot that holds the request from now on."""
        slot = self._free.pop()
        n_tokens = len(request.token_ids)
        self._token_ids[slot, :n_tokens] = torch.tensor(request.token_ids, dtype=torch.int32)
        self._prompt_len[slot] = len(request.prompt_token_ids)
        self._prefill_len[slot] = self._total_len[slot] = n_tokens
        self._processors.add(slot, request)
        return slot

    def remove(self, slot: int) -> None:
        """The request of a slot has ended."""
        self._processors.remove(slot)
        self._free.append(slot)

    def commit(self, slot: int, token_id: int) -> None:
        """The request of a slot has emitted a token."""
        self._token_ids[slot, int(self._total_len[slot])] = token_id
        self._total_len[slot] += 1
        self._processors.commit(slot, [token_id])

    def step(
        self, logits: torch.Tensor, slots: Sequence[int], drafts: Sequence[Sequence[int]]
    ) -> torch.Tensor:
        """What the processor makes of the logits of one step, whichever time it runs at."""
        context = self._context(slots, drafts)
        self._processors.apply_staged_writes()
        processed = self._processors.apply(logits, context)
        return self._processors.apply_argmax_invariant(processed, context)

    def _context(self, slots: Sequence[int], drafts: Sequence[Sequence[int]]) -> Context:
        total_len = self._total_len.numpy()[list(slots)]
        last = self._token_ids.numpy()[list(slots), total_len - 1]
        rows = [(i, j) for i, ids in enumerate(drafts) for j in range(len(ids) + 1)]
        request, local = np.array(rows, np.int32).reshape(-1, 2).T
        followed = [last[i] if j == 0 else drafts[i][j - 1] for i, j in rows]
        n_drafts = np.array([len(ids) for ids in drafts], np.int32)
        slot_of = np.array(slots, np.int32)
        return Context(
            expanded_idx_mapping=torch.from_numpy(slot_of[request]),
            idx_mapping=torch.from_numpy(slot_of.copy()),
            idx_mapping_np=slot_of,
            expanded_local_pos=torch.from_numpy(local.copy()),
            input_ids=torch.tensor(followed, dtype=torch.int32),
            pos=torch.from_numpy(total_len[request].astype(np.int64) - 1 + local),
            seq_lens_upper_bound_np=(total_len + n_drafts).astype(np.int32),
        )
