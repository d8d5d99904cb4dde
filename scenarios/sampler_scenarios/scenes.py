"""Scenes: the requests of a batch as JSON and arrays, for an engine in another process.

The rows of logits travel apart. Everything comes back equal, floats included.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler_scenarios.batches import Batch
from sampler_scenarios.params import FILTERS, SamplingParams
from sampler_scenarios.requests import Request

Scene = dict[str, Any]
"""``requests`` and ``leavers``, each with params, prompt and output; ``past``, ``drafts``, and
``index``; ``model``, whose fields are those of ModelConfig. A request with a grammar has its row
number in the array ``grammars``, bool ``[n_grammars, vocab_size]``; the other is ``draft_logits``.
"""

_NEUTRAL = SamplingParams()


def needs_scene(batch: Batch) -> bool:
    """Whether parameters of the four filters do not say all of the batch."""
    plain = not batch.past and not batch.drafts
    return not plain or any(
        request.grammar is not None or set(_params_to_json(request.params)) - set(FILTERS)
        for request in batch.requests
    )


def to_scene(batch: Batch) -> tuple[Scene, dict[str, NDArray[Any]]]:
    """The scene and its arrays."""
    everyone = (*batch.requests, *batch.leavers)
    masks = [request.grammar for request in everyone if request.grammar is not None]
    rows = iter(range(len(masks)))
    told = [_request_to_json(r, None if r.grammar is None else next(rows)) for r in everyone]
    scene = {
        "requests": told[: len(batch.requests)],
        "leavers": told[len(batch.requests) :],
        "index": batch.index,
        "past": [list(order) for order in batch.past],
        "drafts": [list(drafts) for drafts in batch.drafts],
        "model": asdict(batch.model),
    }
    arrays: dict[str, NDArray[Any]] = {}
    if masks:
        arrays["grammars"] = np.array(masks, dtype=np.bool_)
    if batch.draft_logits is not None:
        arrays["draft_logits"] = batch.draft_logits
    return scene, arrays


def from_scene(
    logits: NDArray[np.float32],
    scene: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
) -> Batch:
    """The batch that ``to_scene`` was given, around rows of its own."""
    grammars = arrays.get("grammars")
    return Batch(
        logits,
        tuple(_request_from_json(told, grammars) for told in scene["requests"]),
        scene["index"],
        tuple(_request_from_json(told, grammars) for told in scene["leavers"]),
        tuple(tuple(order) for order in scene["past"]),
        tuple(tuple(drafts) for drafts in scene["drafts"]),
        arrays.get("draft_logits"),
    )


def _request_to_json(request: Request, grammar: int | None) -> Scene:
    return {
        "params": _params_to_json(request.params),
        "prompt": list(request.prompt_token_ids),
        "output": list(request.output_token_ids),
        "grammar": grammar,
    }


def _request_from_json(told: Mapping[str, Any], grammars: NDArray[Any] | None) -> Request:
    row = told["grammar"]
    return Request(
        _params_from_json(told["params"]),
        tuple(told["prompt"]),
        tuple(told["output"]),
        None if row is None or grammars is None else grammars[row],
    )


def _params_to_json(params: SamplingParams) -> Scene:
    """Every field that differs from the default; JSON has no integer keys, so biases are pairs."""
    told = {
        f.name: getattr(params, f.name)
        for f in fields(params)
        if getattr(params, f.name) != getattr(_NEUTRAL, f.name)
    }
    if params.logit_bias:
        told["logit_bias"] = [list(pair) for pair in params.logit_bias.items()]
    if params.extra_args:
        told["extra_args"] = dict(params.extra_args)
    return told


def _params_from_json(told: Mapping[str, Any]) -> SamplingParams:
    values = {name: _tuples(value) for name, value in told.items()}
    if "logit_bias" in told:
        values["logit_bias"] = {int(token): bias for token, bias in told["logit_bias"]}
    if "extra_args" in told:
        values["extra_args"] = {name: _tuples(v) for name, v in told["extra_args"].items()}
    return SamplingParams(**values)


def _tuples(value: Any) -> Any:
    """JSON's lists are tuples here, however deep."""
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    return tuple(_tuples(item) for item in value) if is_list else value
