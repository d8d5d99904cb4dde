"""Settings of requests as JSON: read from the command line, sent to the worker, made there.

Knows the fields of SamplingParams and no processor.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import cast

from sampler_audit.errors import UsageError
from sampler_scenarios.params import SamplingParams

Settings = Mapping[str, object]
"""Fields of SamplingParams by name, as JSON gives them; {} is a request that asks for nothing."""

COMMON: tuple[Settings, ...] = (
    {"min_p": 0.3},
    {"logit_bias": {"2": 6.0, "5": -4.0}},
    {"min_tokens": 3, "stop_token_ids": [7]},
)
"""Tried where no settings are named: what engines' own processors read."""

_FIELDS = tuple(field.name for field in fields(SamplingParams))


def read_settings(text: str, option: str) -> Settings:
    """The settings that an option's text names.

    Raises:
        UsageError: no JSON object, or a key that is no field of SamplingParams.
    """
    try:
        values: object = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{option} must be a JSON object, got {text!r}: {error}") from error
    if not isinstance(values, dict):
        raise UsageError(f"{option} must be a JSON object, got {text!r}")
    if unknown := sorted(set(values) - set(_FIELDS)):
        raise UsageError(
            f"{option} has no field {unknown[0]!r}; what a custom processor reads goes into "
            f'extra_args, as in {{"extra_args": {{{json.dumps(unknown[0])}: ...}}}}; '
            f"fields: {', '.join(_FIELDS)}"
        )
    return cast(Settings, values)


def make_params(settings: Settings) -> SamplingParams:
    """The settings as parameters: token ids of ``logit_bias`` from text, lists as tuples.

    Raises:
        ValueError: a value outside its range.
        TypeError: a value of another type than its field's.
    """
    values = {
        name: _tuples(value) if isinstance(value, list) else value
        for name, value in settings.items()
    }
    bias = values.get("logit_bias")
    if isinstance(bias, dict):
        values["logit_bias"] = {int(token): value for token, value in bias.items()}
    # Whatever does not fit is refused by SamplingParams, which looks at the values.
    return SamplingParams(**values)  # type: ignore[arg-type] # JSON has no types to check


def shown(settings: Settings) -> str:
    """On one line."""
    return json.dumps(settings)


def of_other_types(value: object) -> Sequence[object]:
    """Values that nobody means who means ``value``."""
    if isinstance(value, bool):
        return ("text",)
    if isinstance(value, int):
        return ("text", 1.5, [1], -1)
    if isinstance(value, float):
        return ("text", [1.0], float("nan"))
    if isinstance(value, str):
        return (1, [1])
    return ("text", 1, [None])


def _tuples(value: list[object]) -> tuple[object, ...]:
    return tuple(_tuples(inner) if isinstance(inner, list) else inner for inner in value)
