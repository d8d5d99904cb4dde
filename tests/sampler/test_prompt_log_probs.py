import numpy as np
import pytest
import torch

from sampler_audit.sampler.batched import BatchedSampler
from sampler_audit.sampler.log_probs import LogProbsMode
from sampler_audit.sampler.prompt_log_probs import PromptLogProbs
from sampler_kernels import mass_error
from sampler_reference.log_probs import prompt_listings
from sampler_scenarios.params import SamplingParams
from sampler_scenarios.requests import ModelConfig, Request

RNG = np.random.default_rng(4)
PROMPT = tuple(RNG.integers(0, 50, 23).tolist())
LOGITS = (np.round(RNG.normal(0, 3, (23, 50)) * 4) / 4).astype(np.float32)


def listed(*chunks: int, n: int = 3, mode: LogProbsMode = "raw_logprobs") -> PromptLogProbs:
    """The prompt in chunks of these lengths, the rest in one."""
    prompt = PromptLogProbs(PROMPT, n, mode=mode, path="twin")
    for rows in np.split(LOGITS, np.cumsum(chunks)):
        prompt.add(torch.from_numpy(rows))
    return prompt


@pytest.mark.parametrize("mode", ["raw_logprobs", "processed_logits"])
@pytest.mark.parametrize("n", [0, 3, -1])
def test_listings_are_the_references(n: int, mode: LogProbsMode) -> None:
    """Row i scores token i + 1; the first token has no listing, the last row scores nothing."""
    first, *listings = listed(n=n, mode=mode).listings
    right = prompt_listings(LOGITS, PROMPT, n, mode)
    assert first is None
    for listing, expected in zip(listings, right, strict=True):
        assert listing is not None
        assert listing.token_ids.tolist() == expected.token_ids.tolist()
        assert listing.ranks.tolist() == expected.ranks.tolist()
        # The kernels' own error, and one rounding to float32.
        rtol, atol = (0.0, 0.0) if "logits" in mode else (2.0**-24, mass_error(50))
        np.testing.assert_allclose(listing.values, expected.values, rtol, atol)


@pytest.mark.parametrize("chunks", [[1] * 22, [22], [5, 1, 7], [0, 23, 0]])
def test_every_chunking_gives_the_same_bits(chunks: list[int]) -> None:
    """Whether a chunk is one row, all but the last, or empty."""
    whole = listed().listings[1:]
    for listing, expected in zip(listed(*chunks).listings[1:], whole, strict=True):
        assert listing is not None
        assert expected is not None
        assert listing.values.tobytes() == expected.values.tobytes()
        assert listing.token_ids.tolist() == expected.token_ids.tolist()
        assert listing.ranks.tolist() == expected.ranks.tolist()


def test_more_rows_than_tokens() -> None:
    """Somebody else's rows are among them."""
    with pytest.raises(ValueError, match=r"^a prompt of 23 tokens has as many rows .* got 24$"):
        listed().add(torch.zeros(1, 50))


def test_chosen_tokens_from_a_row_on() -> None:
    """Rows 2 and 3 list their own ids behind the prompt's token; the other tokens list nothing."""
    prompt = PromptLogProbs(
        PROMPT, 0, mode="raw_logprobs", path="twin", chosen=((7, 8), (9,)), start=2
    )
    prompt.add(torch.from_numpy(LOGITS))
    listed_ids = [None if each is None else each.token_ids.tolist() for each in prompt.listings]
    assert listed_ids[3] == [PROMPT[3], 7, 8]
    assert listed_ids[4] == [PROMPT[4], 9]
    assert listed_ids[:3] == [None] * 3
    assert listed_ids[5:] == [None] * 18


def test_a_request_lists_its_prompt_through_the_sampler() -> None:
    """Another one, that did not ask, is told so."""
    sampler = BatchedSampler(ModelConfig(vocab_size=50), path="twin", rng=RNG, max_requests=2)
    asked = sampler.add(Request(SamplingParams(prompt_logprobs=3), PROMPT))
    silent = sampler.add(Request(SamplingParams(), PROMPT))
    found = sampler.prompt_log_probs(asked, torch.from_numpy(LOGITS[:9]))
    expected = listed(9).listings
    assert [each and each.token_ids.tolist() for each in found] == [
        each and each.token_ids.tolist() for each in expected[:10]
    ]
    with pytest.raises(ValueError, match=r"^prompt_logprobs must be set where .* got None$"):
        sampler.prompt_log_probs(silent, torch.from_numpy(LOGITS[:9]))
