"""Stages: what each asks of a row, so that it decides something among the likely tokens. Data only.

The same row, parameters and stages give the same request. Everything is said by rank: token 0 of
``_by_rank`` is the likeliest. Masks of different stages hit different ranks, so that of two stages
neither hides the other, and a row with three finite logits is left with one by any two of them.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler_scenarios.params import STAGES, SamplingParams
from sampler_scenarios.requests import ModelConfig, Request

Logits = NDArray[np.float32]

N_LISTED = 41
"""Allowed tokens are among so many likeliest."""


@dataclass(frozen=True, eq=False)
class _Row:
    """Token ids ``[V]`` by rank, and the likeliest one of negative logit, else the last."""

    by_rank: NDArray[np.int64]
    negative: int

    def at(self, *ranks: int) -> tuple[int, ...]:
        """The tokens of these ranks; beyond the vocabulary the last."""
        return tuple(int(self.by_rank[min(rank, self.by_rank.size - 1)]) for rank in ranks)


def audit_model(vocab_size: int, logits: Logits | None = None) -> ModelConfig:
    """A model with two end-of-sequence tokens and markers of reasoning of two tokens each.

    With a row ``[vocab_size]`` the end-of-sequence tokens are likely in it; without one, as the
    markers always, they are where the vocabulary size puts them.
    """
    eos = (vocab_size // 5, 2 * vocab_size // 5) if logits is None else _row(logits).at(4, 8)
    return ModelConfig(
        vocab_size=vocab_size,
        eos_token_ids=tuple(dict.fromkeys(eos)),
        reasoning_start=_marker(vocab_size // 2, vocab_size),
        reasoning_end=_marker(vocab_size // 3, vocab_size),
    )


def build_request(
    logits: Logits, params: SamplingParams, stages: Iterable[str], *, best_rank: int = 0
) -> Request:
    """A request for the row ``[V]`` with the filters of ``params`` and these stages on.

    It has a prompt and seven tokens of output whatever is on, so that histories are never empty
    where a stage that is off must not read them. All of it is about tokens of ``best_rank`` and
    below.

    Raises:
        ValueError: an unknown stage.
    """
    on = set(stages)
    if unknown := sorted(on - set(STAGES)):
        raise ValueError(f"unknown stage {unknown[0]!r}; known: {', '.join(STAGES)}")
    row = _row(logits, best_rank)
    # Reasoning is open in every request, so that a budget that somebody else left would act.
    opened = audit_model(row.by_rank.size).reasoning_start
    request = Request(params, (*opened, *_prompt(row)), row.at(0, 3, 1, 6, 1, 1, 2))
    # thinking_budget comes last in STAGES, and is first here: bad_words looks at the prompt's end.
    for stage in reversed(STAGES):
        if stage in on:
            request = _SWITCH_ON[stage](request, row)
    return request


def _prompt(row: _Row) -> tuple[int, ...]:
    """Some tokens that the output lacks, one of them twice, and the end of the output.

    The output ends with ranks 6 1 1 2; here rank 5 follows them. Only the output has ranks 0 and 3.
    """
    return (*row.at(7, 5, 6, 1, 1, 2, 5), row.negative)


def _grammar(request: Request, row: _Row) -> Request:
    """Half of the vocabulary: two ranks allowed, two not, in turn."""
    allowed = np.empty(row.by_rank.size, dtype=np.bool_)
    allowed[row.by_rank] = np.arange(row.by_rank.size) // 2 % 2 == 0
    return replace(request, grammar=allowed)


def _allowed_token_ids(request: Request, row: _Row) -> Request:
    """Not the best, not the fourth, and no unlikely token."""
    listed = row.at(*(rank for rank in range(N_LISTED) if rank not in (0, 3)))
    return _with(request, replace(request.params, allowed_token_ids=tuple(dict.fromkeys(listed))))


def _logit_bias(request: Request, row: _Row) -> Request:
    """The second overtakes the best, and a token from far down comes near."""
    best, second, later = row.at(0, 1, 12)
    bias = {later: 2.1, best: -0.7, second: 1.3}
    return _with(request, replace(request.params, logit_bias=bias))


def _min_tokens(request: Request, row: _Row) -> Request:
    """One token more than the output has; a stop token of the request's own is likely too."""
    least = len(request.output_token_ids) + 1
    return _with(request, replace(request.params, min_tokens=least, stop_token_ids=row.at(13)))


