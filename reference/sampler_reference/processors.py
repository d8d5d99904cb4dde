"""The stages before the filters, each a function of a row and its request; float32 as engines do.

Knows neither batches nor slots. Every value is rounded once per elementary operation. A logit that
no stage names passes unchanged, NaN and infinities included; token ids outside the vocabulary are
ignored. A draft token counts as emitted: ask for the row after it with ``Request.extended``.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from sampler_reference.conventions import Conventions, Scope
from sampler_scenarios.requests import ModelConfig, Request

Logits = NDArray[np.float32]
Processor = Callable[[Logits, Request, ModelConfig, Conventions], Logits]

FORCED = np.float32(1e9)
"""Logit of the token that a spent thinking budget forces."""


def grammar(x: Logits, request: Request, _: ModelConfig, __: Conventions) -> Logits:
    """Tokens that the grammar does not allow next become -inf."""
    return x if request.grammar is None else np.where(request.grammar, x, -np.float32(np.inf))


def allowed_token_ids(x: Logits, request: Request, _: ModelConfig, __: Conventions) -> Logits:
    """All tokens but the listed ones become -inf; None restricts nothing."""
    listed = request.params.allowed_token_ids
    if listed is None:
        return x
    ids = _ids(listed, x.size)
    alone = np.full_like(x, -np.inf)
    alone[ids] = x[ids]
    return alone


def logit_bias(x: Logits, request: Request, _: ModelConfig, __: Conventions) -> Logits:
    """``x + b`` for every listed token, so that -inf stays -inf."""
    biased = x.copy()
    for token, bias in request.params.logit_bias.items():
        biased[_ids([token], x.size)] += np.float32(bias)
    return biased


def min_tokens(x: Logits, request: Request, model: ModelConfig, _: Conventions) -> Logits:
    """Stop tokens become -inf while the output is shorter than min_tokens.

    Stop tokens are stop_token_ids and every end-of-sequence token of the model, whether or not
    ignore_eos is set. Where a grammar leaves nothing else, the finite ones among them come back
    (vllm 0.32.0, v1/worker/gpu/sample/logit_bias.py).
    """
    if len(request.output_token_ids) >= request.params.min_tokens:
        return x
    masked = x.copy()
    masked[_ids((*request.params.stop_token_ids, *model.eos_token_ids), x.size)] = -np.inf
    if request.grammar is not None and np.isneginf(masked).all():
        return np.where(np.isfinite(x), x, masked)
    return masked


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def repetition_penalty(
    x: Logits, request: Request, _: ModelConfig, conventions: Conventions
) -> Logits:
    """``x / r`` where x > 0, else ``x * r``, for tokens in the scope (Keskar et al. 2019).

    The sign rule is that of transformers, vLLM and llama.cpp; ``repetition_rule`` and
    ``reciprocal`` of the conventions change the formula.
    """
    r = np.float32(request.params.repetition_penalty)
    divided = x * (np.float32(1) / r) if conventions.reciprocal else x / r
    if conventions.repetition_rule == "by_sign":
        divided = np.where(x > 0, divided, x * r)
    seen = _counts(request, conventions, conventions.repetition_scope, x.size) > 0
    return np.where(seen, divided, x)


def frequency_penalty(
    x: Logits, request: Request, _: ModelConfig, conventions: Conventions
) -> Logits:
    """``x - f * count``, as OpenAI's API defines it; the product is rounded first."""
    counts = _counts(request, conventions, conventions.count_scope, x.size)
    return x - np.float32(request.params.frequency_penalty) * counts.astype(np.float32)


def presence_penalty(
    x: Logits, request: Request, _: ModelConfig, conventions: Conventions
) -> Logits:
    """``x - p`` for every token that is there at all, as OpenAI's API defines it."""
    present = _counts(request, conventions, conventions.count_scope, x.size) > 0
    return x - np.float32(request.params.presence_penalty) * present.astype(np.float32)


def bad_words(x: Logits, request: Request, _: ModelConfig, conventions: Conventions) -> Logits:
    """The last token of a word whose other tokens the history ends with becomes -inf.

    A word of one token always does; one with more other tokens than there is history never does.
    """
    history = _history(request, conventions.bad_words_scope)
    banned = [word[-1] for word in request.params.bad_words if _ends_with(history, word[:-1])]
    masked = x.copy()
    masked[_ids(banned, x.size)] = -np.inf
    return masked


@np.errstate(over="ignore", invalid="ignore")
def dry(x: Logits, request: Request, _: ModelConfig, __: Conventions) -> Logits:
    """``x - multiplier * base ** (n - allowed_length)`` for what would prolong a repetition.

    n is the length of the repetition, see ``repeat_lengths``, and at least ``dry_allowed_length``.
    The penalty is computed in float64 and rounded once (p-e-w, "Don't repeat yourself",
    oobabooga/text-generation-webui#5677). extra_args: ``dry_multiplier`` (0 is off), ``dry_base``
    1.75, ``dry_allowed_length`` 2, ``dry_sequence_breakers``, token ids.
    """
    args = request.params.extra_args
    multiplier = _number(args, "dry_multiplier", 0.0)
    if multiplier == 0:
        return x
    base, allowed = _number(args, "dry_base", 1.75), _number(args, "dry_allowed_length", 2)
    penalised = x.copy()
    for token, n in repeat_lengths(request.token_ids, _breakers(args)).items():
        if n >= allowed:
            penalty = np.float32(multiplier * np.float64(base) ** (n - allowed))
            penalised[_ids([token], x.size)] -= penalty
    return penalised


