"""Logit rows by name: ``zipf@4096`` is a kind at a vocabulary size, ``real-...`` a model's own row.

Knows names and arrays, not what a sampler should do with them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sampler_scenarios.corpus_rows import CORPUS_KINDS
from sampler_scenarios.real_rows import REAL_ROWS, REAL_VOCAB_SIZE, facts_of, real_logits
from sampler_scenarios.row_kinds import KINDS, RowKind

__all__ = [
    "KINDS",
    "LARGE_VOCAB_SIZES",
    "MAX_VOCAB_SIZE",
    "VOCAB_SIZES",
    "LogitRow",
    "RowKind",
    "check_row_name",
    "kind_of",
    "load_row",
    "vocab_size_of",
]

VOCAB_SIZES = (
    *(1, 2, 127, 128, 129, 4096),
    *(8191, 8192, 8193, 32000, 50257),
    *(131072, 248320),
)
"""One and two tokens, one off a warp or tile on both sides, and sizes of models in use."""

LARGE_VOCAB_SIZES = frozenset({131072, 248320})
"""Those of VOCAB_SIZES that a short run leaves out."""

MAX_VOCAB_SIZE = 1 << 20
"""Four times the largest vocabulary in use; above it a mistyped name would fill the memory."""

_KIND_BY_NAME: Mapping[str, RowKind] = {kind.name: kind for kind in (*KINDS, *CORPUS_KINDS)}


@dataclass(frozen=True, eq=False)
class LogitRow:
    """The logits of one position, and in one sentence the fault that they provoke.

    ``logits`` is float32 ``[vocab_size]`` and read-only: rows are shared between cells.
    """

    name: str
    logits: NDArray[np.float32]
    why: str


def _split(name: str) -> tuple[str, int]:
    kind, at, size = name.partition("@")
    # Only the canonical spelling of a number, so that a row has one name.
    if not at or not size.isdecimal() or size != str(int(size[:9])):
        raise ValueError(
            f"a row is KIND@VOCAB_SIZE, such as dense-normal@4096, with a plain positive number"
            f" for the vocabulary size, got {name!r}"
        )
    return kind, int(size)


def _vocab_size_range(kind: str) -> tuple[int, int]:
    if made := _KIND_BY_NAME.get(kind):
        return made.min_vocab_size, MAX_VOCAB_SIZE
    if kind in REAL_ROWS:
        return 1, REAL_VOCAB_SIZE
    if kind.startswith("real-"):
        known = [*REAL_ROWS]
    else:
        known = [*_KIND_BY_NAME, f"real-PROMPT (such as {REAL_ROWS[0]})"]
    raise ValueError(f"unknown row {kind!r}; known: {', '.join(known)}")


def check_row_name(name: str) -> None:
    """Returns if ``load_row(name)`` would.

    Raises:
        ValueError: an unknown kind, a malformed vocabulary size or one out of the kind's range.
    """
    kind, vocab_size = _split(name)
    smallest, largest = _vocab_size_range(kind)
    if not smallest <= vocab_size <= largest:
        raise ValueError(
            f"{kind} needs a vocabulary of {smallest} to {largest} tokens, got {vocab_size}"
        )


def kind_of(name: str) -> str:
    """The part of a row's name before ``@``.

    Raises:
        ValueError: as ``check_row_name``.
    """
    check_row_name(name)
    return _split(name)[0]


def vocab_size_of(name: str) -> int:
    """The number of logits in the row, without building it.

    Raises:
        ValueError: as ``check_row_name``.
    """
    check_row_name(name)
    return _split(name)[1]


@lru_cache(maxsize=64)
def load_row(name: str) -> LogitRow:
    """The row of this name, the same values at every call; the arrays are cached and read-only.

    Raises:
        ValueError: as ``check_row_name``.
    """
    check_row_name(name)
    kind, vocab_size = _split(name)
    if made := _KIND_BY_NAME.get(kind):
        logits, why = made.build(vocab_size), made.why
    else:
        logits, why = real_logits(kind, vocab_size), _why_real(kind)
    logits.setflags(write=False)
    return LogitRow(name, logits, why)


def _why_real(slug: str) -> str:
    facts = facts_of(slug)
    return (
        f"A model's own row after {facts.prompt!r}: min_p = .05 leaves"
        f" {facts.survivors_min_p_0_05} and {facts.tied_with_20th} share the 20th logit, the"
        " state in which top_k and top_p meet it."
    )
