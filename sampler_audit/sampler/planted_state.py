"""Planted defects of the state: the requests that a sampler sees which mixes them up.

Each is ``(batch, acting) -> batch``, ``acting`` telling for every row whether the defect acts.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from sampler_scenarios.batches import Batch
from sampler_scenarios.requests import Request

Misled = Callable[[Batch, tuple[bool, ...]], Batch]


def _stale_slot(batch: Batch, acting: tuple[bool, ...]) -> Batch:
    """The audited request keeps of the slot's last holder whatever it does not ask for itself."""
    i = batch.index
    if not batch.leavers or batch.drafts or not acting[i]:
        return batch
    own, left = batch.requests[i], batch.leavers[0]
    params = replace(
        own.params,
        logit_bias=own.params.logit_bias or left.params.logit_bias,
        allowed_token_ids=own.params.allowed_token_ids or left.params.allowed_token_ids,
        bad_words=own.params.bad_words or left.params.bad_words,
    )
    return _with(batch, {i: replace(own, params=params)})


def _swap_copies_both(batch: Batch, acting: tuple[bool, ...]) -> Batch:
    """The audited request has become the one that it last changed places with."""
    i = batch.index
    before = batch.past[-1] if batch.past else ()
    if len(before) != len(batch.requests) or not acting[i]:
        return batch
    # Where a request that has left stood there, nobody changed places with it.
    other = before[i] if before[i] < len(batch.requests) else i
    return _with(batch, {i: batch.requests[other]})


def _bias_lost(batch: Batch, acting: tuple[bool, ...]) -> Batch:
    """Nobody's bias acts where somebody has none."""
    if batch.drafts or all(request.params.logit_bias for request in batch.requests):
        return batch
    return _with(
        batch,
        {
            i: replace(own, params=replace(own.params, logit_bias={}))
            for i, own in enumerate(batch.requests)
            if acting[i]
        },
    )


def _grammar_shifted(batch: Batch, acting: tuple[bool, ...]) -> Batch:
    """Each has the grammar of the request after it."""
    if batch.drafts:
        return batch
    following = (*batch.requests[1:], batch.requests[0])
    return _with(
        batch,
        {
            i: replace(own, grammar=following[i].grammar)
            for i, own in enumerate(batch.requests)
            if acting[i]
        },
    )


def _penalties_of_first(batch: Batch, acting: tuple[bool, ...]) -> Batch:
    """Each is penalised as the first one asks."""
    first = batch.requests[0].params
    if batch.drafts:
        return batch
    return _with(
        batch,
        {
            i: replace(
                own,
                params=replace(
                    own.params,
                    repetition_penalty=first.repetition_penalty,
                    frequency_penalty=first.frequency_penalty,
                    presence_penalty=first.presence_penalty,
                ),
            )
            for i, own in enumerate(batch.requests)
            if acting[i]
        },
    )


MISLED: Mapping[str, Misled] = {
    "stale-slot": _stale_slot,
    "swap-copies-both": _swap_copies_both,
    "bias-lost-in-mixed-batch": _bias_lost,
    "grammar-row-shifted": _grammar_shifted,
    "penalties-of-first-request": _penalties_of_first,
}
"""By the name of the defect."""


def _with(batch: Batch, changed: Mapping[int, Request]) -> Batch:
    requests = tuple(changed.get(i, own) for i, own in enumerate(batch.requests))
    return replace(batch, requests=requests)