def _repetition_penalty(request: Request, _: _Row) -> Request:
    return _with(request, replace(request.params, repetition_penalty=1.3))


def _frequency_penalty(request: Request, _: _Row) -> Request:
    return _with(request, replace(request.params, frequency_penalty=0.3))


def _presence_penalty(request: Request, _: _Row) -> Request:
    return _with(request, replace(request.params, presence_penalty=0.7))


def _bad_words(request: Request, row: _Row) -> Request:
    """Ranks 1 and 9 are banned; rank 0 is not, though two words end with it.

    The first of those begins with an older token of the output, the other in the prompt.
    """
    best, second, seventh, tenth = row.at(0, 1, 6, 9)
    output = request.output_token_ids
    words = (
        (output[-1], second),
        (tenth,),
        (seventh, best),
        (request.prompt_token_ids[-1], *output, best),
    )
    return _with(request, replace(request.params, bad_words=words))


def _processor(request: Request, row: _Row) -> Request:
    """DRY: the output's last three tokens came before in the prompt; a breaker ends the match."""
    args = {
        "dry_multiplier": 0.8,
        "dry_base": 1.75,
        "dry_allowed_length": 2,
        "dry_sequence_breakers": row.at(6),
    }
    return _with(request, replace(request.params, extra_args=args))


def _thinking_budget(request: Request, row: _Row) -> Request:
    """Reasoning opens at the end of the prompt, and the output has just spent the budget."""
    start = audit_model(row.by_rank.size).reasoning_start
    opened = replace(request, prompt_token_ids=(*request.prompt_token_ids, *start))
    budget = len(request.output_token_ids)
    return _with(opened, replace(request.params, thinking_token_budget=budget))


_SWITCH_ON: Mapping[str, Callable[[Request, _Row], Request]] = {
    "grammar": _grammar,
    "allowed_token_ids": _allowed_token_ids,
    "logit_bias": _logit_bias,
    "min_tokens": _min_tokens,
    "repetition_penalty": _repetition_penalty,
    "frequency_penalty": _frequency_penalty,
    "presence_penalty": _presence_penalty,
    "bad_words": _bad_words,
    "processor": _processor,
    "thinking_budget": _thinking_budget,
}


_OFF: Mapping[str, Mapping[str, Any]] = {
    "allowed_token_ids": {"allowed_token_ids": None},
    "logit_bias": {"logit_bias": {}},
    "min_tokens": {"min_tokens": 0},
    "repetition_penalty": {"repetition_penalty": 1.0},
    "frequency_penalty": {"frequency_penalty": 0.0},
    "presence_penalty": {"presence_penalty": 0.0},
    "bad_words": {"bad_words": ()},
    "processor": {"extra_args": {}},
    "thinking_budget": {"thinking_token_budget": None},
}


def switched_off(request: Request, stages: Iterable[str]) -> Request:
    """The request with these stages off; its history stays."""
    for stage in stages:
        if stage == "grammar":
            request = replace(request, grammar=None)
        else:
            request = _with(request, replace(request.params, **_OFF[stage]))
    return request


def _with(request: Request, params: SamplingParams) -> Request:
    return replace(request, params=params)


def _row(logits: Logits, best_rank: int = 0) -> _Row:
    """NaN ranks behind -inf, ties by the lower id; ranks above ``best_rank`` go to the end."""
    by_rank = np.roll(np.argsort(-logits, kind="stable"), -best_rank)
    below = np.flatnonzero((logits[by_rank] < 0) & (logits[by_rank] > -np.inf))
    return _Row(by_rank, int(by_rank[below[0] if below.size else -1]))


def _marker(first: int, vocab_size: int) -> tuple[int, int]:
    return first, (first + 1) % vocab_size
