"""From logits to tokens: temperature, filters, draw. Knows kernels, not requests."""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Literal

import torch

import sampler_kernels as kernels
from sampler_audit.sampler.filter_plan import TEMPERATURE, filter_plan
from sampler_reference.conventions import CONVENTIONS, Conventions, effective_temperature
from sampler_scenarios.params import SamplingParams

Path = Literal["kernel", "twin"]


class Sampler:
    """A batched sampler without state: what it returns depends on its arguments alone.

    ``path`` chooses the Triton kernels or their torch twins, which agree bit for bit;
    ``conventions`` the order of the filters and their tie rules.
    """

    def __init__(self, path: Path, conventions: Conventions = CONVENTIONS["sampler-audit"]) -> None:
        on_kernels = path == "kernel"
        self._conventions = conventions
        self._plan = filter_plan(conventions)
        self._temperature = (
            kernels.apply_temperature if on_kernels else kernels.apply_temperature_torch
        )
        self._filters = kernels.apply_filters if on_kernels else kernels.apply_filters_torch
        self._race = kernels.gumbel_draw if on_kernels else kernels.gumbel_draw_torch

    def filter(self, logits: torch.Tensor, params: Sequence[SamplingParams]) -> torch.Tensor:
        """What the draw works on: logits over temperature, -inf where filtered out.

        float32 ``[batch, vocab_size]``, in and out, one SamplingParams a row. Temperature 0 (as
        float32) is greedy: the largest logit with the lowest id, whatever the filters say.
        """
        return self._filter(logits, params)

    def draw(
        self,
        logits: torch.Tensor,
        params: Sequence[SamplingParams],
        index: int,
        seeds: torch.Tensor,
        positions: torch.Tensor,
    ) -> torch.Tensor:
        """One token of row ``index`` for every (seed, position), ``[n]`` int64; -1 if all masked.

        ``seeds`` and ``positions`` are int64 ``[n]``.
        """
        return self.draw_row(self.filter(logits, params)[index], params[index], seeds, positions)

    def _filter(
        self,
        logits: torch.Tensor,
        params: Sequence[SamplingParams],
        ties: kernels.Ties | None = None,
    ) -> torch.Tensor:
        def column(value: Callable[[SamplingParams], float], dtype: torch.dtype) -> torch.Tensor:
            return torch.tensor([value(p) for p in params], dtype=dtype, device=logits.device)

        own = self._conventions
        temperature = column(lambda p: effective_temperature(p.temperature, own), torch.float32)
        # Greedy is the top 1 of the undivided logits, which neither top_p nor min_p ever drops.
        values = {
            "top_k": column(lambda p: p.top_k, torch.int64).masked_fill(temperature == 0, 1),
            "top_p": column(lambda p: p.top_p, torch.float32),
            "min_p": column(lambda p: p.min_p, torch.float32),
        }
        for judgement in self._plan:
            if judgement == TEMPERATURE:
                logits = self._temperature(logits, temperature)
                continue
            kept_by_each = [
                self._filters(
                    logits,
                    **{name: values[name] for name in each.filters},
                    ties=ties or each.ties,
                    min_p_arithmetic=own.min_p_arithmetic,
                ).logits
                for each in judgement
            ]
            # A token has its logit where it is kept and -inf where it is not.
            logits = reduce(torch.minimum, kept_by_each)
        return logits

    def draw_row(
        self,
        row: torch.Tensor,
        params: SamplingParams,  # noqa: ARG002 - planted defects look at it
        seeds: torch.Tensor,
        positions: torch.Tensor,
    ) -> torch.Tensor:
        """Tokens of a filtered row ``[vocab_size]`` for every (seed, position), see ``draw``."""
        return self._race(row[None], seeds, positions, torch.zeros_like(seeds))
