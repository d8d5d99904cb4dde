"""Batches: the audited row of a cell among mates, as arrays. Knows no rule of sampling."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from itertools import cycle, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler_scenarios.cells import Cell
from sampler_scenarios.params import STAGES, SamplingParams
from sampler_scenarios.patterns import PATTERNS, Pattern
from sampler_scenarios.requests import ModelConfig, Request
from sampler_scenarios.rows import load_row
from sampler_scenarios.stages import audit_model, build_request, switched_off

__all__ = [
    "MIXED_PARAMS",
    "MIXED_STAGES",
    "PADDING",
    "PATTERNS",
    "Batch",
    "Pattern",
    "build_batch",
    "plain_batch",
    "without_stages",
]

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


MIXED_STAGES: tuple[tuple[str, ...], ...] = (
    (),
    STAGES,
    ("logit_bias", "min_tokens", "repetition_penalty"),
    ("grammar", "frequency_penalty", "bad_words"),
    ("allowed_token_ids", "presence_penalty", "processor"),
)
"""The stages of mixed mates, in turn, where a cell has stages or a past."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows of logits with one request each, of which one row is audited.

    Attributes:
        logits: float32 ``[batch, vocab_size]``; the row stride may exceed the vocabulary. Fresh
            memory at each build, so that an engine may work in place.
        requests: In the order of their rows, as they are at this step.
        index: The audited row.
        leavers: Requests that took part in earlier steps and are gone.
        past: Earlier steps, oldest first: the rows of each, as indices into
            ``(*requests, *leavers)``. A request that was there in n of them has emitted the last n
            tokens of its output there, one a step; one that was not was added with its output.
        drafts: The draft tokens of each request, which has one row more than drafts, all of them
            together; empty where nobody has any.
        draft_logits: float32 ``[n_drafts, vocab_size]``, what the audited request's drafts are
            drawn from; ``drafts`` then only says how many. None where drafts count as certain.
    """

    logits: NDArray[np.float32]
    requests: tuple[Request, ...]
    index: int
    leavers: tuple[Request, ...] = ()
    past: tuple[tuple[int, ...], ...] = ()
    drafts: tuple[tuple[int, ...], ...] = ()
    draft_logits: NDArray[np.float32] | None = None

    @property
    def owners(self) -> tuple[tuple[int, int], ...]:
        """For each row its request, and how many drafts it sees as emitted."""
        drafts = self.drafts or ((),) * len(self.requests)
        return tuple((i, after) for i, own in enumerate(drafts) for after in range(len(own) + 1))

    @property
    def rows(self) -> tuple[Request, ...]:
        """The request that each row sees, with the drafts before the row as emitted."""
        if not self.drafts:
            return self.requests
        return tuple(self.requests[i].extended(self.drafts[i][:after]) for i, after in self.owners)

    @property
    def params(self) -> tuple[SamplingParams, ...]:
        """The parameters of each row's request."""
        return tuple(request.params for request in self.rows)

    @property
    def model(self) -> ModelConfig:
        """The model of all requests; its end-of-sequence tokens are likely in the audited row."""
        row = self.logits[self.index]
        return audit_model(row.size, row)


def plain_batch(logits: NDArray[np.float32], params: Iterable[SamplingParams], index: int) -> Batch:
    """Requests without prompt, output or past, one for each row of ``logits``."""
    return Batch(logits, tuple(Request(own) for own in params), index)


def without_stages(batch: Batch, stages: Collection[str]) -> Batch:
    """The batch whose requests, present and gone, do not ask for these stages."""
    if not stages:
        return batch
    requests, leavers = (
        tuple(switched_off(request, stages) for request in group)
        for group in (batch.requests, batch.leavers)
    )
    return replace(batch, requests=requests, leavers=leavers)


