"""What a sampler refuses before a request gets a slot: whatever depends on model or limits.

After admission nothing of a request is refused any more; what SamplingParams can judge alone it
has refused at construction.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from numbers import Integral
from typing import Protocol

from sampler_scenarios.params import STAGES, SamplingParams
from sampler_scenarios.requests import ModelConfig, Request


class RequestRefused(ValueError):
    """A request that the sampler does not take: the parameter, what is allowed, what was given."""


class ValidatesParams(Protocol):
    """A custom processor, or its class, that has a say at admission."""

    def validate_params(self, params: SamplingParams, /) -> None:
        """Raise ValueError for parameters that the processor cannot serve."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The most that one request may ask: the widths of the tables that hold a slot's state.

    The values are those of vllm 0.32.0 (v1/worker/gpu/sample: logit_bias.py, bad_words.py,
    logprob.py; config/model.py); a ``max_logprobs`` of -1 is the whole vocabulary.
    """

    max_allowed_token_ids: int = 1024
    max_logit_bias: int = 1024
    max_stop_token_ids: int = 128
    max_bad_words_tokens: int = 1024
    max_bad_words: int = 128
    max_logprobs: int = 20
    max_logprob_token_ids: int = 128


def admit(
    request: Request,
    model: ModelConfig,
    limits: Limits,
    *,
    speculative: bool = False,
    processors: Sequence[ValidatesParams] = (),
    processing: Sequence[str] = STAGES,
) -> None:
    """Nothing, where the sampler takes the request.

    ``processing`` are the stages that it has: a parameter of any other would be ignored.

    Raises:
        RequestRefused: it does not; the message names the parameter, what is allowed, what is
            given. The words of a custom processor are its own.
    """
    params = request.params
    complaints = chain(
        _choices(params),
        _outside_vocabulary(request, model.vocab_size),
        _too_many(params, model, limits),
        _log_probs(params, model, limits),
        _model(request, model),
        _trace(request, speculative),
        _absent_stages(params, processing),
    )
    if complaint := next(complaints, None):
        raise RequestRefused(complaint)
    for processor in processors:
        try:
            processor.validate_params(params)
        except ValueError as exc:
            raise RequestRefused(str(exc)) from exc


def stop_set(params: SamplingParams, model: ModelConfig) -> tuple[int, ...]:
    """Every token that may end the request, each once: its own and the model's.

    ``ignore_eos`` does not take the model's out: min_tokens masks them all the same.
    """
    return tuple(dict.fromkeys((*params.stop_token_ids, *model.eos_token_ids)))


def _choices(params: SamplingParams) -> Iterator[str]:
    if params.n != 1:
        yield f"n must be 1 for each request that is added, see seeds.choices, got {params.n}"


def _outside_vocabulary(request: Request, vocab_size: int) -> Iterator[str]:
    params = request.params
    lists: tuple[tuple[str, Iterable[int]], ...] = (
        ("prompt_token_ids", request.prompt_token_ids),
        ("output_token_ids", request.output_token_ids),
        ("allowed_token_ids", params.allowed_token_ids or ()),
        ("logit_bias", params.logit_bias),
        ("stop_token_ids", params.stop_token_ids),
        ("bad_words", chain.from_iterable(params.bad_words)),
        ("logprob_token_ids", params.logprob_token_ids or ()),
        ("trace_token_ids", params.trace_token_ids or ()),
        (
            "prompt_logprob_token_ids",
            chain.from_iterable(params.prompt_logprob_token_ids or ()),
        ),
    )
    for name, token_ids in lists:
        for token_id in token_ids:
            if not (isinstance(token_id, Integral) and 0 <= token_id < vocab_size):
                yield f"{name} must be token ids in [0, {vocab_size}), got {token_id}"


def _too_many(params: SamplingParams, model: ModelConfig, limits: Limits) -> Iterator[str]:
    n_stops = len(stop_set(params, model)) if params.min_tokens else 0
    counted = (
        (
            "allowed_token_ids",
            "token ids",
            limits.max_allowed_token_ids,
            len(params.allowed_token_ids or ()),
        ),
        ("logit_bias", "token ids", limits.max_logit_bias, len(params.logit_bias)),
        (
            "stop_token_ids",
            "token ids where min_tokens is set, the model's end-of-sequence ids among them",
            limits.max_stop_token_ids,
            n_stops,
        ),
        ("bad_words", "words", limits.max_bad_words, len(params.bad_words)),
        (
            "bad_words",
            "tokens in all",
            limits.max_bad_words_tokens,
            sum(map(len, params.bad_words)),
        ),
        (
            "logprob_token_ids",
            "token ids",
            limits.max_logprob_token_ids,
            len(params.logprob_token_ids or ()),
        ),
    )
    for name, what, most, given in counted:
        if given > most:
            yield f"{name} must hold at most {most} {what}, got {given}"


def _log_probs(params: SamplingParams, model: ModelConfig, limits: Limits) -> Iterator[str]:
    most = model.vocab_size if limits.max_logprobs == -1 else limits.max_logprobs
    for name, given in (
        ("logprobs", params.logprobs),
        ("prompt_logprobs", params.prompt_logprobs),
    ):
        n_asked = model.vocab_size if given == -1 else given
        if n_asked is not None and n_asked > most:
            yield f"{name} must be at most {most} (-1 asks for {model.vocab_size}), got {given}"
    rows = params.prompt_logprob_token_ids or ()
    if widest := max((len(row) for row in rows if len(row) > most), default=0):
        yield f"a row of prompt_logprob_token_ids must hold at most {most} token ids, got {widest}"
    if params.prompt_logprob_start + len(rows) > model.max_model_len - 1:
        yield (
            "prompt_logprob_token_ids, from prompt_logprob_start on, must be at most the"
            f" {model.max_model_len - 1} rows that a prompt can have, got"
            f" {params.prompt_logprob_start + len(rows)}"
        )
    chosen = params.logprob_token_ids
    if chosen is not None and params.logprobs not in (None, len(chosen)):
        yield (
            f"logprobs must be None or the {len(chosen)} of logprob_token_ids, "
            f"got {params.logprobs}"
        )


def _model(request: Request, model: ModelConfig) -> Iterator[str]:
    if len(request.token_ids) >= model.max_model_len:
        yield (
            f"prompt_token_ids and output_token_ids must be below max_model_len="
            f"{model.max_model_len} tokens, got {len(request.token_ids)}"
        )
    budget = request.params.thinking_token_budget
    if budget is not None and not (model.reasoning_start and model.reasoning_end):
        yield (
            "thinking_token_budget must be None where the model has no markers of reasoning, "
            f"got {budget}"
        )


def _trace(request: Request, speculative: bool) -> Iterator[str]:
    params = request.params
    if params.trace_token_ids is None:
        return
    conflicts = (
        ("prompt_logprobs", params.prompt_logprobs, None),
        ("bad_words", params.bad_words, ()),
        ("thinking_token_budget", params.thinking_token_budget, None),
    )
    for name, given, allowed in conflicts:
        if given != allowed:
            yield f"{name} must be {allowed} where trace_token_ids replaces draws, got {given}"
    if request.grammar is not None:
        yield "grammar must be None where trace_token_ids replaces draws, got one"
    if speculative:
        yield "trace_token_ids must be None where drafts are verified, got some"


def _absent_stages(params: SamplingParams, processing: Sequence[str]) -> Iterator[str]:
    for stage in params.stages:
        name = "thinking_token_budget" if stage == "thinking_budget" else stage
        if stage not in processing:
            neutral = getattr(SamplingParams(), name)
            yield (
                f"{name} must be {neutral} where an engine has no such stage, "
                f"got {getattr(params, name)}"
            )
