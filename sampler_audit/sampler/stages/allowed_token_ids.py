"""allowed_token_ids: the only tokens that may be drawn."""

import torch

import sampler_kernels as kernels
from sampler_audit.sampler.layout import PADDING
from sampler_audit.sampler.logits import StepLogits
from sampler_audit.sampler.stages._stage import Stage, StepInput, Surroundings
from sampler_scenarios.requests import Request


class AllowedTokenIdsStage(Stage):
    """Every other token becomes -inf."""

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around)
        width = around.limits.max_allowed_token_ids
        self._token_ids = around.staged("allowed_token_ids", torch.int32, PADDING, width)
        self._counts = around.staged("allowed_token_ids counts", torch.int32, 0)

    def _write(self, slot: int, request: Request) -> bool:
        token_ids = request.params.allowed_token_ids or ()
        self._token_ids.rewrite(slot, token_ids)
        self._counts.write(slot, len(token_ids))
        return bool(token_ids)

    def apply(self, logits: StepLogits, step: StepInput) -> None:
        """See ``Stage``."""
        self._launches.of(kernels.apply_allowed_token_ids, kernels.apply_allowed_token_ids_torch)(
            logits.writable(), step.slots, self._token_ids.current(), self._counts.current()
        )
