"""The two stages with rules about sequences: DRY and the thinking budget."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampler_reference.conventions import CONVENTIONS
from sampler_reference.processors import process, repeat_lengths
from sampler_scenarios.params import SamplingParams
from sampler_scenarios.requests import ModelConfig, Request
from sampler_scenarios.stages import audit_model

OURS = CONVENTIONS["sampler-audit"]
INF = math.inf


def test_repeat_lengths_of_a_published_example() -> None:
    """llama.cpp, llama_sampler_dry_apply: of a b c c b c y a b c, three end where c follows."""
    a, b, c, y = range(4)
    lengths = repeat_lengths((a, b, c, c, b, c, y, a, b, c), frozenset())
    assert lengths == {c: 3, b: 1, y: 2}


def test_repetitions_may_overlap() -> None:
    """Of 0 0 0 the first two are also the last two."""
    assert repeat_lengths((0, 0, 0), frozenset()) == {0: 2}


def test_breakers_end_a_repetition_and_are_never_penalised() -> None:
    """8 before the pair stops it at two; an end that is a breaker repeats nothing."""
    tokens = (8, 1, 2, 3, 8, 1, 2)
    assert repeat_lengths(tokens, frozenset()) == {3: 3}
    assert repeat_lengths(tokens, frozenset({8})) == {3: 2}
    assert repeat_lengths(tokens, frozenset({2})) == {}
    assert repeat_lengths(tokens, frozenset({3})) == {}


@given(st.lists(st.integers(0, 3), max_size=24), st.sets(st.integers(0, 3), max_size=1))
def test_repeat_lengths_are_the_longest_common_ends(tokens: list[int], breakers: set[int]) -> None:
    """By the definition: every earlier place and every length is tried."""
    expected: dict[int, int] = {}
    for at in range(1, len(tokens)):
        for n in range(1, at + 1):
            end = tokens[len(tokens) - n :]
            free = not breakers & {*end, tokens[at]}
            if free and tokens[at - n : at] == end:
                expected[tokens[at]] = max(n, expected.get(tokens[at], 0))
    assert repeat_lengths(tokens, frozenset(breakers)) == expected


def dry(**settings: object) -> list[float]:
    """The published example's four tokens, in the prompt and the output together."""
    args = {"dry_multiplier": 0.8, **{f"dry_{name}": value for name, value in settings.items()}}
    request = Request(SamplingParams(extra_args=args), (0, 1, 2, 2, 1), (2, 3, 0, 1, 2))
    x = process(np.zeros(4, np.float32), request, ModelConfig(vocab_size=4), OURS)
    penalties: list[float] = x.tolist()
    return penalties


def f32(*values: float) -> list[float]:
    """The nearest float32 of each, as Python floats."""
    return [float(np.float32(value)) for value in values]


def test_dry_penalty_grows_with_the_length() -> None:
    """By ``multiplier * base ** (length - allowed)``: c 3, b 1, y 2 tokens, allowed 2."""
    assert dry() == f32(0, 0, -0.8 * 1.75, -0.8)
    assert dry(base=3.0, allowed_length=1) == f32(0, -0.8, -0.8 * 9, -0.8 * 3)
    assert dry(sequence_breakers=(0,)) == f32(0, 0, -0.8, -0.8)
    assert dry(multiplier=0.0) == [0, 0, 0, 0]


def test_a_dry_penalty_beyond_float32_masks() -> None:
    """1e40 ** 3 is no float32: the token cannot be drawn."""
    assert dry(base=1e40, allowed_length=0)[2] == -INF


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"multiplier": "much"}, "dry_multiplier must be a number, got 'much'"),
        ({"sequence_breakers": ["\n"]}, "dry_sequence_breakers must be token ids, got"),
    ],
)
def test_dry_arguments_of_the_wrong_kind(settings: dict[str, object], message: str) -> None:
    """Named, with what is allowed."""
    with pytest.raises(ValueError, match=message):
        dry(**settings)


def forced(*token_ids: int, budget: int = 2, end: tuple[int, ...] = (3, 4)) -> int | None:
    """The token that is forced after a history; reasoning opens with 1 2."""
    model = ModelConfig(vocab_size=8, reasoning_start=(1, 2), reasoning_end=end)
    request = Request(SamplingParams(thinking_token_budget=budget), token_ids[:1], token_ids[1:])
    x = process(np.zeros(8, np.float32), request, model, OURS)
    ids = np.flatnonzero(x)
    assert x[ids].tolist() in ([], [1e9])
    return int(ids[0]) if ids.size else None


@pytest.mark.parametrize(
    ("history", "token"),
    [
        ((1, 2), None),
        ((1, 2, 7), None),
        ((1, 2, 7, 7), 3),
        ((1, 2, 7, 7, 7), 3),
        # The end has begun: by force, or by chance where the budget is spent with it.
        ((1, 2, 7, 7, 3), 4),
        ((1, 2, 7, 3), 4),
        # Ended, or never begun; 1 alone is no marker.
        ((1, 2, 7, 7, 3, 4), None),
        ((7, 7, 7, 7), None),
        ((1, 7, 7, 7), None),
        # Opened again after an end: the new block counts.
        ((1, 2, 7, 3, 4, 1, 2), None),
        ((1, 2, 7, 3, 4, 1, 2, 7, 7), 3),
        # Opened twice: from the last opening on.
        ((1, 2, 7, 1, 2, 7), None),
        ((0,), None),
    ],
)
def test_thinking_budget_of_two(history: tuple[int, ...], token: int | None) -> None:
    """Forced where reasoning is open and two tokens followed its start marker."""
    assert forced(*history) == token


def test_a_budget_of_nothing_ends_at_once() -> None:
    """Right after the start marker."""
    assert forced(1, 2, budget=0) == 3


def test_of_two_ends_that_fit_the_longer_goes_on() -> None:
    """End 3 3 4 after 3 3: the token after two of it, not after one."""
    assert forced(1, 2, 3, 3, end=(3, 3, 4)) == 4
    assert forced(1, 2, 7, 3, end=(3, 3, 4)) == 3


def test_other_tokens_stay_and_a_mask_does_not_hold() -> None:
    """Not masked; the forced token gets its logit even where a grammar had refused it."""
    model = ModelConfig(vocab_size=5, reasoning_start=(1,), reasoning_end=(3,))
    grammar = np.array([1, 1, 1, 0, 1], dtype=np.bool_)
    request = Request(SamplingParams(thinking_token_budget=0), (1,), (), grammar)
    x = process(np.arange(5, dtype=np.float32), request, model, OURS)
    assert x.tolist() == [0, 1, 2, 1e9, 4]


@pytest.mark.parametrize("model", [ModelConfig(vocab_size=3), audit_model(3)])
def test_a_model_or_request_without_reasoning_has_no_budget(model: ModelConfig) -> None:
    """No markers, or no budget."""
    budget = 0 if not model.reasoning_start else None
    request = Request(SamplingParams(thinking_token_budget=budget), model.reasoning_start)
    assert not process(np.zeros(3, np.float32), request, model, OURS).any()
