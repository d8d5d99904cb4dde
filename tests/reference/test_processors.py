"""The stages before the filters, by hand and from public reports."""

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from sampler_reference.conventions import CONVENTIONS, Conventions
from sampler_reference.defect_laws import right_law
from sampler_reference.processors import PROCESSORS, process
from sampler_scenarios.params import STAGES, SamplingParams
from sampler_scenarios.requests import ModelConfig, Request

OURS = CONVENTIONS["sampler-audit"]
V1 = CONVENTIONS["vllm-pytorch"]
LLAMA = CONVENTIONS["llama.cpp"]
INF = math.inf
EOS = (4, 5)
NEUTRAL = SamplingParams()


def processed(
    row: list[float],
    params: SamplingParams = NEUTRAL,
    *,
    prompt: tuple[int, ...] = (),
    output: tuple[int, ...] = (),
    grammar: list[int] | None = None,
    conventions: Conventions = OURS,
) -> list[float]:
    """The row that reaches the filters."""
    allowed = None if grammar is None else np.array(grammar, dtype=np.bool_)
    request = Request(params, prompt, output, allowed)
    model = ModelConfig(vocab_size=len(row), eos_token_ids=EOS)
    x: list[float] = process(np.array(row, np.float32), request, model, conventions).tolist()
    return x


def probs(row: list[float]) -> NDArray[np.float64]:
    """The softmax of a row."""
    return right_law(np.array(row, np.float32), SamplingParams(), OURS)


def test_grammar_masks_what_it_does_not_allow() -> None:
    """vllm-project/vllm#54442: only id 4 is allowed, though id 1 leads by 10."""
    row = processed([0, 10, 0, 0, 0], grammar=[0, 0, 0, 0, 1])
    assert row == [-INF, -INF, -INF, -INF, 0]


def test_grammar_covers_the_padding_of_a_vocabulary() -> None:
    """mlc-ai/xgrammar#694 in small: 9 tokens, 12 logits, padding 0 above real logits of -1."""
    row = processed([-1.0] * 9 + [0.0] * 3, grammar=[1] * 9 + [0] * 3)
    assert row == [-1.0] * 9 + [-INF] * 3


def test_allowed_token_ids_are_the_only_ones() -> None:
    """vllm-project/vllm#14169: allowed {5}; a request without a list is unchanged."""
    assert processed([0, 1, 2, 3, 4, 5], SamplingParams(allowed_token_ids=(5,))) == [*[-INF] * 5, 5]
    assert processed([0, 1, 2], SamplingParams(allowed_token_ids=None)) == [0, 1, 2]


def test_an_allowed_token_that_is_banned_leaves_nothing() -> None:
    """vllm-project/vllm#57986: an allow-list and a bad word of the same one token."""
    assert (
        processed([0, 1, 2], SamplingParams(allowed_token_ids=(2,), bad_words=((2,),)))
        == [-INF] * 3
    )


def test_ids_outside_the_vocabulary_are_ignored() -> None:
    """In lists, biases, words and histories alike; negative ids do not count from the end."""
    assert processed(
        [1, 2, 3],
        SamplingParams(
            allowed_token_ids=(0, 1, 2, 3, -1),
            logit_bias={3: 5.0, -1: 5.0},
            bad_words=((3,), (-1,)),
            stop_token_ids=(3, -3),
            min_tokens=9,
            repetition_penalty=2.0,
            frequency_penalty=1.0,
            presence_penalty=1.0,
        ),
        prompt=(7, -1),
        output=(9, -2),
    ) == [1, 2, 3]


def test_logit_bias_is_added() -> None:
    """A masked token stays masked, whatever is added."""
    assert processed([1, 2, -INF], SamplingParams(logit_bias={1: 0.5, 2: 100.0})) == [1, 2.5, -INF]


# vllm-project/vllm#46243: min_tokens=4 lets the stop token through as the fifth, not the sixth.
@pytest.mark.parametrize(("n_output", "masked"), [(0, True), (3, True), (4, False), (5, False)])
def test_min_tokens_masks_until_the_output_has_as_many(n_output: int, masked: bool) -> None:
    """The edge is the length of the output; the prompt does not count."""
    row = processed(
        [0, 0, 0, 0, 9, 0], SamplingParams(min_tokens=4), prompt=(1,) * 7, output=(1,) * n_output
    )
    assert (row[4] == -INF) == masked


