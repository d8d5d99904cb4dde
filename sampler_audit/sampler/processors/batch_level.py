"""Batch-level logits processors: their base class, and how they are told that rows have changed.

Their state is by row of the batch. Methods and fields are called as in vLLM's V1 sampler
(v1/sample/logits_processor), so that a class written for it runs here. Row i is request i: such
processors know no drafts.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple, TypeVar

import torch

from sampler_audit.sampler.processors.engine_config import EngineConfig
from sampler_scenarios.params import SamplingParams

State = TypeVar("State")


class MoveDirectionality(Enum):
    """What a move does to the row that it starts from."""

    UNIDIRECTIONAL = auto()
    """The request of the first row replaces that of the second; the first row is left empty."""
    SWAP = auto()
    """The two requests change places."""


class Added(NamedTuple):
    """A request that is new in a row.

    ``output_token_ids`` is the very list that grows as the request emits tokens: to be kept, not
    copied. ``prompt_token_ids`` is None where the prompt is not known.
    """

    row: int
    params: SamplingParams
    prompt_token_ids: list[int] | None
    output_token_ids: list[int]


class Moved(NamedTuple):
    """A request that is in another row than before."""

    first: int
    second: int
    direction: MoveDirectionality


@dataclass(frozen=True)
class BatchUpdate:
    """How the rows of this step come from those of the last one.

    To be read in the order removed, added, moved. An added or moved request takes the place of
    whatever its row held. No row is both removed and added.
    """

    batch_size: int
    removed: Sequence[int]
    added: Sequence[Added]
    moved: Sequence[Moved]


class BatchLogitsProcessor(ABC):
    """A custom stage with state by row of the batch, kept up to date by ``update_state``."""

    def __init__(self, config: EngineConfig, device: torch.device, is_pin_memory: bool) -> None:
        self.config = config
        self.device = device
        self.is_pin_memory = is_pin_memory

    @classmethod
    def validate_params(cls, params: SamplingParams) -> None:  # noqa: ARG003 - for subclasses
        """Look at a request before it is admitted; the default accepts all.

        Raises:
            ValueError: the processor cannot work with these parameters; the request is refused.
        """
        return

    @abstractmethod
    def is_argmax_invariant(self) -> bool:
        """Whether the largest logit of a row is always the same before and after.

        If so it runs after temperature, and not at all where every request is greedy; if not, it
        always runs, before temperature.
        """

    @abstractmethod
    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Called once a step, before apply; None where every row holds the request it held."""

    @abstractmethod
    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """The logits, float32 ``[n_requests, vocab_size]``, in place or in a new tensor."""


def update_rows(
    rows: dict[int, State],
    update: BatchUpdate | None,
    new_state: Callable[[SamplingParams, list[int] | None, list[int]], State | None],
) -> bool:
    """Bring a state by row up to date, in place; whether anything in it changed.

    ``new_state`` makes the state of an added request from its parameters, prompt and output; None
    is no state, as has every row that is not in ``rows``.
    """
    if update is None:
        return False
    changed = False
    for row in update.removed:
        changed |= _put(rows, row, None)
    for row, params, prompt_token_ids, output_token_ids in update.added:
        changed |= _put(rows, row, new_state(params, prompt_token_ids, output_token_ids))
    for first, second, direction in update.moved:
        left, right = rows.get(first), rows.get(second)
        changed |= _put(rows, second, left)
        changed |= _put(rows, first, right if direction is MoveDirectionality.SWAP else None)
    return changed


def _put(rows: dict[int, State], row: int, state: State | None) -> bool:
    """Give a row a state, or none; whether it has one now or had one before."""
    before = rows.pop(row, None)
    if state is not None:
        rows[row] = state
    return before is not None or state is not None


class ArgmaxGroups(NamedTuple):
    """Batch-level processors by the time at which they run."""

    always: list[BatchLogitsProcessor]
    """Before temperature."""
    unless_greedy: list[BatchLogitsProcessor]
    """After temperature, where some request of the batch is not greedy."""


def group_by_argmax(processors: Iterable[BatchLogitsProcessor]) -> ArgmaxGroups:
    """Both groups, each in the order given. A processor is asked once."""
    groups = ArgmaxGroups([], [])
    for processor in processors:
        (groups.unless_greedy if processor.is_argmax_invariant() else groups.always).append(
            processor
        )
    return groups
