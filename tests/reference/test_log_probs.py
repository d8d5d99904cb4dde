"""Log-probs, lists and ranks by hand, and what must hold of every list."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sampler_reference import log_probs as lp
from sampler_reference.conventions import CONVENTIONS
from sampler_scenarios.params import SamplingParams
from sampler_scenarios.requests import ModelConfig, Request

OURS = CONVENTIONS["sampler-audit"]
INF = math.inf


def row(*values: float) -> NDArray[np.float32]:
    """Float32 logits."""
    return np.array(values, dtype=np.float32)


P4 = np.log(np.array([0.1, 0.2, 0.3, 0.4])).astype(np.float32)


def values_of(
    logits: NDArray[np.float32],
    mode: str,
    params: SamplingParams,
    grammar: NDArray[np.bool_] | None = None,
) -> list[float]:
    """Of our own conventions, on a model without end-of-sequence tokens."""
    request = Request(params, grammar=grammar)
    values = lp.values_of(logits, request, ModelConfig(vocab_size=logits.size), OURS, mode)
    assert values.dtype == np.float64
    return [float(value) for value in values]


@pytest.mark.parametrize(
    ("params", "mode", "expected"),
    # vllm-project/vllm#42259 and others: P4, temperature .5, top_k 2, from the report's figures.
    [
        (
            SamplingParams(temperature=0.5, top_k=2),
            "raw_logprobs",
            [-2.303, -1.609, -1.204, -0.916],
        ),
        (SamplingParams(temperature=0.5), "processed_logprobs", [-3.401, -2.015, -1.204, -0.629]),
        (
            SamplingParams(temperature=0.5, top_k=2),
            "processed_logprobs",
            [-INF, -INF, -1.022, -0.446],
        ),
    ],
)
def test_raw_and_processed_log_probs_of_a_report(
    params: SamplingParams, mode: str, expected: list[float]
) -> None:
    """Raw knows neither temperature nor filters; processed is renormalised over what they leave."""
    assert values_of(P4, mode, params) == pytest.approx(expected, abs=6e-4)


def test_logits_are_reported_as_they_are() -> None:
    """Raw: the model's own; processed: biased, halved by temperature 2, masked by top_k."""
    params = SamplingParams(temperature=2, top_k=2, logit_bias={0: 3})
    assert values_of(row(4, 6, 1), "raw_logits", params) == [4, 6, 1]
    assert values_of(row(4, 6, 1), "processed_logits", params) == [3.5, 3, -INF]


def test_raw_values_follow_the_grammar() -> None:
    """It is applied to the sampler's input: 1 / (1 + e) of the two that it allows."""
    allowed = np.array([True, False, True])
    expected = [-math.log(1 + math.e), -INF, 1 - math.log(1 + math.e)]
    assert values_of(row(0, 5, 1), "raw_logprobs", SamplingParams(), allowed) == pytest.approx(
        expected
    )


def test_a_greedy_request_is_neither_divided_nor_filtered() -> None:
    """Its stages count all the same."""
    params = SamplingParams(temperature=0, top_k=1, presence_penalty=1, logit_bias={1: 1})
    assert values_of(row(2, 1, 0), "processed_logits", params) == [2, 2, 0]


def test_unknown_mode_is_refused() -> None:
    """The message lists the four."""
    with pytest.raises(ValueError, match="unknown mode of log-probs 'raw'; known: raw_logprobs, "):
        values_of(P4, "raw", SamplingParams())


def test_log_softmax_of_huge_and_masked_rows() -> None:
    """No overflow; a row without a token stays masked; NaN and +inf spoil their own row alone."""
    rows = np.array([[1e30, -1e30, -INF], [-INF] * 3, [0, math.nan, 0], [INF, 0, 0]])
    huge, masked, *spoilt = lp.log_softmax(rows)
    assert huge.tolist() == [0, -2e30, -INF]
    assert masked.tolist() == [-INF] * 3
    assert np.isnan(spoilt).all()


def test_ranks_count_the_values_at_least_as_large() -> None:
    """Two tied for the best are both second; a NaN is at least nothing."""
    values = np.array([3.0, 5.0, 5.0, -INF, math.nan])
    assert lp.ranks_of(values, np.array([1, 2, 0, 3])).tolist() == [2, 2, 3, 4]


def test_top_ids_break_ties_by_the_lowest_id() -> None:
    """-1 is all of them, and so is more than there are."""
    values = np.array([1.0, 7.0, 3.0, 7.0])
    assert lp.top_ids(values, 2).tolist() == [1, 3]
    assert lp.top_ids(values, 0).tolist() == []
    assert lp.top_ids(values, -1).tolist() == lp.top_ids(values, 9).tolist() == [1, 3, 2, 0]


