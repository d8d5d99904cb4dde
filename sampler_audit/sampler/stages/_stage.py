"""Stage: one change of the logits, for the rows whose request asks for it. Knows no order."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

import sampler_kernels as kernels
from sampler_audit.sampler.admission import Limits
from sampler_audit.sampler.history import TokenHistory
from sampler_audit.sampler.launches import Launches
from sampler_audit.sampler.layout import Layout
from sampler_audit.sampler.logits import StepLogits
from sampler_audit.sampler.staged import StagedTensor
from sampler_reference.conventions import Conventions
from sampler_scenarios.requests import ModelConfig, Request

Grammar = Sequence[NDArray[np.bool_] | None] | None
"""For every row of a step the tokens that its grammar allows, bool ``[vocab_size]``, or None."""


@dataclass(frozen=True, eq=False)
class Surroundings:
    """What every stage of one sampler shares."""

    model: ModelConfig
    conventions: Conventions
    limits: Limits
    n_slots: int
    device: torch.device
    launches: Launches
    history: TokenHistory

    def staged(
        self, name: str, dtype: torch.dtype, fill: float, width: int | None = None
    ) -> StagedTensor:
        """State by slot: one value, or a row of ``width``."""
        shape = (self.n_slots,) if width is None else (self.n_slots, width)
        return StagedTensor(name, shape, dtype, fill, self.device, self.launches)


@dataclass(frozen=True, eq=False)
class StepInput:
    """What a stage may look at beside the logits."""

    layout: Layout
    grammar: Grammar
    _history: TokenHistory

    @property
    def slots(self) -> torch.Tensor:
        """The slot of every row, ``[n_rows]`` int64 on the device."""
        return self.layout.row_slots_on_device

    @cached_property
    def history(self) -> kernels.History:
        """Committed tokens and drafts."""
        return self._history.seen_by(self.layout)


class Stage(ABC):
    """A stage with its state by slot.

    ``add`` rewrites all of a slot's state, so that nothing of a predecessor's is left.
    """

    def __init__(self, around: Surroundings) -> None:
        self._launches = around.launches
        self._asked = np.zeros(around.n_slots, np.bool_)

    def add(self, slot: int, request: Request) -> bool:
        """Whether the stage will change this request's logits."""
        self._asked[slot] = self._write(slot, request)
        return bool(self._asked[slot])

    def acts(self, step: StepInput) -> bool:
        """Whether some row of the step asks for the stage; otherwise ``apply`` is not called."""
        return bool(self._asked[step.layout.slots].any())

    @abstractmethod
    def _write(self, slot: int, request: Request) -> bool: ...

    @abstractmethod
    def apply(self, logits: StepLogits, step: StepInput) -> None:
        """Change the logits of every row that asks, and no other's."""
