"""logit_bias: an addend to the logits of some tokens."""

import torch

import sampler_kernels as kernels
from sampler_audit.sampler.layout import PADDING
from sampler_audit.sampler.logits import StepLogits
from sampler_audit.sampler.stages._stage import Stage, StepInput, Surroundings
from sampler_scenarios.requests import Request


class LogitBiasStage(Stage):
    """Logit plus bias in float32, so that a masked token stays masked."""

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around)
        width = around.limits.max_logit_bias
        self._token_ids = around.staged("logit_bias token_ids", torch.int32, PADDING, width)
        self._biases = around.staged("logit_bias", torch.float32, 0, width)
        self._counts = around.staged("logit_bias counts", torch.int32, 0)

    def _write(self, slot: int, request: Request) -> bool:
        bias = request.params.logit_bias
        self._token_ids.rewrite(slot, list(bias.keys()))
        self._biases.rewrite(slot, list(bias.values()))
        self._counts.write(slot, len(bias))
        return bool(bias)

    def apply(self, logits: StepLogits, step: StepInput) -> None:
        """See ``Stage``."""
        self._launches.of(kernels.apply_logit_bias, kernels.apply_logit_bias_torch)(
            logits.writable(),
            step.slots,
            self._token_ids.current(),
            self._biases.current(),
            self._counts.current(),
        )
