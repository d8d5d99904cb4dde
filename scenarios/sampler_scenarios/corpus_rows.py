"""The logit rows of the fault corpus, by name: the smallest inputs of public reports.

They are found by ``load_row`` like any other row, and are in no plan: KINDS does not hold them.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from sampler_scenarios import row_shapes as shapes
from sampler_scenarios.row_kinds import RowKind

P8 = (0.40, 0.22, 0.14, 0.09, 0.06, 0.04, 0.03, 0.02)
P6 = (0.40, 0.22, 0.14, 0.09, 0.08, 0.07)
P4 = (0.1, 0.2, 0.3, 0.4)
P21 = (0.15, 0.12, 0.11, 0.10, 0.10, 0.09, 0.09, 0.08, 0.08, 0.08)


def _logits(vocab_size: int, *, values: Sequence[float], rest: float = -np.inf) -> shapes.Logits:
    """``values`` from id 0 on, then ``rest``."""
    logits = np.full(vocab_size, rest, dtype=np.float32)
    logits[: len(values)] = values
    return logits


def _linear_tail(vocab_size: int) -> shapes.Logits:
    logits = (2 - 4 * np.arange(vocab_size) / vocab_size).astype(np.float32)
    logits[0] = 12
    return logits


def _geometric_tail(vocab_size: int) -> shapes.Logits:
    tail = np.float64(0.99) ** np.arange(vocab_size - 1)
    tail = np.log(1e-4 * tail / tail.sum())
    return _logits(vocab_size, values=(math.log(0.9999), *tail.tolist()))


def _tie_in_every_tile(vocab_size: int) -> shapes.Logits:
    logits = shapes.masked(vocab_size)
    logits[1000 + vocab_size // 64 * np.arange(64)] = math.log(1 / 128)
    logits[0] = math.log(0.5)
    return logits


def _every_sixteenth(vocab_size: int) -> shapes.Logits:
    logits = shapes.masked(vocab_size)
    logits[::16] = 1
    return logits


def _falling(vocab_size: int, *, first: float, step: float) -> shapes.Logits:
    return (first - step * np.arange(vocab_size)).astype(np.float32)


def _gap_then_falling(vocab_size: int) -> shapes.Logits:
    logits = _falling(vocab_size, first=1965, step=5)
    logits[0] = 2000
    return logits


def _one_above(vocab_size: int, *, head: float, rest: float) -> shapes.Logits:
    return _logits(vocab_size, values=(head,), rest=rest)


def _empty_last_tile(vocab_size: int) -> shapes.Logits:
    logits = shapes.dense_normal(vocab_size)
    logits[shapes.FIRST_BLOCK :] = -np.inf
    return logits


def _listed(
    name: str, why: str, values: Sequence[float], *, rest: float = -np.inf, logs: bool = False
) -> RowKind:
    """A row given by its first values, logits, or with ``logs`` probabilities."""
    own = [math.log(value) for value in values] if logs else values
    return RowKind(name, why, partial(_logits, values=own, rest=rest), min_vocab_size=len(values))


_Build = Callable[[int], shapes.Logits]
_MADE: tuple[tuple[str, str, _Build, int], ...] = (
    ("b01", "A head of 73 % over a slowly falling tail.", _linear_tail, 51),
    ("b02", "A head of .9999 over a geometric tail.", _geometric_tail, 71),
    ("b08", "Sixty-four equal tokens, each in a tile of its own.", _tie_in_every_tile, 1 << 16),
    ("b16", "Equal tokens at every sixteenth id.", _every_sixteenth, 16),
    ("b31", "A flat row with a hair's breadth on id 0.", partial(_one_above, head=1e-3, rest=0), 2),
    ("b32", "A slowly falling row.", partial(_falling, first=6, step=0.1), 1),
    ("b34", "Logits of thousands, forty below the best.", _gap_then_falling, 2),
    ("b37", "A head over a tail at -20.", partial(_one_above, head=0, rest=-20), 2),
    ("b49", "No mass after the first tile.", _empty_last_tile, shapes.FIRST_BLOCK + 1),
)

CORPUS_KINDS: tuple[RowKind, ...] = (
    _listed("p8", "The corpus's row of eight.", P8, logs=True),
    _listed("p6", "The corpus's row of six.", P6, logs=True),
    _listed("p4", "The corpus's row of four.", P4, logs=True),
    _listed("b03", "Eight tokens over a padding at -30.", [*map(math.log, P8)], rest=-30),
    _listed("b05", "Id 1 above zeros.", (0, 10), rest=0),
    _listed("b06", "Four tie across k = 3.", (5, 4, 4, 4, 4, 1)),
    _listed("b07", "Two share the maximum.", (7, 7, 0)),
    _listed("b09", "Three tie across k = 2.", (0.34, 0.22, 0.22, 0.22), logs=True),
    _listed("b11", "A hundred tokens at 1e-8.", (1 - 1e-6, *[1e-8] * 100), logs=True),
    _listed("b19", "Cumulative masses of .5 and .75.", (0.5, 0.25, 0.125, 0.125), logs=True),
    _listed("b21", "Ten likely tokens.", P21, logs=True),
    _listed("b30", "The maximum is not at id 0.", (4, 5, 1.9, 1)),
    _listed("b53", "Position and id of the best differ.", (0.5, -4, 7, 1, -2, 3)),
    _listed("b56", "The model favours what the grammar forbids.", (*[0] * 9, 10), rest=0),
    _listed("b71", "Two near the maximum.", (7, 6.9, 0)),
    *(RowKind(name, why, build, min_vocab_size=least) for name, why, build, least in _MADE),
)
"""Rows that no kind of KINDS makes. The name is that of the entry which the row comes from."""
