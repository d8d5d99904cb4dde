"""Row: log-probs at one position, checked; Vocabulary: token ids where a server tells only strings.

Every rule here holds for any engine: distinct tokens, no mass above 1, nothing positive.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sampler_audit.errors import ServerNonsense
from sampler_audit.servers._reply import LOOK

Token = int | bytes
"""A token id, or the bytes of a token's text where the server does not tell ids."""

MASS_SLACK = 1e-3
"""By how much the mass of a list of fp32 log-probs, printed with few digits, may exceed 1."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One token of a list, with its text where that is told."""

    token: Token
    logprob: float
    text: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """One position on the wire: the token that stands there, and the list beside it."""

    own: Entry | None
    listed: tuple[Entry, ...] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class Row:
    """Log-probs at one position.

    Attributes:
        token_ids: int64 ``[n]``, likeliest first; of equal ones the lowest id first.
        logprobs: float64 ``[n]``, natural logarithm; -inf where the server says so.
        complete: Whether every token of the vocabulary is there.
        own: The token that was drawn, or that follows in the prompt; None where there is none.
        own_logprob: Its log-prob, which may be none of ``logprobs``.
    """

    token_ids: NDArray[np.int64]
    logprobs: NDArray[np.float64]
    complete: bool = False
    own: int | None = None
    own_logprob: float = math.nan

    @property
    def tail(self) -> float:
        """Probability of all tokens that are not there, at least 0."""
        return max(0.0, 1.0 - math.fsum(np.exp(self.logprobs)))

    def restricted(self, token_ids: Iterable[int]) -> "Row":
        """The row of a sampler that is forced to draw one of ``token_ids``, all of them listed."""
        chosen = np.isin(self.token_ids, np.array(tuple(token_ids), np.int64))
        logprobs = self.logprobs[chosen]
        return Row(
            token_ids=self.token_ids[chosen],
            logprobs=logprobs - np.logaddexp.reduce(logprobs),
            complete=True,
        )


class Vocabulary:
    """The tokens of a model as numbers and names.

    Where a server tells strings (not ``ids``), a number is given to each in the order of
    appearance, so two runs may number them otherwise: files must hold the names.
    """

    def __init__(self, size: int | None = None, *, ids: bool = True) -> None:
        self.size = size
        self._ids = ids
        self._names: dict[int, str] = {}
        self._numbers: dict[bytes, int] = {}

    def number(self, token: Token, text: str = "") -> int:
        """The id of a token.

        Raises:
            ServerNonsense: an id that the vocabulary does not have, or a string in place of one.
        """
        if isinstance(token, bytes):
            if self._ids:
                raise ServerNonsense(
                    f"token {token.decode('utf-8', 'replace')!r} is told by text where ids were"
                    " asked for: a gateway drops the field; try --engine openai_completions"
                )
            number = self._numbers.setdefault(token, len(self._numbers))
            self._names[number] = token.decode("utf-8", "backslashreplace")
            return number
        if token < 0 or (self.size is not None and token >= self.size):
            raise ServerNonsense(
                f"token id {token} lies outside the vocabulary"
                f" ({self.size or 'any number of'} tokens); {LOOK}"
            )
        if text:
            self._names[token] = text
        return token

    def name(self, token_id: int) -> str:
        """The token's text where it was told, else its number."""
        return self._names.get(token_id, str(token_id))


def read_row(step: Step, vocabulary: Vocabulary, source: str, limit: int | None = None) -> Row:
    """The row of a step. At most ``limit`` tokens are kept: servers append their own to a list.

    Raises:
        ServerNonsense: a list that cannot be right.
    """
    listed = list(step.listed)
    if limit is not None and len(listed) > limit and step.own is not None:
        listed = [entry for entry in listed if entry.token != step.own.token]
    numbers = np.array([vocabulary.number(entry.token, entry.text) for entry in listed], np.int64)
    logprobs = np.array([entry.logprob for entry in listed], np.float64)
    _check(numbers, logprobs, vocabulary, source)
    order = np.lexsort((numbers, -logprobs))[:limit]
    own = step.own
    return Row(
        token_ids=numbers[order],
        logprobs=logprobs[order],
        complete=len(order) == vocabulary.size,
        own=None if own is None else vocabulary.number(own.token, own.text),
        own_logprob=math.nan if own is None else own.logprob,
    )


def join_rows(rows: Iterable[Row], vocabulary: Vocabulary, source: str) -> Row:
    """One row of slices that list different tokens of the same position.

    Raises:
        ServerNonsense: slices that overlap, or whose masses do not fit together.
    """
    parts = list(rows)
    numbers = np.concatenate([part.token_ids for part in parts])
    logprobs = np.concatenate([part.logprobs for part in parts])
    _check(numbers, logprobs, vocabulary, source)
    order = np.lexsort((numbers, -logprobs))
    return Row(
        token_ids=numbers[order],
        logprobs=logprobs[order],
        complete=len(order) == vocabulary.size,
    )


def _check(
    numbers: NDArray[np.int64],
    logprobs: NDArray[np.float64],
    vocabulary: Vocabulary,
    source: str,
) -> None:
    if (logprobs > MASS_SLACK).any():
        raise ServerNonsense(
            f"{source}: a log-prob of {logprobs.max():.4g} is above 0, so these are logits; start"
            " the server with log-probs (vLLM: --logprobs-mode raw_logprobs)"
        )
    tokens, counts = np.unique(numbers, return_counts=True)
    if (counts > 1).any():
        twice = vocabulary.name(int(tokens[counts > 1][0]))
        raise ServerNonsense(f"{source}: token {twice!r} is listed twice at one position; {LOOK}")
    if (mass := math.fsum(np.exp(logprobs))) > 1 + MASS_SLACK:
        raise ServerNonsense(f"{source}: the listed probabilities sum to {mass:.4f}; {LOOK}")
