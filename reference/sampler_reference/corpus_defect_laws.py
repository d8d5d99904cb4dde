"""What the corpus's planted defects make of a law or a row: the reference with one thing changed.

Knows neither entries nor names.
"""

from dataclasses import replace

import numpy as np

from sampler_reference.conventions import Conventions, effective_temperature
from sampler_reference.defect_laws import Law, Logits, Probs, right_law
from sampler_reference.distribution import kept_ids, probs_of, scaled
from sampler_reference.processors import Processor
from sampler_scenarios.params import SamplingParams
from sampler_scenarios.requests import ModelConfig, Request

_RESOLUTION = 2.0**-24
"""Half of float32's step below 1: a sum near 1 does not notice less."""

_TINY = 1e-3
_MASK_WORD = 32
_LARGEST_HALF = float(np.finfo(np.float16).max)


def without_tiny(logits: Logits, params: SamplingParams, conventions: Conventions) -> Probs:
    """The right law without tokens that float32 cannot tell from none beside a mass of 1."""
    probs = right_law(logits, params, conventions)
    probs[probs < _RESOLUTION] = 0
    return probs / probs.sum() if probs.any() else probs


def one_more_at_top_p(logits: Logits, params: SamplingParams, conventions: Conventions) -> Probs:
    """The nucleus and the next candidate after it."""
    n = kept_ids(logits, params, conventions).size
    ids = _candidates(logits, params, conventions)[: n + 1]
    if params.top_p == 1:
        return right_law(logits, params, conventions)
    return probs_of(logits, ids, effective_temperature(params.temperature, conventions))


def nothing_at_tiny_top_p(
    logits: Logits, params: SamplingParams, conventions: Conventions
) -> Probs:
    """No token at all where top_p is tiny."""
    right = right_law(logits, params, conventions)
    return right if params.top_p >= _TINY else np.zeros_like(right)


def top_p_unnormalised(logits: Logits, params: SamplingParams, conventions: Conventions) -> Probs:
    """Of the survivors of top_k, those at which the mass from the weakest up exceeds 1 - top_p.

    The masses are those of the row before top_k.
    """
    if params.top_k <= 0 or params.top_p == 1:
        return right_law(logits, params, conventions)
    before = right_law(logits, replace(params, top_k=-1, top_p=1.0), conventions)
    ids = _candidates(logits, params, conventions)
    from_below = np.cumsum(before[ids][::-1])[::-1]
    ids = ids[from_below > 1 - params.top_p]
    return probs_of(logits, ids, effective_temperature(params.temperature, conventions))


def widened_by_listing(logits: Logits, params: SamplingParams, conventions: Conventions) -> Probs:
    """At least as many candidates as the request lists."""
    ids = kept_ids(logits, params, conventions)
    if ids.size < (params.logprobs or 0):
        unfiltered = SamplingParams(temperature=params.temperature)
        ids = kept_ids(logits, unfiltered, conventions)[: params.logprobs]
    return probs_of(logits, ids, effective_temperature(params.temperature, conventions))


def first_tries_then_argmax(n_tries: int) -> Law:
    """Rejection sampling from the unfiltered row that gives up after ``n_tries``."""

    def law(logits: Logits, params: SamplingParams, conventions: Conventions) -> Probs:
        right = right_law(logits, params, conventions)
        unfiltered = SamplingParams(temperature=params.temperature)
        accepted = float(right_law(logits, unfiltered, conventions)[right > 0].sum())
        if not right.any():
            return right
        missed = max(0.0, 1 - accepted) ** n_tries
        best = np.zeros_like(right)
        best[right.argmax()] = 1
        return (1 - missed) * right + missed * best

    return law


def last_for_first(logits: Logits, params: SamplingParams, conventions: Conventions) -> Probs:
    """The last candidate in place of a nucleus of one."""
    ids = kept_ids(logits, params, conventions)
    if params.top_p < 1 and ids.size == 1:
        ids = _candidates(logits, params, conventions)[-1:]
    return probs_of(logits, ids, effective_temperature(params.temperature, conventions))


def nothing_where_half_overflows(
    logits: Logits, params: SamplingParams, conventions: Conventions
) -> Probs:
    """No token at all where a finite logit over the temperature has no 16-bit float."""
    right = right_law(logits, params, conventions)
    z = scaled(logits, effective_temperature(params.temperature, conventions))
    if params.temperature == 1 or not (z[np.isfinite(logits)] > _LARGEST_HALF).any():
        return right
    return np.zeros_like(right)


def mask_too_short(right: Processor) -> Processor:
    """A mask of whole words of 32 tokens that lacks the last one."""

    def masked(x: Logits, request: Request, model: ModelConfig, own: Conventions) -> Logits:
        done = right(x, request, model, own).copy()
        end = (x.size - 1) // _MASK_WORD * _MASK_WORD
        done[end:] = x[end:]
        return done

    return masked


def _candidates(
    logits: Logits, params: SamplingParams, conventions: Conventions
) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """What the other filters leave without top_p, best first."""
    return kept_ids(logits, replace(params, top_p=1.0), conventions)
