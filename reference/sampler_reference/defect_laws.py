"""The laws that planted defects yield, each the reference with one thing changed.

A law takes ``(logits float32 [V], params, conventions)`` and gives ``probs`` float64 ``[V]``. It
mutates the parameters, the conventions or the kept set; no stage is written a second time.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sampler_reference import filters
from sampler_reference.conventions import Conventions, effective_temperature
from sampler_reference.distribution import kept_ids, n_kept, probs_of, scaled, sort_row
from sampler_reference.filters import Slack
from sampler_scenarios.params import SamplingParams

Logits = NDArray[np.float32]
Probs = NDArray[np.float64]
Law = Callable[[Logits, SamplingParams, Conventions], Probs]


def right_law(logits: Logits, params: SamplingParams, conventions: Conventions) -> Probs:
    """The law without a defect, float64 ``[V]``."""
    ids = kept_ids(logits, params, conventions)
    return probs_of(logits, ids, effective_temperature(params.temperature, conventions))


def with_kept(choose: Callable[[NDArray[np.int64]], NDArray[np.int64]]) -> Law:
    """The law of a sampler that keeps only ``choose(kept ids, best first)``."""

    def law(logits: Logits, params: SamplingParams, conventions: Conventions) -> Probs:
        ids = choose(kept_ids(logits, params, conventions))
        return probs_of(logits, ids, effective_temperature(params.temperature, conventions))

    return law


def with_params(change: Callable[[SamplingParams], SamplingParams]) -> Law:
    """The law of a sampler that reads other parameters than it was given."""
    return lambda logits, params, conventions: right_law(logits, change(params), conventions)


def with_conventions(change: Callable[[Conventions], Conventions]) -> Law:
    """The law of a sampler that follows other conventions than it declares."""
    return lambda logits, params, conventions: right_law(logits, params, change(conventions))


def swapped(conventions: Conventions) -> Conventions:
    """top_k and top_p in each other's place, one after the other.

    A top_p that acts before top_k judges the row that a joint filter judges, so of conventions
    that put top_k first this yields the law of ``joint`` as well.
    """
    other = {"top_k": "top_p", "top_p": "top_k"}
    order = tuple(other.get(name, name) for name in conventions.order)
    return replace(conventions, order=order, joint=False)


def moved(name: str, to: int) -> Callable[[Conventions], Conventions]:
    """Conventions with one filter moved to position ``to`` of the order."""

    def change(conventions: Conventions) -> Conventions:
        order = [other for other in conventions.order if other != name]
        order.insert(to, name)
        return replace(conventions, order=tuple(order))

    return change


def resized_top_k(by: int) -> Law:
    """The law with a top_k that is off by ``by``; at least one token stays, and off stays off."""
    return with_params(
        lambda params: (
            replace(params, top_k=max(1, params.top_k + by)) if params.top_k > 0 else params
        )
    )


def temperature_twice(logits: Logits, params: SamplingParams, conventions: Conventions) -> Probs:
    """The right law of a row that has been divided by the temperature already."""
    once = scaled(logits, effective_temperature(params.temperature, conventions))
    return right_law(once, params, conventions)


def min_p_absolute(logits: Logits, params: SamplingParams, conventions: Conventions) -> Probs:
    """min_p compared with the probability itself: the ratio it amounts to is min_p / max(probs)."""
    if params.min_p == 0:
        return right_law(logits, params, conventions)
    largest = right_law(logits, SamplingParams(temperature=params.temperature), conventions).max()
    ratio = min(1.0, params.min_p / largest) if largest else params.min_p
    return right_law(logits, replace(params, min_p=ratio), conventions)


def min_p_from_first_id(logits: Logits, params: SamplingParams, conventions: Conventions) -> Probs:
    """min_p measured from id 0: a ratio to the largest that is smaller by what id 0 is below it."""
    z = scaled(logits, effective_temperature(params.temperature, conventions)).astype(np.float64)
    below = float(np.exp(z[0] - z.max())) if z.max() > -np.inf else 1.0
    return right_law(logits, replace(params, min_p=params.min_p * below), conventions)


def ties_by_chance(logits: Logits, params: SamplingParams, conventions: Conventions) -> Probs:
    """Each call keeps other members of the tied group at the edge: on average an equal share."""
    row = sort_row(logits, params, conventions)
    n = n_kept(row, params, conventions, Slack())
    probs = probs_of(logits, row.ids[:n], row.temperature)
    if n:
        first, last = filters.tied_with(row.values, n)
        group = row.ids[first:last]
        probs[group] = probs[group].mean()
    return probs
