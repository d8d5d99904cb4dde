"""DRY, "don't repeat yourself": a slot-level processor that reads history and extra arguments.

A token that would prolong a repetition of n tokens loses ``multiplier * base ** (n -
allowed_length)`` (p-e-w, oobabooga/text-generation-webui#5677).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from sampler_audit.sampler.processors import (
    Context,
    EngineConfig,
    LogitsProcessor,
    RequestStates,
)
from sampler_scenarios.params import SamplingParams


@dataclass(frozen=True)
class DrySettings:
    """What a request asks of DRY.

    Attributes:
        multiplier: Finite and >= 0; 0 is off.
        base: Finite and >= 1.
        allowed_length: >= 1; shorter repetitions cost nothing, one of this length ``multiplier``.
        breakers: Token ids that end a repetition and are never penalised.

    Raises:
        ValueError: a value outside its range, naming the argument, the range and the value.
    """

    multiplier: float = 0.0
    base: float = 1.75
    allowed_length: int = 2
    breakers: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        for name, allowed, value, least in (
            ("dry_multiplier", "finite and >= 0", self.multiplier, 0),
            ("dry_base", "finite and >= 1", self.base, 1),
            ("dry_allowed_length", "an integer >= 1", self.allowed_length, 1),
        ):
            if not (math.isfinite(value) and value >= least):
                raise ValueError(f"{name} must be {allowed}, got {value}")

    def penalties(self, token_ids: Sequence[int]) -> dict[int, float]:
        """By token, what to subtract from its logit after ``token_ids``; in float64, may be inf."""
        return {
            token: self.multiplier * _power(self.base, length - self.allowed_length)
            for token, length in repeated_lengths(token_ids, self.breakers).items()
            if length >= self.allowed_length
        }


def read_settings(extra_args: Mapping[str, object]) -> DrySettings:
    """Settings from the arguments of a request; what is absent has its default.

    They are ``dry_multiplier``, ``dry_base``, ``dry_allowed_length``, ``dry_sequence_breakers``.

    Raises:
        ValueError: an argument of the wrong kind or outside its range.
    """
    breakers = extra_args.get("dry_sequence_breakers", ())
    if not isinstance(breakers, list | tuple) or not all(type(token) is int for token in breakers):
        raise ValueError(f"dry_sequence_breakers must be a list of token ids, got {breakers!r}")
    allowed_length = extra_args.get("dry_allowed_length", 2)
    if type(allowed_length) is not int:
        raise ValueError(f"dry_allowed_length must be an integer >= 1, got {allowed_length!r}")
    return DrySettings(
        _number(extra_args, "dry_multiplier", 0.0),
        _number(extra_args, "dry_base", 1.75),
        allowed_length,
        frozenset(breakers),
    )


def repeated_lengths(token_ids: Sequence[int], breakers: frozenset[int]) -> dict[int, int]:
    """By token that would prolong a repetition, the length of the longest one.

    A repetition is an end of ``token_ids`` that also stands earlier, right before that token, with
    no breaker in it; the two may overlap.
    """
    newest_first = token_ids[::-1]
    longest = next((i for i, t in enumerate(newest_first) if t in breakers), len(newest_first))
    lengths: dict[int, int] = {}
    for token, match in zip(newest_first, _match_lengths(newest_first)[1:], strict=False):
        length = min(match, longest)
        if length and token not in breakers:
            lengths[token] = max(lengths.get(token, 0), length)
    return lengths


class Dry(LogitsProcessor):
    """Reads the tokens of its slots from the sampler's buffers and drafts from the context.

    The buffers are read on the host, which on a GPU waits for the device once a step.
    """

    def __init__(self, config: EngineConfig, states: RequestStates) -> None:
        super().__init__(config, states)
        self._settings: dict[int, DrySettings] = {}

    @classmethod
    def validate_params(cls, params: SamplingParams) -> None:
        """See ``read_settings``."""
        read_settings(params.extra_args)

    def add_request(self, slot: int, params: SamplingParams) -> bool:
        """Yes where there is a multiplier."""
        self._settings[slot] = read_settings(params.extra_args)
        return self._settings[slot].multiplier > 0

    def apply(self, logits: torch.Tensor, context: Context) -> torch.Tensor:
        """Subtract every row's penalties, each rounded once to float32, in place."""
        committed = self.states.all_token_ids.cpu
        total_len = self.states.total_len.cpu
        input_ids = context.input_ids.tolist()
        n_drafts = context.expanded_local_pos.tolist()
        for row, slot in enumerate(context.expanded_idx_mapping.tolist()):
            if self._settings[slot].multiplier == 0:
                continue
            drafts = input_ids[row + 1 - n_drafts[row] : row + 1]
            token_ids = committed[slot, : total_len[slot]].tolist() + drafts
            _subtract(logits[row], self._settings[slot].penalties(token_ids))
        return logits


def _subtract(row: torch.Tensor, penalties: Mapping[int, float]) -> None:
    # Admission keeps requests within the vocabulary, but nobody has looked at drafts.
    token_ids = [token for token in penalties if 0 <= token < len(row)]
    if token_ids:
        values = torch.tensor([penalties[token] for token in token_ids], dtype=torch.float64)
        row[token_ids] -= values.to(row)


def _match_lengths(token_ids: Sequence[int]) -> list[int]:
    """For each start, how many tokens from there on equal those from 0 on; 0 for start 0.

    In linear time: Z-algorithm (Gusfield, Algorithms on Strings, Trees, and Sequences, 1.4).
    """
    lengths = [0] * len(token_ids)
    left = right = 0
    for start in range(1, len(token_ids)):
        length = min(lengths[start - left], right - start) if start < right else 0
        while start + length < len(token_ids) and token_ids[length] == token_ids[start + length]:
            length += 1
        if start + length > right:
            left, right = start, start + length
        lengths[start] = length
    return lengths


def _power(base: float, exponent: int) -> float:
    try:
        return float(base) ** exponent
    except OverflowError:
        return math.inf


def _number(extra_args: Mapping[str, object], name: str, default: float) -> float:
    value = extra_args.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name} must be a number, got {value!r}")
    return float(value)
