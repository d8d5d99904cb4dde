"""min_tokens: no token of the stop set before that many have been emitted."""

import numpy as np
import torch

import sampler_kernels as kernels
from sampler_audit.sampler.admission import stop_set
from sampler_audit.sampler.layout import PADDING
from sampler_audit.sampler.logits import StepLogits
from sampler_audit.sampler.stages._stage import Stage, StepInput, Surroundings
from sampler_scenarios.requests import Request


class MinTokensStage(Stage):
    """Stop tokens become -inf while the output is short.

    Where a grammar then leaves a row nothing, the stop tokens that it allowed come back.
    """

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around)
        self._model = around.model
        self._n_slots = around.n_slots
        width = around.limits.max_stop_token_ids
        self._min_tokens = around.staged("min_tokens", torch.int32, 0)
        self._stop_token_ids = around.staged("stop_token_ids", torch.int32, PADDING, width)
        self._counts = around.staged("stop_token_ids counts", torch.int32, 0)

    def _write(self, slot: int, request: Request) -> bool:
        params = request.params
        stops = stop_set(params, self._model) if params.min_tokens else ()
        # No output is ever that long, and any integer may be asked for.
        self._min_tokens.write(slot, min(params.min_tokens, self._model.max_model_len))
        self._stop_token_ids.rewrite(slot, stops)
        self._counts.write(slot, len(stops))
        return bool(stops)

    def apply(self, logits: StepLogits, step: StepInput) -> None:
        """See ``Stage``."""
        restore = np.zeros(self._n_slots, np.bool_)
        for slot, mask in zip(step.layout.row_slots, step.grammar or (), strict=False):
            restore[slot] |= mask is not None
        self._launches.of(kernels.apply_min_tokens, kernels.apply_min_tokens_torch)(
            logits.writable(),
            step.slots,
            step.history,
            self._min_tokens.current(),
            self._stop_token_ids.current(),
            self._counts.current(),
            step.layout.on_device("restore", restore),
        )
