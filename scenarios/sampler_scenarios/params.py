"""SamplingParams: the settings of a request, their ranges, neutral values and one validation.

What depends on a model or an engine's limits is refused at admission, by the sampler.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from numbers import Integral

FILTERS = ("temperature", "top_k", "top_p", "min_p")
"""The four filters whose combinations are audited, in the order in which ids name them."""

STAGES = (
    "grammar",
    "allowed_token_ids",
    "logit_bias",
    "min_tokens",
    "repetition_penalty",
    "frequency_penalty",
    "presence_penalty",
    "bad_words",
    "processor",
    "thinking_budget",
)
"""The stages before the filters, in the order in which ids name them."""

MOST_CHOICES = 16384
"""Largest ``n``."""


@dataclass(frozen=True, kw_only=True)
class SamplingParams:
    """What a request asks of the sampler; the defaults change nothing.

    Attributes:
        temperature: Finite as float32 and >= 0; 0 is greedy, whatever the filters say.
        top_k: >= -1; -1 and 0 mean off, and a value above the vocabulary keeps all of it.
        top_p: In (0, 1]; 1 is off.
        min_p: In [0, 1]; 0 is off.
        repetition_penalty: Finite and > 0 as float32; 1 is off. Of tokens in prompt or output.
        frequency_penalty: In [-2, 2], for every time that the output holds a token.
        presence_penalty: In [-2, 2], once for a token that the output holds.
        logit_bias: Added to the logits of these token ids; finite as float32.
        allowed_token_ids: The only tokens that may be drawn, at least one; None is no restriction.
        bad_words: Token sequences, none empty: the last token of one may not follow the others.
            Where a tokenizer spells a word in two ways, both are in it.
        min_tokens: >= 0 and at most ``max_tokens``; a stop token may not come before that many.
        max_tokens: >= 1, or None.
        stop_token_ids: End a request, beside the model's own end-of-sequence tokens.
        ignore_eos: The end-of-sequence tokens do not end the request; min_tokens masks them still.
        thinking_token_budget: >= 0; the tokens between the markers of reasoning, or None.
        seed: Any integer that fits 64 bits; None draws one at admission.
        n: Choices of one request, 1 to MOST_CHOICES; 1 where the request is greedy.
        logprobs: How many of the likeliest tokens are listed, -1 for all; None lists nothing.
        prompt_logprobs: The same for each token of the prompt.
        prompt_logprob_token_ids: List these tokens, a row for each prompt token but the first, from
            ``prompt_logprob_start`` on; None where ``prompt_logprobs`` says what is listed.
        prompt_logprob_start: The prompt token, counted from the second, that the first of these
            rows is for; >= 0.
        logprob_token_ids: List these tokens instead of the likeliest.
        trace_token_ids: Replaces what is drawn, token by token, for debugging.
        extra_args: Whatever custom logits processors read; integers in it have 64 bits.

    Raises:
        ValueError: a value outside its range, naming the parameter, the range and the value.
    """

    temperature: float = 1.0
    top_k: int = -1
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict, hash=False)
    allowed_token_ids: tuple[int, ...] | None = None
    bad_words: tuple[tuple[int, ...], ...] = ()
    min_tokens: int = 0
    max_tokens: int | None = None
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    thinking_token_budget: int | None = None
    seed: int | None = None
    n: int = 1
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    prompt_logprob_token_ids: tuple[tuple[int, ...], ...] | None = None
    prompt_logprob_start: int = 0
    logprob_token_ids: tuple[int, ...] | None = None
    trace_token_ids: tuple[int, ...] | None = None
    extra_args: Mapping[str, object] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for name in _INTEGERS:
            value = getattr(self, name)
            if value is not None and not isinstance(value, Integral):
                raise ValueError(f"{name} must be an integer, got {value}")
        for name, allowed, holds in _RANGES:
            value = getattr(self, name)
            if not holds(value):
                raise ValueError(f"{name} must be {allowed}, got {value}")
        if self.max_tokens is not None and self.min_tokens > self.max_tokens:
            raise ValueError(
                f"min_tokens must be at most max_tokens={self.max_tokens}, got {self.min_tokens}"
            )
        if self.prompt_logprob_start and self.prompt_logprob_token_ids is None:
            raise ValueError(
                "prompt_logprob_start must be 0 without prompt_logprob_token_ids,"
                f" got {self.prompt_logprob_start}"
            )
        if self.temperature == 0 and self.n != 1:
            raise ValueError(f"n must be 1 where temperature is 0 (greedy), got {self.n}")

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
    def stages(self) -> "Combo":
        """The stages before the filters that are set to a value that is not neutral.

        A grammar is not a parameter, and what extra_args switch on is up to the processors.
        """
        on = {
            "allowed_token_ids": self.allowed_token_ids is not None,
            "logit_bias": bool(self.logit_bias),
            "min_tokens": self.min_tokens > 0,
            "repetition_penalty": self.repetition_penalty != 1,
            "frequency_penalty": self.frequency_penalty != 0,
            "presence_penalty": self.presence_penalty != 0,
            "bad_words": bool(self.bad_words),
            "thinking_budget": self.thinking_token_budget is not None,
        }
        return make_combo(name for name in on if on[name])

    @property
    def id(self) -> str:
        """``top_k=50,top_p=0.9``: every filter that differs from the default, or ``neutral``."""
        # Through float, or temperature=2 and temperature=2.0, which are equal, had two ids.
        values = {
            "temperature": float(self.temperature),
            "top_k": self.top_k,
            "top_p": float(self.top_p),
            "min_p": float(self.min_p),
        }
        fields = [f"{name}={values[name]}" for name in FILTERS if values[name] != _DEFAULT[name]]
        return ",".join(fields) or "neutral"


_LARGEST = (2 - 2**-23) * 2.0**127
"""The largest float32. Samplers compute in float32, where a larger value would be infinite."""

_SMALLEST = 2.0**-126
"""The smallest normal float32."""


def _within(low: float, high: float) -> Callable[[float], bool]:
    return lambda value: low <= value <= high


def _none_or_at_least(least: int) -> Callable[[int | None], bool]:
    return lambda value: value is None or value >= least


_FINITE = _within(-_LARGEST, _LARGEST)

_INTEGERS = (
    "top_k",
    "min_tokens",
    "max_tokens",
    "thinking_token_budget",
    "seed",
    "n",
    "logprobs",
    "prompt_logprobs",
)


def _fits(values: Iterable[object]) -> bool:
    """Whether no integer, however deep in lists and mappings, needs more than 64 bits."""
    for value in values:
        inner = value.values() if isinstance(value, Mapping) else value
        if isinstance(inner, int) and not -(2**63) <= inner < 2**64:
            return False
        if isinstance(inner, Iterable) and not isinstance(inner, str) and not _fits(inner):
            return False
    return True


_RANGES: tuple[tuple[str, str, Callable[..., bool]], ...] = (
    ("temperature", "finite as float32 and >= 0", _within(0, _LARGEST)),
    ("top_k", "-1 or 0 (off) or >= 1", lambda k: k >= -1),
    ("top_p", "in (0, 1]", lambda p: 0 < p <= 1),
    ("min_p", "in [0, 1]", _within(0, 1)),
    ("repetition_penalty", "finite and > 0 as float32", _within(_SMALLEST, _LARGEST)),
    ("frequency_penalty", "in [-2, 2]", _within(-2, 2)),
    ("presence_penalty", "in [-2, 2]", _within(-2, 2)),
    ("logit_bias", "finite as float32 for every token id", lambda b: all(map(_FINITE, b.values()))),
    (
        "allowed_token_ids",
        "at least one token id, or None",
        lambda ids: ids is None or len(ids) > 0,
    ),
    ("bad_words", "token sequences of at least one token each", lambda words: all(words)),
    ("min_tokens", ">= 0", lambda n: n >= 0),
    ("max_tokens", ">= 1, or None", _none_or_at_least(1)),
    ("thinking_token_budget", ">= 0, or None", _none_or_at_least(0)),
    ("seed", "an integer of 64 bits, or None", lambda s: s is None or -(2**63) <= s < 2**64),
    ("n", f"from 1 to {MOST_CHOICES}", _within(1, MOST_CHOICES)),
    ("logprobs", "-1 (all) or >= 0, or None", _none_or_at_least(-1)),
    ("prompt_logprobs", "-1 (all) or >= 0, or None", _none_or_at_least(-1)),
    ("prompt_logprob_start", ">= 0", lambda start: start >= 0),
    ("extra_args", "a mapping whose integers have 64 bits", lambda args: _fits(args.values())),
)
"""Field, what is allowed, and whether a value is."""


Combo = tuple[str, ...]
"""A combination of filters, then stages, each in the order of FILTERS and STAGES; the empty one is
the unfiltered softmax."""

_DEFAULT: dict[str, float] = {"temperature": 1.0, "top_k": -1, "top_p": 1.0, "min_p": 0.0}


def make_combo(names: Iterable[str]) -> Combo:
    """The combination of the named filters and stages, in canonical order.

    Raises:
        ValueError: an unknown name.
    """
    names = set(names)
    known = (*FILTERS, *STAGES)
    if unknown := sorted(names - set(known)):
        raise ValueError(f"unknown filter or stage {unknown[0]!r}; known: {', '.join(known)}")
    return tuple(name for name in known if name in names)


def combo_name(combo: Combo) -> str:
    """``top_k+top_p`` or ``top_k+logit_bias``; ``none`` for the empty combination."""
    return "+".join(combo) or "none"


def parse_params(text: str) -> SamplingParams:
    """The inverse of ``SamplingParams.id``.

    Raises:
        ValueError: text that is no id of sampling parameters.
    """
    if text == "neutral":
        return SamplingParams()
    values: dict[str, float] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals or name not in FILTERS or name in values:
            raise ValueError(f"expected 'neutral' or name=value of {', '.join(FILTERS)}: {part!r}")
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
