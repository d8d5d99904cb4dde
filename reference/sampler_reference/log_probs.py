"""Log-probabilities of a row: which tokens a reply lists, with which value and rank.

float64 throughout; a listing depends on its own row and request alone. Knows no batch.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sampler_reference.conventions import Conventions, effective_temperature
from sampler_reference.distribution import kept_ids, scaled
from sampler_reference.processors import grammar, process
from sampler_scenarios.requests import ModelConfig, Request

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Logits = NDArray[np.float32]

MODES = ("raw_logprobs", "raw_logits", "processed_logprobs", "processed_logits")
"""Raw: the model's row after the grammar. Processed: after every stage and filter. Log-probs of
either are normalised over its own unmasked tokens."""


@dataclass(frozen=True, eq=False)
class Listing:
    """The tokens that a reply lists at one position, ``[n]``; ids are distinct.

    Attributes:
        token_ids: int64; the sampled token first.
        values: float64 log-probs or logits; -inf where masked.
        ranks: int64, see ``ranks_of``.
    """

    token_ids: Int
    values: Float
    ranks: Int


def log_softmax(logits: Float) -> Float:
    """``x - ln sum(exp(x))`` along the last axis; a row without any token stays -inf.

    A NaN or +inf in a row makes all of it NaN.
    """
    largest = logits.max(axis=-1, keepdims=True)
    nothing = np.isneginf(largest)
    with np.errstate(invalid="ignore", divide="ignore"):
        shifted = logits - np.where(nothing, 0, largest)
        log_sum = np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return shifted - np.where(nothing, 0, log_sum)


def ranks_of(values: Float, token_ids: Int) -> Int:
    """How many values of the row ``[V]`` are at least the token's: 1 is best.

    Of tied tokens each gets the worst of their ranks (vllm 0.32.0,
    v1/worker/gpu/sample/logprob.py).
    """
    ascending = np.sort(values[~np.isnan(values)])
    return ascending.size - np.searchsorted(ascending, values[token_ids], side="left")


def top_ids(values: Float, n: int) -> Int:
    """The ``n`` largest by value, ties by the lowest id; -1, and more than there are, is all."""
    order = np.argsort(-values, kind="stable")
    return order if n < 0 else order[:n]


def list_tokens(
    values: Float, sampled: int, n: int, chosen: tuple[int, ...] | None = None
) -> Listing:
    """The sampled token, then the ``n`` likeliest others of the top n, or the ``chosen`` ids.

    Best first, or in the order of ``chosen``; the sampled token is not listed a second time, so a
    list of the top n holds n tokens where the sampled one is among them, and n + 1 otherwise.
    """
    others = top_ids(values, n).tolist() if chosen is None else chosen
    ids = np.array(list(dict.fromkeys((sampled, *others))), dtype=np.int64)
    return Listing(token_ids=ids, values=values[ids], ranks=ranks_of(values, ids))


def values_of(
    logits: Logits, request: Request, model: ModelConfig, conventions: Conventions, mode: str
) -> Float:
    """What ``mode`` reports of every token of a row, float64 ``[V]``.

    A greedy request has no temperature and no filters: its processed row is what the argmax is
    taken of.

    Raises:
        ValueError: unknown mode.
    """
    kind, scale = _split(mode)
    if kind == "raw":
        row = grammar(logits.astype(np.float32), request, model, conventions)
    else:
        row = _processed(logits, request, model, conventions)
    values = row.astype(np.float64)
    return log_softmax(values) if scale == "logprobs" else values


def prompt_listings(
    logits: Logits, prompt_token_ids: tuple[int, ...], n: int, mode: str
) -> list[Listing]:
    """One listing for every prompt token but the first, from rows ``[n_prompt - 1 or more, V]``.

    Row i scores token i + 1. Prompts are neither scaled nor filtered: of a processed mode only
    the scale counts.

    Raises:
        ValueError: unknown mode, or fewer rows than tokens to score.
    """
    _, scale = _split(mode)
    scored = prompt_token_ids[1:]
    if len(logits) < len(scored):
        raise ValueError(f"logits must have at least {len(scored)} rows, got {len(logits)}")
    values = logits[: len(scored)].astype(np.float64)
    values = log_softmax(values) if scale == "logprobs" else values
    return [list_tokens(row, token, n) for row, token in zip(values, scored, strict=True)]


def _processed(
    logits: Logits, request: Request, model: ModelConfig, conventions: Conventions
) -> Logits:
    """The row after every stage, divided by the temperature, -inf where it was filtered out."""
    row = process(logits, request, model, conventions)
    temperature = effective_temperature(request.params.temperature, conventions)
    if temperature == 0:
        return row
    kept = kept_ids(row, request.params, conventions)
    masked = np.full_like(row, -np.inf)
    masked[kept] = scaled(row, temperature)[kept]
    return masked


def _split(mode: str) -> tuple[str, str]:
    if mode not in MODES:
        raise ValueError(f"unknown mode of log-probs {mode!r}; known: {', '.join(MODES)}")
    kind, _, scale = mode.partition("_")
    return kind, scale
