"""Listings of a step against the float64 reference, and that mates do not disturb them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest
import torch

from sampler_audit.sampler.admission import Limits
from sampler_audit.sampler.batched import BatchedSampler
from sampler_audit.sampler.log_probs import LogProbsMode, TokenLogProbs
from sampler_kernels import mass_error
from sampler_reference.conventions import CONVENTIONS
from sampler_reference.log_probs import list_tokens, values_of
from sampler_scenarios.params import SamplingParams
from sampler_scenarios.requests import ModelConfig, Request

DRY = "sampler_audit.sampler.processors.examples.dry:Dry"
Make = Callable[..., Any]
OWN = CONVENTIONS["sampler-audit"]
WANTS: tuple[dict[str, Any], ...] = (
    {"logprobs": 0},
    {"logprobs": 5},
    {"logprobs": -1},
    {"logprobs": 3, "logprob_token_ids": (7, 0, 39)},
    {"logprob_token_ids": (20, 21)},
    {"logprobs": 5},
    {},
)


def build(model: ModelConfig, **options: Any) -> BatchedSampler:
    """A sampler on the twins that lists as many tokens as anybody wants."""
    defaults: dict[str, Any] = {
        "path": "twin",
        "processors": [DRY],
        "max_requests": 8,
        "limits": Limits(max_logprobs=-1),
    }
    return BatchedSampler(model, rng=np.random.default_rng(1), **(defaults | options))


def scene_of(seed: int, random_request: Make, random_scene: Make, most_drafts: int = 0) -> Any:
    """A request for each of WANTS, of all kinds otherwise, at one step."""
    rng, requests = np.random.default_rng(seed), []
    for i, wants in enumerate(WANTS):
        request = random_request(rng, 0.3)
        requests.append(replace(request, params=replace(request.params, seed=i, **wants)))
    return random_scene(rng, requests, most_drafts)


def assert_same(got: TokenLogProbs, expected: TokenLogProbs) -> None:
    """Bit for bit."""
    for name in ("token_ids", "values", "ranks"):
        np.testing.assert_array_equal(getattr(got, name), getattr(expected, name))


@pytest.mark.parametrize("mode", get_args(LogProbsMode))
@pytest.mark.parametrize("path", ["kernel", "twin"])
def test_listings_are_the_references(
    path: str, mode: LogProbsMode, model: ModelConfig, random_request: Make, random_scene: Make
) -> None:
    """The sampled token first, ids distinct, ranks under ties, all four modes, with grammars.

    Logits are equal, and log-probs as near as the fixed-point masses of the kernels (their stated
    error) and one rounding to float32 (2^-24 of its size).
    """
    for seed in range(1 if path == "kernel" else 6):
        scene = scene_of(seed, random_request, random_scene)
        sampler = build(model, path=path, log_probs_mode=mode)
        slots = [sampler.add(request) for request in scene.requests]
        step = sampler.step(torch.from_numpy(scene.logits), slots, grammar=scene.grammar)
        for row, request, (token,), listings in zip(
            scene.logits, scene.rows, step.token_ids, step.log_probs, strict=True
        ):
            params = request.params
            if params.logprobs is None and params.logprob_token_ids is None:
                assert listings is None
            elif token >= 0:
                assert listings is not None
                values = values_of(row, request, model, OWN, mode)
                right = list_tokens(values, token, params.logprobs or 0, params.logprob_token_ids)
                assert listings[0].token_ids.tolist() == right.token_ids.tolist()
                assert listings[0].ranks.tolist() == right.ranks.tolist()
                rtol, atol = (0.0, 0.0) if "logits" in mode else (2.0**-24, mass_error(40))
                np.testing.assert_allclose(listings[0].values, right.values, rtol, atol)


def test_mates_do_not_disturb_a_listing(
    model: ModelConfig, random_request: Make, random_scene: Make
) -> None:
    """Chosen ids replace nobody else's; more or fewer tokens elsewhere change no bit."""
    scene = scene_of(8, random_request, random_scene)
    logits = torch.from_numpy(scene.logits)
    sampler = build(model)
    slots = [sampler.add(request) for request in scene.requests]
    together = sampler.step(logits, slots).log_probs
    for index, slot in enumerate(slots):
        alone = sampler.step(logits[index : index + 1], [slot]).log_probs[0]
        for mine, expected in zip(together[index] or (), alone or (), strict=True):
            assert_same(mine, expected)


def test_a_listing_for_each_emitted_token(
    model: ModelConfig, random_request: Make, random_scene: Make
) -> None:
    """With drafts: token i of a request is listed from its row i, as if it were alone there."""
    scene = scene_of(9, random_request, random_scene, most_drafts=2)
    logits = torch.from_numpy(scene.logits)
    sampler = build(model, max_drafts=2)
    slots = [sampler.add(request) for request in scene.requests]
    step = sampler.step(logits, slots, scene.drafts, grammar=scene.grammar)
    first = 0
    for request, drafts, tokens, listings in zip(
        scene.requests, scene.drafts, step.token_ids, step.log_probs, strict=True
    ):
        for i, listing in enumerate(listings or ()):
            values = values_of(
                scene.logits[first + i], scene.rows[first + i], model, OWN, "raw_logprobs"
            )
            params = request.params
            right = list_tokens(values, tokens[i], params.logprobs or 0, params.logprob_token_ids)
            assert listing.token_ids.tolist() == right.token_ids.tolist()
        assert listings is None or len(listings) == len(tokens)
        first += 1 + len(drafts)


def test_the_traced_token_is_listed() -> None:
    """With what the model gives it, though it was not drawn."""
    sampler = build(ModelConfig(vocab_size=4))
    slot = sampler.add(Request(SamplingParams(temperature=0, trace_token_ids=(2,), logprobs=1)))
    (listing,) = sampler.step(torch.tensor([[3.0, 0, -1, 0]]), [slot]).log_probs[0] or ()
    assert listing.token_ids.tolist() == [2, 0]
    assert listing.ranks.tolist() == [4, 1]


def test_nothing_drawn_is_listed_as_masked() -> None:
    """A row without a token: -1 has no probability and no rank."""
    sampler = build(ModelConfig(vocab_size=4))
    slot = sampler.add(Request(SamplingParams(logprobs=1)))
    (listing,) = sampler.step(torch.full((1, 4), -torch.inf), [slot]).log_probs[0] or ()
    assert (listing.token_ids[0], listing.values[0], listing.ranks[0]) == (-1, -np.inf, 0)
