"""Custom logits processors, of both interfaces, at their two places among the stages."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sampler_audit.sampler.layout import PADDING, Layout
from sampler_audit.sampler.logits import StepLogits
from sampler_audit.sampler.processors import (
    Context,
    EngineConfig,
    ProcessorSet,
    RequestStates,
    SlotBuffer,
    load_processors,
)
from sampler_audit.sampler.stages._stage import Stage, StepInput, Surroundings
from sampler_reference.conventions import effective_temperature
from sampler_scenarios.params import SamplingParams
from sampler_scenarios.requests import Request


class ProcessorStage(Stage):
    """The processors in load order; the argmax-invariant ones of them come after temperature.

    Where a request of the step asks for one, or one is batch-level and so cannot say.
    """

    def __init__(
        self, around: Surroundings, sources: Sequence[str | type], max_drafts: int
    ) -> None:
        super().__init__(around)
        self._history = around.history
        conventions = around.conventions
        states = RequestStates(
            device=around.device,
            max_num_reqs=around.n_slots,
            vocab_size=around.model.vocab_size,
            all_token_ids=SlotBuffer(around.history.token_ids.current()),
            prompt_len=SlotBuffer(around.history.prompt_len.current()),
            prefill_len=SlotBuffer(around.history.prefill_len.current()),
            total_len=SlotBuffer(around.history.total_len.current()),
        )
        config = EngineConfig(
            model=around.model,
            max_requests=around.n_slots,
            max_drafts=max_drafts,
            device=around.device,
        )
        classes = load_processors(sources, speculative=max_drafts > 0)
        self.n_processors = len(classes)
        self._processors = ProcessorSet(
            classes,
            config,
            states,
            is_greedy=lambda params: effective_temperature(params.temperature, conventions) == 0,
        )

    def validate_params(self, params: SamplingParams) -> None:
        """Raises ValueError where a processor refuses the request."""
        self._processors.validate_params(params)

    def _write(self, slot: int, request: Request) -> bool:
        return self._processors.add(slot, request)

    def commit(self, slot: int, token_ids: Sequence[int]) -> None:
        """The request has emitted these tokens too."""
        self._processors.commit(slot, token_ids)

    def remove(self, slot: int) -> None:
        """The request has ended."""
        self._processors.remove(slot)

    def apply(self, logits: StepLogits, step: StepInput) -> None:
        """See ``Stage``."""
        self._launches.count("processors")
        for buffer in (
            self._history.token_ids,
            self._history.prompt_len,
            self._history.prefill_len,
            self._history.total_len,
        ):
            buffer.current()
        self._processors.apply_staged_writes()
        x = logits.writable()
        logits.replace(self._processors.apply(x, self._context(step)))

    def apply_after_temperature(self, logits: StepLogits, step: StepInput) -> None:
        """The argmax-invariant ones, unless all requests of the step are greedy."""
        if self.acts(step):
            x = logits.writable()
            logits.replace(self._processors.apply_argmax_invariant(x, self._context(step)))

    def _context(self, step: StepInput) -> Context:
        layout = step.layout
        slots = layout.slots.astype(np.int32)
        n_drafts = np.array([len(drafts) for drafts in layout.drafts])
        return Context(
            expanded_idx_mapping=layout.row_slots_on_device.int(),
            idx_mapping=layout.on_device("slots", slots),
            idx_mapping_np=slots,
            expanded_local_pos=layout.n_drafts_before_row,
            input_ids=layout.on_device("input_ids", self._input_ids(layout)),
            pos=layout.positions_on_device,
            seq_lens_upper_bound_np=(self._history.total_len.host[slots] + n_drafts).astype(
                np.int32
            ),
        )

    def _input_ids(self, layout: Layout) -> NDArray[np.int32]:
        """The token that each row follows, -1 after a request without tokens."""
        last = self._history.total_len.host[layout.slots].astype(np.int64) - 1
        committed = self._history.token_ids.host[layout.slots, last]
        followed = np.column_stack([np.where(last < 0, PADDING, committed), layout.draft_token_ids])
        return followed[layout.row_request, layout.local].astype(np.int32)
