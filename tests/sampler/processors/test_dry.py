"""The DRY example: its definition by hand, its arguments, and the reference on random histories."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sampler_audit.sampler.processors.examples.dry import (
    Dry,
    DrySettings,
    read_settings,
    repeated_lengths,
)
from sampler_reference.conventions import CONVENTIONS
from sampler_reference.processors import PROCESSORS
from sampler_scenarios.params import SamplingParams
from sampler_scenarios.requests import ModelConfig, Request


# By hand: the end of the history, where it stood before, and what came next there.
@pytest.mark.parametrize(
    ("token_ids", "breakers", "lengths"),
    [
        # "1 2" stood before 3.
        ([1, 2, 3, 1, 2], set(), {3: 2}),
        # The longest counts: "2" alone came before 5, "1 2" before 3.
        ([2, 5, 1, 2, 3, 1, 2], set(), {5: 1, 3: 2}),
        # "2" came before 3, and later "2 3 1 2" did.
        ([9, 2, 3, 1, 2, 3, 1, 2], set(), {3: 4}),
        # Occurrences overlap.
        ([7, 7, 7, 7], set(), {7: 3}),
        # A breaker in the repetition cuts it short.
        ([1, 2, 3, 1, 2], {1}, {3: 1}),
        # The last token is a breaker: there is no repetition.
        ([1, 2, 3, 1, 2], {2}, {}),
        # A breaker is never penalised.
        ([1, 2, 3, 1, 2], {3}, {}),
        # Nothing stood before.
        ([1, 2, 3], set(), {}),
        ([4], set(), {}),
        ([], set(), {}),
    ],
)
def test_lengths_of_repetitions(
    token_ids: list[int], breakers: set[int], lengths: dict[int, int]
) -> None:
    """By the token that would prolong each."""
    assert repeated_lengths(token_ids, frozenset(breakers)) == lengths


def test_penalties_grow_with_length() -> None:
    """2 * 3**(n - 2): a repetition of 1 is free, one of 2 costs 2, one of 3 costs 6."""
    dry = DrySettings(multiplier=2, base=3, allowed_length=2)
    assert dry.penalties([2, 5, 1, 2, 3, 1, 2]) == {3: 2}
    assert dry.penalties([7, 7, 7, 7]) == {7: 6}


def test_a_penalty_beyond_float64_is_infinite() -> None:
    """2**1998 is."""
    assert DrySettings(multiplier=1, base=2).penalties([7] * 2001) == {7: math.inf}


def test_defaults() -> None:
    """Off, 1.75, 2 and no breakers (those of the method's author, but for the breakers)."""
    assert read_settings({}) == DrySettings(0, 1.75, 2, frozenset())


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("dry_multiplier", -1, "dry_multiplier must be finite and >= 0, got -1.0"),
        ("dry_multiplier", math.inf, "dry_multiplier must be finite and >= 0, got inf"),
        ("dry_multiplier", "1", "dry_multiplier must be a number, got '1'"),
        ("dry_base", 0.5, "dry_base must be finite and >= 1, got 0.5"),
        ("dry_base", True, "dry_base must be a number, got True"),
        ("dry_allowed_length", 0, "dry_allowed_length must be an integer >= 1, got 0"),
        ("dry_allowed_length", 2.0, "dry_allowed_length must be an integer >= 1, got 2.0"),
        (
            "dry_sequence_breakers",
            ["\n"],
            "dry_sequence_breakers must be a list of token ids, got ['\\n']",
        ),
    ],
)
def test_refusals(name: str, value: object, message: str) -> None:
    """The argument, what is allowed, what was given."""
    with pytest.raises(ValueError, match=name) as raised:
        Dry.validate_params(SamplingParams(extra_args={name: value}))
    assert str(raised.value) == message


@settings(derandomize=True, deadline=None)
@given(
    token_ids=st.lists(st.integers(0, 4), max_size=30),
    breakers=st.lists(st.integers(0, 4), max_size=2),
    allowed_length=st.integers(1, 4),
)
def test_penalties_are_those_of_the_reference(
    token_ids: list[int], breakers: list[int], allowed_length: int
) -> None:
    """Which compares every pair of ends; here a linear algorithm finds them."""
    extra_args: dict[str, object] = {
        "dry_multiplier": 0.8,
        "dry_allowed_length": allowed_length,
        "dry_sequence_breakers": breakers,
    }
    request = Request(SamplingParams(extra_args=extra_args), tuple(token_ids))
    model, conventions = ModelConfig(vocab_size=5), CONVENTIONS["sampler-audit"]
    expected = PROCESSORS["processor"](np.zeros(5, np.float32), request, model, conventions)
    penalties = read_settings(extra_args).penalties(token_ids)
    assert expected.tolist() == [-float(np.float32(penalties.get(t, 0))) for t in range(5)]
