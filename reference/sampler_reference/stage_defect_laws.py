"""What planted defects of the stages make of a row, each the reference with one thing changed.

A wrong ``process`` takes and gives what the right one does. It changes the request, the model, the
conventions or one stage; the other stages are the reference's own.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from sampler_reference.conventions import Conventions
from sampler_reference.processors import (
    PROCESSORS,
    Logits,
    Processor,
    presence_penalty,
    process,
)
from sampler_scenarios.params import SamplingParams
from sampler_scenarios.requests import ModelConfig, Request

PENALTIES = ("repetition_penalty", "frequency_penalty", "presence_penalty")


def with_conventions(change: Callable[[Conventions], Conventions]) -> Processor:
    """Stages that follow other conventions than are declared."""
    return lambda x, request, model, own: process(x, request, model, change(own))


def with_model(change: Callable[[ModelConfig], ModelConfig]) -> Processor:
    """Stages that know something else about the model."""
    return lambda x, request, model, own: process(x, request, change(model), own)


def with_stages(names: Iterable[str], change: Callable[[Processor], Processor]) -> Processor:
    """Some stages replaced by what ``change`` makes of each."""
    wrong = {**PROCESSORS, **{name: change(PROCESSORS[name]) for name in names}}
    return lambda x, request, model, own: process(x, request, model, own, wrong)


def on_request(change: Callable[[Request], Request]) -> Callable[[Processor], Processor]:
    """The stage, told something else about the request."""
    return lambda right: lambda x, request, model, own: right(x, change(request), model, own)


def on_params(
    change: Callable[[SamplingParams], SamplingParams],
) -> Callable[[Processor], Processor]:
    """The stage, reading other parameters than it was given."""
    return on_request(lambda request: replace(request, params=change(request.params)))


def without_output(request: Request) -> Request:
    """As if nothing had been emitted yet."""
    return replace(request, output_token_ids=())


def twice(right: Processor) -> Processor:
    """The stage, applied to its own result too."""
    return lambda x, request, model, own: right(right(x, request, model, own), request, model, own)


def skipped(_: Processor) -> Processor:
    """No stage."""
    return lambda x, _request, _model, _own: x


def presence_for_frequency(_: Processor) -> Processor:
    """The frequency penalty taken off once, however often a token was emitted."""
    as_presence = on_params(
        lambda params: replace(params, presence_penalty=params.frequency_penalty)
    )
    return as_presence(presence_penalty)


def last_tokens_only(params: SamplingParams) -> SamplingParams:
    """Bad words cut to their last token, which is then banned always."""
    return replace(params, bad_words=tuple(word[-1:] for word in params.bad_words))


def one_token_less(params: SamplingParams) -> SamplingParams:
    """A min_tokens that is smaller by one."""
    return replace(params, min_tokens=max(0, params.min_tokens - 1))


def inverted(right: Processor) -> Processor:
    """An allow-list that masks the listed tokens and leaves the others."""

    def masked(x: Logits, request: Request, model: ModelConfig, own: Conventions) -> Logits:
        if request.params.allowed_token_ids is None:
            return x
        listed = right(np.zeros_like(x), request, model, own) == 0
        return np.where(listed, -np.float32(np.inf), x)

    return masked
