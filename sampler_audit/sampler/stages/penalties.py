"""Repetition, frequency and presence penalties: one stage for as many as stand together."""

from collections.abc import Sequence

import torch

import sampler_kernels as kernels
from sampler_audit.sampler.logits import StepLogits
from sampler_audit.sampler.stages._stage import Stage, StepInput, Surroundings
from sampler_audit.sampler.stages.token_counts import NEUTRAL, TokenCounts
from sampler_scenarios.requests import Request


class PenaltiesStage(Stage):
    """The penalties ``names``, of which the scope and the arithmetic are the conventions'."""

    def __init__(self, around: Surroundings, names: Sequence[str], counts: TokenCounts) -> None:
        super().__init__(around)
        self._conventions = around.conventions
        self._names = tuple(names)
        self._counts = counts
        self._penalties = {
            name: around.staged(name, torch.float32, neutral) for name, neutral in NEUTRAL.items()
        }

    def _write(self, slot: int, request: Request) -> bool:
        asked = {name: getattr(request.params, name) for name in self._names}
        for name, neutral in NEUTRAL.items():
            self._penalties[name].write(slot, asked.get(name, neutral))
        return any(value != NEUTRAL[name] for name, value in asked.items())

    def apply(self, logits: StepLogits, step: StepInput) -> None:
        """See ``Stage``."""
        conventions = self._conventions
        # A window moves with every token, so that nothing is counted in advance.
        recounted = conventions.penalty_window > 0 or conventions.count_scope != "output"
        bitmask, counts = (None, None) if recounted else self._counts.current(step)
        repetition, frequency, presence = (self._penalties[name].current() for name in NEUTRAL)
        self._launches.of(kernels.apply_penalties, kernels.apply_penalties_torch)(
            logits.writable(),
            step.slots,
            step.history,
            repetition=repetition,
            frequency=frequency,
            presence=presence,
            reciprocal=conventions.reciprocal,
            by_sign=conventions.repetition_rule == "by_sign",
            prompt_in_repetition=conventions.repetition_scope == "prompt+output",
            prompt_in_counts=conventions.count_scope == "prompt+output",
            window=conventions.penalty_window,
            prompt_bitmask=bitmask,
            output_counts=counts,
        )
