"""Prompt bitmask and output counts of the slots whose request has a penalty."""

from collections.abc import Sequence

import numpy as np
import torch

import sampler_kernels as kernels
from sampler_audit.sampler.layout import PADDING, Layout
from sampler_audit.sampler.stages._stage import StepInput, Surroundings
from sampler_scenarios.requests import Request

NEUTRAL = {"repetition_penalty": 1.0, "frequency_penalty": 0.0, "presence_penalty": 0.0}
"""The penalties in the order in which one call applies them, and what each is where it is off."""


class TokenCounts:
    """What penalties look back on, without drafts; nothing is stored before a slot needs it."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._launches = around.launches
        self._kept: set[int] = set()
        self._new: set[int] = set()
        self._emitted: list[tuple[int, tuple[int, ...]]] = []
        self._tables: tuple[torch.Tensor, torch.Tensor] | None = None

    def add(self, slot: int, request: Request) -> None:
        """Forget the slot's counts; a step makes them anew where the request has a penalty."""
        self._emitted = [entry for entry in self._emitted if entry[0] != slot]
        for slots in (self._kept, self._new):
            slots.discard(slot)
        if any(getattr(request.params, name) != off for name, off in NEUTRAL.items()):
            self._new.add(slot)

    def commit(self, slot: int, token_ids: Sequence[int]) -> None:
        """The request has emitted these tokens too; a new slot's are counted with its history."""
        if slot in self._kept and token_ids:
            # A copy, since the caller may go on writing to its own list before the next step.
            self._emitted.append((slot, tuple(token_ids)))

    def current(self, step: StepInput) -> tuple[torch.Tensor, torch.Tensor]:
        """Prompt bitmask and output counts of every slot that wants them."""
        if self._tables is None:
            n_slots, vocab_size = self._around.n_slots, self._around.model.vocab_size
            shapes = (n_slots, -(-vocab_size // 32)), (n_slots, vocab_size)
            bitmask, counts = (
                torch.zeros(shape, dtype=torch.int32, device=self._around.device)
                for shape in shapes
            )
            self._tables = bitmask, counts
        if self._emitted:
            self._add_emitted(self._tables[1], step.layout)
        if self._new:
            rebuild = self._launches.of(
                kernels.rebuild_token_counts, kernels.rebuild_token_counts_torch
            )
            slots = step.layout.on_device("new slots", np.array(sorted(self._new), np.int64))
            rebuild(step.history, slots, *self._tables)
            self._kept |= self._new
            self._new.clear()
        return self._tables

    def _add_emitted(self, output_counts: torch.Tensor, layout: Layout) -> None:
        width = max(len(token_ids) for _, token_ids in self._emitted)
        table = np.full((len(self._emitted), width), PADDING, np.int32)
        for row, (_, token_ids) in zip(table, self._emitted, strict=True):
            row[: len(token_ids)] = token_ids
        slots = np.array([slot for slot, _ in self._emitted], np.int64)
        self._launches.of(kernels.add_output_tokens, kernels.add_output_tokens_torch)(
            output_counts,
            layout.on_device("slots emitting", slots),
            layout.on_device("emitted tokens", table),
        )
        self._emitted.clear()