def test_min_tokens_masks_every_stop_token() -> None:
    """vllm-project/vllm#5849 and #32163: both end-of-sequence tokens, and the request's own."""
    row = processed([0.0] * 7, SamplingParams(min_tokens=1, stop_token_ids=(1,), ignore_eos=True))
    assert row == [0, -INF, 0, 0, -INF, -INF, 0]


def test_a_grammar_that_leaves_only_stop_tokens_gets_them_back() -> None:
    """The restore rule of vllm 0.32.0: those that were finite before; without a grammar nothing."""
    params, masked = SamplingParams(min_tokens=1), [-INF] * 4
    only_stops, one_more = [0, 0, 0, 0, 1, 1], [1, 0, 0, 0, 1, 1]
    assert processed([0, 0, 0, 0, 7, -INF], params, grammar=only_stops) == [*masked, 7, -INF]
    assert processed([0, 0, 0, 0, 7, INF], params, grammar=only_stops) == [*masked, 7, -INF]
    assert processed([0, 0, 0, 0, 7, 7], params, grammar=one_more) == [0, *[-INF] * 5]
    listed = SamplingParams(allowed_token_ids=(4,), min_tokens=1)
    assert processed([0, 0, 0, 0, 7, 7], listed) == [-INF] * 6


def test_repetition_penalty_makes_a_negative_logit_smaller() -> None:
    """huggingface/transformers#2302: logits -2.0 (seen) and -2.1, penalty 1.5: .289, not .683."""
    row = processed([-2.0, -2.1], SamplingParams(repetition_penalty=1.5), prompt=(0,))
    # 1 / (1 + exp(-2.1 + 3)); dividing would give -1.333 and 1 / (1 + exp(-2.1 + 1.333)).
    assert probs(row)[0] == pytest.approx(0.289, abs=5e-4)
    divided = replace(OURS, repetition_rule="divide")
    wrong = processed(
        [-2.0, -2.1], SamplingParams(repetition_penalty=1.5), prompt=(0,), conventions=divided
    )
    assert probs(wrong)[0] == pytest.approx(0.683, abs=5e-4)


def test_repetition_penalty_of_every_sign() -> None:
    """Positive is divided, negative multiplied, 0 and -inf stay; unseen tokens too."""
    params = SamplingParams(repetition_penalty=2.0)
    row = processed([3, -3, 0, -INF, 3, 0.5], params, prompt=(0, 1, 2), output=(3, 0, 5))
    assert row == [1.5, -6, 0, -INF, 3, 0.25]


def test_reciprocal_rounds_twice() -> None:
    """5 / 3 is 1.6666666 in float32; 5 times float32(1 / 3) = 11184811 * 2^-25 is 1.6666667."""
    assert processed([5], SamplingParams(repetition_penalty=3.0), prompt=(0,)) == [
        13981013 * 2.0**-23
    ]
    row = processed([5], SamplingParams(repetition_penalty=3.0), prompt=(0,), conventions=V1)
    assert row == [13981014 * 2.0**-23]


def test_presence_penalty_ignores_the_prompt() -> None:
    """vllm-project/vllm-metal#69: prompt A A A B, presence 1.5, first token: one third each."""
    assert processed([0, 0, 0], SamplingParams(presence_penalty=1.5), prompt=(0, 0, 0, 1)) == [
        0,
        0,
        0,
    ]
    wrong = processed(
        [0, 0, 0], SamplingParams(presence_penalty=1.5), prompt=(0, 0, 0, 1), conventions=LLAMA
    )
    # exp(-1.5) = .2231: .2231 / 1.4463 and 1 / 1.4463.
    assert probs(wrong) == pytest.approx([0.154, 0.154, 0.691], abs=5e-4)


def test_frequency_counts_and_presence_does_not() -> None:
    """Three occurrences cost three times the one and once the other."""
    assert processed([9, 9], SamplingParams(frequency_penalty=0.5), output=(0, 0, 0)) == [7.5, 9]
    assert processed([9, 9], SamplingParams(presence_penalty=0.5), output=(0, 0, 0)) == [8.5, 9]


def test_negative_penalties_reward() -> None:
    """From -2 on; both signs are allowed."""
    row = processed(
        [0], SamplingParams(frequency_penalty=-1.0, presence_penalty=-0.5), output=(0, 0)
    )
    assert row == [2.5]


def test_an_immediate_repeat_is_penalised() -> None:
    """vllm-project/vllm-ascend#7785: two equal logits, frequency 2: 1 / (1 + e^2) from token 2."""
    row = processed([0, 0], SamplingParams(frequency_penalty=2.0), output=(0,))
    assert probs(row)[0] == pytest.approx(1 / (1 + math.exp(2)))