@pytest.mark.parametrize(
    ("sampled", "n", "token_ids", "ranks"),
    [
        # vllm-project/vllm#36746: logits 9 8 7 6, three wanted.
        (0, 3, [0, 1, 2], [1, 2, 3]),
        (2, 3, [2, 0, 1], [3, 1, 2]),
        (3, 3, [3, 0, 1, 2], [4, 1, 2, 3]),
        (3, 0, [3], [4]),
        (1, -1, [1, 0, 2, 3], [2, 1, 3, 4]),
    ],
)
def test_sampled_token_is_listed_first_and_once(
    sampled: int, n: int, token_ids: list[int], ranks: list[int]
) -> None:
    """Whether or not it is among the likeliest."""
    listing = lp.list_tokens(np.array([9.0, 8, 7, 6]), sampled, n)
    assert listing.token_ids.tolist() == token_ids
    assert listing.ranks.tolist() == ranks
    assert listing.values.tolist() == [9.0 - token for token in token_ids]


def test_chosen_ids_replace_the_likeliest() -> None:
    """In their own order, the sampled one not twice."""
    listing = lp.list_tokens(np.array([9.0, 8, 7, 6]), 2, 2, chosen=(3, 2, 0))
    assert listing.token_ids.tolist() == [2, 3, 0]
    assert listing.ranks.tolist() == [3, 4, 1]


values = st.lists(st.sampled_from([-INF, -2.0, 0.0, 0.5, 3.0]), min_size=1, max_size=9)


@settings(derandomize=True)
@given(values=values.map(np.array), n=st.integers(-1, 10), data=st.data())
def test_every_list_is_in_order(values: NDArray[np.float64], n: int, data: st.DataObject) -> None:
    """Distinct ids, values falling after the sampled token, ranks by definition, mass at most 1."""
    sampled = data.draw(st.integers(0, values.size - 1))
    listing = lp.list_tokens(lp.log_softmax(values), sampled, n)
    ids = listing.token_ids
    assert ids[0] == sampled
    assert np.unique(ids).size == ids.size
    assert np.array_equal(listing.ranks, [(values >= values[t]).sum() for t in ids])
    assert (listing.values[1:-1] >= listing.values[2:]).all()
    assert np.exp(listing.values).sum() < 1 + 1e-12
    wanted = values.size if n < 0 else min(n, values.size)
    assert wanted <= ids.size <= wanted + 1


def test_prompt_row_scores_the_next_prompt_token() -> None:
    """Prompt 2 0 1: row 0 scores 0, row 1 scores 1, row 2 is the first draw's."""
    logits = np.stack([row(1, 1, 1), row(0, math.log(3), -INF), row(5, 0, 0)])
    first, second = lp.prompt_listings(logits, (2, 0, 1), 1, "raw_logprobs")
    assert (first.token_ids.tolist(), first.ranks.tolist()) == ([0], [3])
    assert first.values == pytest.approx([-math.log(3)])
    assert (second.token_ids.tolist(), second.ranks.tolist()) == ([1], [1])
    assert second.values == pytest.approx([math.log(3 / 4)])


@pytest.mark.parametrize("mode", ["raw_logits", "processed_logits"])
def test_prompt_logits_are_not_normalised(mode: str) -> None:
    """vllm-project/vllm#47680: where the largest logit is 12, 12 is reported on the prompt side."""
    (listing,) = lp.prompt_listings(row(12, 3)[None], (1, 0), 0, mode)
    assert listing.values.tolist() == [12]


def test_prompt_listings_are_the_same_for_every_chunking() -> None:
    """A row's listing is its own: prompts scored in one piece or in two."""
    logits = np.random.default_rng(3).normal(size=(6, 9)).astype(np.float32)
    prompt = (4, 1, 8, 8, 0, 3)
    whole = lp.prompt_listings(logits, prompt, 2, "raw_logprobs")
    parts = [
        *lp.prompt_listings(logits[:2], prompt[:3], 2, "raw_logprobs"),
        *lp.prompt_listings(logits[2:], prompt[2:], 2, "raw_logprobs"),
    ]
    assert len(whole) == len(parts) == 5
    for a, b in zip(whole, parts, strict=True):
        assert np.array_equal(a.token_ids, b.token_ids)
        assert np.array_equal(a.values, b.values)


def test_prompt_of_one_token_has_nothing_to_score_and_missing_rows_are_refused() -> None:
    """The first token follows nothing."""
    assert lp.prompt_listings(np.zeros((0, 3), np.float32), (1,), 1, "raw_logprobs") == []
    with pytest.raises(ValueError, match="logits must have at least 2 rows, got 1"):
        lp.prompt_listings(np.zeros((1, 3), np.float32), (1, 2, 0), 1, "raw_logprobs")
