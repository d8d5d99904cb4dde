"""The fields of a request's body, each with its type. Ranges are SamplingParams' to check."""

from collections.abc import Callable, Mapping
from functools import partial

from sampler_audit.demo.tokenizer import Tokenizer
from sampler_audit.demo.wire import Body, Json, Refused
from sampler_scenarios.params import SamplingParams

Reader = Callable[[str, Json], object]
"""Takes a field's name and its value, which is not null."""


def read_params(
    body: Body,
    names: Mapping[str, str],
    readers: Mapping[str, Reader],
    defaults: Mapping[str, Json],
) -> SamplingParams:
    """The parameters that a body asks for; what it leaves out is at the server's default.

    ``names`` maps names on the wire to fields of SamplingParams, ``readers`` fields to their types.

    Raises:
        Refused: a field of the wrong type, or out of its range.
    """
    values: dict[str, object] = dict(defaults)
    for wire_name, name in names.items():
        value = body.get(wire_name)
        if value is not None:
            values[name] = readers[name](wire_name, value)
    try:
        return SamplingParams(**values)  # type: ignore[arg-type]  # each reader gives its field its type
    except ValueError as exc:
        raise Refused(400, str(exc)) from exc


def number(name: str, value: Json) -> float:
    """A number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong(name, "a number", value)
    return value


def integer(name: str, value: Json, *, bits: int = 32) -> int:
    """A whole number that fits so many bits."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong(name, "a whole number", value)
    if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise _wrong(name, f"a whole number of {bits} bits", value)
    return value


def flag(name: str, value: Json) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise _wrong(name, "true or false", value)
    return value


def text(name: str, value: Json) -> str:
    """A string."""
    if not isinstance(value, str):
        raise _wrong(name, "a string", value)
    return value


def token_ids(name: str, value: Json) -> tuple[int, ...]:
    """Token ids; whether the vocabulary has them is not checked here."""
    if not isinstance(value, list):
        raise _wrong(name, "a list of token ids", value)
    return tuple(integer(name, item) for item in value)


def biases(name: str, value: Json) -> dict[int, float]:
    """Biases by token id: an object, or llama-server's list of pairs."""
    if isinstance(value, dict):
        pairs: list[Json] = [[int(k) if k.isdecimal() else k, v] for k, v in value.items()]
    elif isinstance(value, list):
        pairs = value
    else:
        raise _wrong(name, "an object of biases by token id", value)
    found = {}
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) != 2:
            raise _wrong(name, "pairs of a token id and a bias", pair)
        found[integer(name, pair[0])] = number(name, pair[1])
    return found


def words(tokenizer: Tokenizer) -> Reader:
    """A reader of bad words: each a text, which ``tokenizer`` turns into tokens, or token ids."""

    def read(name: str, value: Json) -> tuple[tuple[int, ...], ...]:
        if not isinstance(value, list):
            raise _wrong(name, "a list of words", value)
        return tuple(
            tokenizer.encode(word) if isinstance(word, str) else token_ids(name, word)
            for word in value
        )

    return read


def readers_of(tokenizer: Tokenizer) -> Mapping[str, Reader]:
    """For each field of SamplingParams that a body may hold, its type."""
    return {
        **dict.fromkeys(("temperature", "top_p", "min_p"), number),
        **dict.fromkeys(("repetition_penalty", "frequency_penalty", "presence_penalty"), number),
        **dict.fromkeys(("top_k", "min_tokens", "max_tokens", "thinking_token_budget"), integer),
        **dict.fromkeys(("n", "logprobs", "prompt_logprobs"), integer),
        "seed": partial(integer, bits=64),
        **dict.fromkeys(("allowed_token_ids", "stop_token_ids", "logprob_token_ids"), token_ids),
        "ignore_eos": flag,
        "logit_bias": biases,
        "bad_words": words(tokenizer),
    }


def read_prompt(name: str, value: Json, tokenizer: Tokenizer) -> tuple[int, ...]:
    """A prompt as text or as token ids; it has at least one token.

    Raises:
        Refused: it has none, or is neither.
    """
    if not isinstance(value, str | list):
        raise _wrong(name, "a text or a list of token ids", value)
    ids = tokenizer.encode(value) if isinstance(value, str) else token_ids(name, value)
    if not ids:
        raise Refused(400, f"{name} must hold at least one token, got none")
    return ids


def refuse_fields(body: Body, only: Mapping[str, tuple[Json, ...]]) -> None:
    """Nothing, where each field of ``only`` is absent, null or has one of its values.

    Raises:
        Refused: one asks for what this server does not do.
    """
    for name, allowed in only.items():
        value = body.get(name)
        if value is not None and value not in allowed:
            words_allowed = " or ".join(map(repr, allowed)) or "absent"
            raise Refused(400, f"{name} must be {words_allowed} on this server, got {value!r}")


def _wrong(name: str, what: str, value: Json) -> Refused:
    return Refused(400, f"{name} must be {what}, got {repr(value)[:60]}")
