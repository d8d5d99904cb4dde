"""Temperature and the filters with their state by slot, run in the order of the conventions."""

from collections.abc import Callable
from functools import reduce

import numpy as np
import torch
from numpy.typing import NDArray

import sampler_kernels as kernels
from sampler_audit.sampler.filter_plan import KERNEL_ORDER, TEMPERATURE, Judgement, filter_plan
from sampler_audit.sampler.layout import Layout
from sampler_audit.sampler.logits import StepLogits
from sampler_audit.sampler.stages._stage import Surroundings
from sampler_reference.conventions import effective_temperature
from sampler_scenarios.requests import Request

NEUTRAL = {"min_p": 0.0, "top_k": 0, "top_p": 1.0}
"""The value of each filter that keeps everything; greedy requests have no other."""


class Filters:
    """What the rows of a step are divided by and which of their tokens stay.

    Rows that ask for no filter are not touched by those that do.
    """

    def __init__(self, around: Surroundings) -> None:
        self._conventions = around.conventions
        self._vocab_size = around.model.vocab_size
        self._launches = around.launches
        self.plan = filter_plan(around.conventions)
        self.min_p_arithmetic = around.conventions.min_p_arithmetic
        self._temperature = around.staged("temperature", torch.float32, 1)
        self._values = {
            name: around.staged(name, torch.int32 if name == "top_k" else torch.float32, neutral)
            for name, neutral in NEUTRAL.items()
        }

    def add(self, slot: int, request: Request) -> None:
        """Rewrite all that the slot holds."""
        params = request.params
        temperature = effective_temperature(params.temperature, self._conventions)
        values = {
            "min_p": params.min_p,
            "top_k": params.top_k if 0 < params.top_k < self._vocab_size else NEUTRAL["top_k"],
            "top_p": params.top_p,
        }
        self._temperature.write(slot, temperature)
        for name, staged in self._values.items():
            staged.write(slot, NEUTRAL[name] if temperature == 0 else values[name])

    def greedy_rows(self, layout: Layout) -> NDArray[np.int64]:
        """The rows whose request is greedy: of it the largest logit with the lowest id stays."""
        return np.flatnonzero(self._temperature.host[layout.row_slots] == 0)

    def filters_something(self, layout: Layout) -> bool:
        """Whether some row keeps less than it is given."""
        n_asking = self.rows_asking(layout, KERNEL_ORDER).size
        return bool(n_asking or self.greedy_rows(layout).size)

    def rows_asking(self, layout: Layout, names: tuple[str, ...]) -> NDArray[np.int64]:
        """The rows that use one of these filters."""
        asks = np.zeros(layout.n_rows, np.bool_)
        for name in names:
            asks |= self._values[name].host[layout.row_slots] != NEUTRAL[name]
        return np.flatnonzero(asks)

    def apply(
        self, logits: StepLogits, layout: Layout, after_temperature: Callable[[StepLogits], None]
    ) -> None:
        """Divide and mask, and call ``after_temperature`` in between; greedy rows stay whole."""
        for judgement in self.plan:
            if judgement == TEMPERATURE:
                self.divide(logits, layout)
                after_temperature(logits)
            else:
                self._judge(logits, layout, judgement)

    def cut_greedy(self, logits: StepLogits, layout: Layout) -> None:
        """Leave greedy rows their one token, whatever the conventions do with ties elsewhere."""

        def best(x: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
            one = torch.ones(len(x), dtype=torch.int32, device=x.device)
            return self._keep(x, {"top_k": one}, "by_id")

        _mask_rows(logits, layout, self.greedy_rows(layout), best)

    def divide(self, logits: StepLogits, layout: Layout) -> None:
        """Divide the rows whose temperature is neither 0 nor 1, if there is one."""
        if np.isin(self._temperature.host[layout.slots], (0, 1)).all():
            return
        divide = self._launches.of(kernels.apply_temperature, kernels.apply_temperature_torch)
        temperature = self._temperature.current()[layout.row_slots_on_device]
        logits.replace(divide(logits.tensor, temperature))

    def with_greedy(self, layout: Layout) -> dict[str, torch.Tensor]:
        """The filters that some row asks for, one value a row, and a top_k of 1 for greedy rows."""
        values = self._used(layout, KERNEL_ORDER, layout.row_slots_on_device)
        if rows := self.greedy_rows(layout).tolist():
            top_k = self._values["top_k"].host[layout.row_slots]
            top_k[rows] = 1
            values["top_k"] = layout.on_device("top_k with greedy", top_k)
        return values

    def _used(
        self, layout: Layout, names: tuple[str, ...], slots: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        return {
            name: self._values[name].current()[slots]
            for name in names
            if self.rows_asking(layout, (name,)).size
        }

    def _judge(self, logits: StepLogits, layout: Layout, judgement: Judgement) -> None:
        def kept_by_all(x: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
            masked = [
                self._keep(x, values, p.ties)
                for p in judgement
                if (values := self._used(layout, p.filters, slots))
            ]
            # A token has its logit where it is kept and -inf where it is not.
            return reduce(torch.minimum, masked)

        names = tuple(name for p in judgement for name in p.filters)
        _mask_rows(logits, layout, self.rows_asking(layout, names), kept_by_all)

    def _keep(
        self, x: torch.Tensor, values: dict[str, torch.Tensor], ties: kernels.Ties
    ) -> torch.Tensor:
        apply = self._launches.of(kernels.apply_filters, kernels.apply_filters_torch)
        return apply(
            x,
            top_k=values.get("top_k"),
            top_p=values.get("top_p"),
            min_p=values.get("min_p"),
            ties=ties,
            min_p_arithmetic=self.min_p_arithmetic,
        ).logits


def _mask_rows(
    logits: StepLogits,
    layout: Layout,
    rows: NDArray[np.int64],
    mask: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> None:
    """Put ``mask(logits, slots)`` of these rows in their place; nothing where there are none."""
    if not rows.size:
        return
    slots = layout.row_slots_on_device
    if rows.size == layout.n_rows:
        logits.replace(mask(logits.tensor, slots).float())
        return
    where = layout.on_device("filtered rows", rows)
    masked = mask(logits.tensor[where], slots[where])
    logits.writable().index_copy_(0, where, masked.float())