def repeat_lengths(token_ids: Sequence[int], breakers: frozenset[int]) -> dict[int, int]:
    """For each token, the longest end of ``token_ids`` that stood right before it earlier.

    The two occurrences may overlap. No breaker is part of a repetition, nor prolongs one.
    """
    longest: dict[int, int] = {}
    for at, token in enumerate(token_ids[1:], start=1):
        if n := _common_end(token_ids[:at], token_ids, breakers) if token not in breakers else 0:
            longest[token] = max(n, longest.get(token, 0))
    return longest


def thinking_budget(x: Logits, request: Request, model: ModelConfig, _: Conventions) -> Logits:
    """The next token of reasoning_end gets a logit of 1e9 once the budget is spent; no other moves.

    Reasoning is open where the last start marker stands after the last end marker, both by their
    first token. What follows the start marker counts against the budget, in the prompt too. Where
    the history ends with the first tokens of the end marker, the one after the most of them is
    forced (vllm 0.32.0, v1/worker/gpu/sample/thinking_budget.py).
    """
    start, end = model.reasoning_start, model.reasoning_end
    budget = request.params.thinking_token_budget
    if budget is None or not start or not end:
        return x
    opened, closed = _last_at(request.token_ids, start), _last_at(request.token_ids, end)
    if opened <= closed or len(request.token_ids) - (opened + len(start)) < budget:
        return x
    begun = max(n for n in range(len(end)) if _ends_with(request.token_ids, end[:n]))
    forced = x.copy()
    forced[_ids([end[begun]], x.size)] = FORCED
    return forced


PROCESSORS: Mapping[str, Processor] = {
    "grammar": grammar,
    "allowed_token_ids": allowed_token_ids,
    "logit_bias": logit_bias,
    "min_tokens": min_tokens,
    "repetition_penalty": repetition_penalty,
    "frequency_penalty": frequency_penalty,
    "presence_penalty": presence_penalty,
    "bad_words": bad_words,
    "processor": dry,
    "thinking_budget": thinking_budget,
}
"""Every stage by name."""


def process(
    logits: Logits,
    request: Request,
    model: ModelConfig,
    conventions: Conventions,
    processors: Mapping[str, Processor] = PROCESSORS,
) -> Logits:
    """The row ``[V]`` that reaches the filters: every stage of the conventions, in their order."""
    x = logits.astype(np.float32)
    for stage in conventions.processing:
        x = processors[stage](x, request, model, conventions)
    return x


def _ids(token_ids: Iterable[int], vocab_size: int) -> NDArray[np.int64]:
    """Those that the vocabulary has."""
    return np.array([token for token in token_ids if 0 <= token < vocab_size], dtype=np.int64)


def _history(request: Request, scope: Scope) -> tuple[int, ...]:
    return request.output_token_ids if scope == "output" else request.token_ids


def _counts(
    request: Request, conventions: Conventions, scope: Scope, vocab_size: int
) -> NDArray[np.int64]:
    """How often the scope holds each token, within the window of the conventions."""
    history = _history(request, scope)[-conventions.penalty_window :]
    return np.bincount(_ids(history, vocab_size), minlength=vocab_size)


def _ends_with(history: Sequence[int], tokens: Sequence[int]) -> bool:
    return [*history[max(0, len(history) - len(tokens)) :]] == [*tokens]


def _last_at(history: Sequence[int], tokens: Sequence[int]) -> int:
    """Where the last occurrence of ``tokens`` begins, -1 where there is none."""
    found = (i for i in range(len(history), -1, -1) if history[i : i + len(tokens)] == tokens)
    return next(found, -1)


def _common_end(a: Sequence[int], b: Sequence[int], breakers: frozenset[int]) -> int:
    """How many tokens ``a`` and ``b`` end with alike, up to the first breaker."""
    n = 0
    for left, right in zip(reversed(a), reversed(b), strict=False):
        if left != right or left in breakers:
            break
        n += 1
    return n


def _number(args: Mapping[str, object], name: str, default: float) -> float:
    value = args.get(name, default)
    if not isinstance(value, int | float):
        raise ValueError(f"{name} must be a number, got {value!r}")
    return value


def _breakers(args: Mapping[str, object]) -> frozenset[int]:
    given = args.get("dry_sequence_breakers", ())
    if not isinstance(given, list | tuple) or not all(isinstance(token, int) for token in given):
        raise ValueError(f"dry_sequence_breakers must be token ids, got {given!r}")
    return frozenset(given)
