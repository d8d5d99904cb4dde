"""Batches: the audited row of a cell among mates, as arrays. Knows no rule of sampling."""

from dataclasses import dataclass
from itertools import cycle, islice

import numpy as np
from numpy.typing import NDArray

from sampler_scenarios.cells import Cell
from sampler_scenarios.params import SamplingParams
from sampler_scenarios.patterns import PATTERNS, Pattern
from sampler_scenarios.rows import load_row

__all__ = ["MIXED_PARAMS", "PADDING", "PATTERNS", "Batch", "Pattern", "build_batch"]

PADDING = 99.0
"""The value between rows: above nearly every logit, so that reading it changes the answer. A
worker gets a larger one: only the stride travels, and the padding is filled in anew."""

MIXED_PARAMS = (
    SamplingParams(temperature=0.0),
    SamplingParams(temperature=0.8, top_k=7, top_p=0.7),
    SamplingParams(top_k=3, min_p=0.3),
    SamplingParams(),
    SamplingParams(temperature=1.5, top_k=33),
    SamplingParams(top_p=0.6),
    SamplingParams(temperature=0.5, top_k=100, top_p=0.97, min_p=0.02),
)
"""What mixed mates ask, in turn: one greedy, one with every filter off, and values which the
settings do not use, so that a row that follows its neighbour's cannot be right by chance."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows of logits with one set of parameters each, of which one row is audited.

    Attributes:
        logits: float32 ``[batch, vocab_size]``; the row stride may exceed the vocabulary. Fresh
            memory at each build, so that an engine may work in place.
        params: One for each row.
        index: The audited row.
    """

    logits: NDArray[np.float32]
    params: tuple[SamplingParams, ...]
    index: int


def build_batch(cell: Cell) -> Batch:
    """The cell's row in the middle of its pattern's mates, the same at every call.

    Mates are finite dense rows that differ from each other (where the vocabulary is large enough).

    Raises:
        ValueError: an unknown row, a vocabulary out of the row's range, or an unknown pattern.
    """
    if cell.batch not in PATTERNS:
        raise ValueError(f"unknown batch {cell.batch!r}; known: {', '.join(PATTERNS)}")
    pattern = PATTERNS[cell.batch]
    row = load_row(cell.row).logits
    n_rows, index = pattern.n_mates + 1, pattern.n_mates // 2
    buffer = np.full((n_rows, row.size + pattern.pad), PADDING, dtype=np.float32)
    logits = buffer[:, : row.size]
    _fill_with_mates(logits)
    logits[index] = row
    mates = _mate_params(pattern, cell.params)
    return Batch(logits, (*mates[:index], cell.params, *mates[index:]), index)


def _fill_with_mates(logits: NDArray[np.float32]) -> None:
    n_rows, vocab_size = len(logits), len(logits[0])
    dense = (2 * np.random.default_rng(20260101).standard_normal(vocab_size)).astype(np.float32)
    step = max(1, vocab_size // n_rows)
    for i in range(n_rows):
        logits[i] = np.roll(dense, i * step)


def _mate_params(pattern: Pattern, own: SamplingParams) -> tuple[SamplingParams, ...]:
    asked = MIXED_PARAMS if pattern.mates == "mixed" else (own,)
    return tuple(islice(cycle(asked), pattern.n_mates))