def test_the_product_of_a_frequency_is_rounded() -> None:
    """1 - fl(fl(.3) * 5): the product 1.50000005960 rounds to 1.5; a fused one gives -.50000006."""
    assert processed([1], SamplingParams(frequency_penalty=0.3), output=(0,) * 5) == [-0.5]


# abetlen/llama-cpp-python#1295: history 7 7 7 7 1 2 3 4 and a window of 4; the fifth is a 7.
@pytest.mark.parametrize(
    ("window", "seen"), [(4, [1, 2, 3, 4]), (5, [1, 2, 3, 4, 7]), (0, [1, 2, 3, 4, 7])]
)
def test_a_window_holds_the_last_tokens(window: int, seen: list[int]) -> None:
    """Not the first ones; 0 is no limit."""
    conventions = replace(LLAMA, penalty_window=window)
    params = SamplingParams(presence_penalty=1.0)
    prompt, output = (7, 7, 7, 7, 1), (2, 3, 4)
    row = processed([0.0] * 8, params, prompt=prompt, output=output, conventions=conventions)
    assert np.flatnonzero(row).tolist() == seen


@pytest.mark.parametrize(
    ("name", "expected"),
    # Token 0 in the prompt, 1 in the output: who is divided by 2, who loses 1.
    [
        ("sampler-audit", [2, 1, 4]),
        ("vllm-pytorch", [2, 1, 4]),
        ("huggingface", [2, 2, 4]),
        ("flashinfer", [4, 1.5, 4]),
        ("llama.cpp", [1, 1, 4]),
    ],
)
def test_scopes_of_engines(name: str, expected: list[float]) -> None:
    """Which penalties see the prompt, which engine has them, and which subtracts first."""
    row = processed(
        [4, 4, 4],
        SamplingParams(repetition_penalty=2.0, presence_penalty=1.0),
        prompt=(0,),
        output=(1,),
        conventions=CONVENTIONS[name],
    )
    assert row == expected


@pytest.mark.parametrize(
    ("word", "banned"),
    [
        ((2,), True),
        ((1, 2), True),
        ((0, 1, 2), True),
        # The history must end with the prefix, in order, and hold all of it.
        ((0, 2), False),
        ((1, 0, 2), False),
        # The prompt ends with 3 and the output is 0 1: this word would need both.
        ((3, 0, 1, 2), False),
        ((2, 3, 0, 1, 2), False),
    ],
)
def test_bad_words(word: tuple[int, ...], banned: bool) -> None:
    """The last token is banned where the output ends with the others; one token always."""
    row = processed([0, 0, 0, 0], SamplingParams(bad_words=(word,)), prompt=(2, 3), output=(0, 1))
    assert (row == [0, 0, -INF, 0]) == banned
    assert (row == [0, 0, 0, 0]) == (not banned)


def test_words_of_transformers_begin_in_the_prompt_too() -> None:
    """As in transformers 5.20.0, whose input_ids hold both."""
    row = processed(
        [0, 0, 0, 0],
        SamplingParams(bad_words=((3, 0, 1, 2),)),
        prompt=(3,),
        output=(0, 1),
        conventions=CONVENTIONS["huggingface"],
    )
    assert row == [0, 0, -INF, 0]


def test_stages_act_in_the_order_of_the_conventions() -> None:
    """6 + 2 = 8, halved 4, minus 1 is 3 with vLLM; sglang: 6 - 1, halved 2.5, plus 2 is 4.5."""
    params = SamplingParams(logit_bias={0: 2.0}, repetition_penalty=2.0, presence_penalty=1.0)
    assert processed([6], params, output=(0,)) == [3]
    sglang = CONVENTIONS["flashinfer"]
    assert processed([6], params, output=(0,), conventions=sglang) == [4.5]


def test_custom_processors_come_before_or_after_the_penalties() -> None:
    """DRY takes 1 off token 0 of 0 0 0: (8 / 2) - 1 with V2, (8 - 1) / 2 with V1."""
    params = SamplingParams(repetition_penalty=2.0, extra_args={"dry_multiplier": 1.0})
    assert processed([8], params, output=(0, 0, 0)) == [3]
    assert processed([8], params, output=(0, 0, 0), conventions=V1) == [3.5]


def test_every_stage_has_a_function() -> None:
    """And the default order is that of the names."""
    assert tuple(PROCESSORS) == STAGES == OURS.processing
