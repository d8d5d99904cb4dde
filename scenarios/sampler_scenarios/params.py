"""SamplingParams: the settings of a request, their ranges, neutral values and one validation."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

FILTERS = ("temperature", "top_k", "top_p", "min_p")
"""The four filters whose combinations are audited, in the order in which ids name them."""


@dataclass(frozen=True, kw_only=True)
class SamplingParams:
    """What a request asks of the sampler; the defaults change nothing.

    Ranges: ``temperature`` finite and >= 0 (0 is greedy); ``top_k`` >= -1, where -1 and 0 mean
    off and a value above the vocabulary keeps all of it; ``top_p`` in (0, 1]; ``min_p`` in [0, 1].

    Raises:
        ValueError: a value outside its range, naming the parameter, the range and the value.
    """

    temperature: float = 1.0
    top_k: int = -1
    top_p: float = 1.0
    min_p: float = 0.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise ValueError(f"temperature must be finite and >= 0, got {self.temperature}")
        if self.top_k < -1:
            raise ValueError(f"top_k must be -1 or 0 (off) or >= 1, got {self.top_k}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be in (0, 1], got {self.top_p}")
        if not 0 <= self.min_p <= 1:
            raise ValueError(f"min_p must be in [0, 1], got {self.min_p}")

    @property
    def combo(self) -> "Combo":
        """The filters that are set to a value that is not neutral."""
        on = {
            "temperature": self.temperature != 1,
            "top_k": self.top_k > 0,
            "top_p": self.top_p < 1,
            "min_p": self.min_p > 0,
        }
        return make_combo(name for name in FILTERS if on[name])

    @property
    def id(self) -> str:
        """``top_k=50,top_p=0.9``: every field that differs from the default, or ``neutral``."""
        # Through float, or temperature=2 and temperature=2.0, which are equal, had two ids.
        values = {
            "temperature": float(self.temperature),
            "top_k": self.top_k,
            "top_p": float(self.top_p),
            "min_p": float(self.min_p),
        }
        fields = [f"{name}={values[name]}" for name in FILTERS if values[name] != _DEFAULT[name]]
        return ",".join(fields) or "neutral"


Combo = tuple[str, ...]
"""A combination of filters, ordered as in FILTERS; the empty one is the unfiltered softmax."""

_DEFAULT: dict[str, float] = {"temperature": 1.0, "top_k": -1, "top_p": 1.0, "min_p": 0.0}


def make_combo(names: Iterable[str]) -> Combo:
    """The combination of the named filters, in canonical order.

    Raises:
        ValueError: an unknown filter.
    """
    names = set(names)
    if unknown := sorted(names - set(FILTERS)):
        raise ValueError(f"unknown filter {unknown[0]!r}; known: {', '.join(FILTERS)}")
    return tuple(name for name in FILTERS if name in names)


def combo_name(combo: Combo) -> str:
    """``top_k+top_p``, or ``none`` for the empty combination."""
    return "+".join(combo) or "none"


def parse_params(text: str) -> SamplingParams:
    """The inverse of ``SamplingParams.id``.

    Raises:
        ValueError: text that is no id of sampling parameters.
    """
    if text == "neutral":
        return SamplingParams()
    values: dict[str, float] = {}
    for field in text.split(","):
        name, equals, value = field.partition("=")
        if not equals or name not in FILTERS or name in values:
            raise ValueError(f"expected 'neutral' or name=value of {', '.join(FILTERS)}: {field!r}")
        values[name] = _parse_number(name, value)
    return make_params(values)


def make_params(values: Mapping[str, float]) -> SamplingParams:
    """The parameters with ``values`` by filter name; every other filter is off.

    Raises:
        ValueError: a value out of range.
    """
    return SamplingParams(
        temperature=values.get("temperature", 1.0),
        top_k=int(values.get("top_k", -1)),
        top_p=values.get("top_p", 1.0),
        min_p=values.get("min_p", 0.0),
    )


def _parse_number(name: str, text: str) -> float:
    try:
        return int(text) if name == "top_k" else float(text)
    except ValueError:
        kind = "an integer" if name == "top_k" else "a number"
        raise ValueError(f"{name} must be {kind}, got {text!r}") from None