def build_batch(cell: Cell) -> Batch:
    """The cell's row in the middle of its pattern's mates, the same at every call.

    Mates are finite dense rows that differ from each other (where the vocabulary is large enough),
    but for the first one of a poisoned pattern.

    Raises:
        ValueError: an unknown row, a vocabulary out of the row's range, or an unknown pattern.
    """
    if cell.batch not in PATTERNS:
        raise ValueError(f"unknown batch {cell.batch!r}; known: {', '.join(PATTERNS)}")
    pattern = PATTERNS[cell.batch]
    row = load_row(cell.row).logits
    place = pattern.n_mates // 2
    n_drafts = [pattern.n_drafts if i == place else i % 2 for i in range(pattern.n_mates + 1)]
    n_drafts = n_drafts if pattern.n_drafts else [0] * len(n_drafts)
    first = sum(n_drafts[:place]) + place
    buffer = np.full((sum(n_drafts) + len(n_drafts), row.size + pattern.pad), PADDING, np.float32)
    logits = buffer[:, : row.size]
    _fill_with_mates(logits)
    if pattern.poisoned:
        logits[0] = np.nan
    logits[first : first + pattern.n_drafts + 1] = row
    starts = np.cumsum([0, *(n + 1 for n in n_drafts)])
    listed = bool(pattern.past or pattern.n_drafts)
    requests = [
        _prepared(build_request(logits[starts[i]], params, stages), i if listed else 0, n_drafts[i])
        for i, (params, stages) in enumerate(_asked(cell, pattern))
    ]
    return Batch(
        logits,
        tuple(requests),
        first + pattern.after_drafts,
        _leavers(row, pattern),
        pattern.past,
        tuple(_drafts(logits[starts[i]], n, new=bool(cell.stages)) for i, n in enumerate(n_drafts))
        if pattern.n_drafts
        else (),
        _draft_logits(row, pattern.n_drafts) if pattern.drawn_drafts else None,
    )


def _prepared(request: Request, i: int, n_drafts: int) -> Request:
    """The request, which lists nothing, few or all tokens, or chosen ones: by its number.

    With drafts a budget of thinking is spent by the first of them.
    """
    params = request.params
    if n_drafts and params.thinking_token_budget is not None:
        params = replace(params, thinking_token_budget=params.thinking_token_budget + 1)
    chosen = tuple(dict.fromkeys(request.token_ids))[:4]
    settings: tuple[dict[str, Any], ...] = (
        {},
        {"logprobs": 3},
        {"logprobs": 5},
        {"logprob_token_ids": chosen},
        {"logprobs": -1},
    )
    return replace(request, params=replace(params, **settings[i % len(settings)]))


def _drafts(row: NDArray[np.float32], n: int, *, new: bool) -> tuple[int, ...]:
    """Up to two likely tokens as drafts, which are now accepted and now not.

    ``new`` ones are neither in the prompt nor in the output that stages.py gives a request, so that
    a stage that does not see the drafts before a row shows.
    """
    order = np.argsort(-row, kind="stable")
    ranks = (6, 10) if new else (1, 2)
    return tuple(int(order[min(rank, order.size - 1)]) for rank in ranks[:n])


def _draft_logits(row: NDArray[np.float32], n: int) -> NDArray[np.float32]:
    """The row as a smaller model sees it: some of the likely tokens too likely, others too little.

    Where draft and target rate two tokens very differently, a wrong residual shows most.
    """
    order = np.argsort(-row, kind="stable")
    drafts = np.repeat(row[None], n, axis=0)
    drafts[:, order[::3]] += 1.5
    drafts[:, order[1::3]] -= 1.0
    return drafts


def _fill_with_mates(logits: NDArray[np.float32]) -> None:
    n_rows, vocab_size = len(logits), len(logits[0])
    dense = (2 * np.random.default_rng(20260101).standard_normal(vocab_size)).astype(np.float32)
    step = max(1, vocab_size // n_rows)
    for i in range(n_rows):
        logits[i] = np.roll(dense, i * step)


def _asked(cell: Cell, pattern: Pattern) -> list[tuple[SamplingParams, tuple[str, ...]]]:
    """Parameters and stages of every row."""
    own = cell.params, cell.stages
    asked = [own] * pattern.n_mates
    if pattern.mates == "mixed":
        stages = MIXED_STAGES if cell.stages or pattern.past else ((),)
        asked = list(islice(zip(cycle(MIXED_PARAMS), cycle(stages)), pattern.n_mates))
    asked.insert(pattern.n_mates // 2, own)
    return asked


def _leavers(row: NDArray[np.float32], pattern: Pattern) -> tuple[Request, ...]:
    """Every stage on, about the row's likely tokens, each of them one rank further down.

    What they leave behind changes the row's law even where the row has the same stages on.
    """
    return tuple(
        build_request(row, MIXED_PARAMS[i + 1], STAGES, best_rank=1)
        for i in range(pattern.n_leavers)
    )
