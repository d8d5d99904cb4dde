"""thinking_budget: ends reasoning that has used up its tokens."""

import numpy as np
import torch

import sampler_kernels as kernels
from sampler_audit.sampler.logits import StepLogits
from sampler_audit.sampler.stages._stage import Stage, StepInput, Surroundings
from sampler_scenarios.requests import Request

NO_BUDGET = -1
_LONGEST = np.iinfo(np.int32).max


class ThinkingBudgetStage(Stage):
    """The next token of the closing marker outweighs every other once the budget is spent."""

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around)
        model, device = around.model, around.device
        self._budgets = around.staged("thinking_token_budget", torch.int32, NO_BUDGET)
        self._start = torch.tensor(model.reasoning_start, dtype=torch.int32, device=device)
        self._end = torch.tensor(model.reasoning_end, dtype=torch.int32, device=device)

    def _write(self, slot: int, request: Request) -> bool:
        budget = request.params.thinking_token_budget
        self._budgets.write(slot, NO_BUDGET if budget is None else min(budget, _LONGEST))
        return budget is not None

    def apply(self, logits: StepLogits, step: StepInput) -> None:
        """See ``Stage``."""
        self._launches.of(kernels.apply_thinking_budget, kernels.apply_thinking_budget_torch)(
            logits.writable(),
            step.slots,
            step.history,
            self._budgets.current(),
            self._start,
            self._end,
        )
