"""The draw: its noise, its two paths, and that neither batch nor row nor order matters."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from sampler_audit.sampler.batched import BatchedSampler
from sampler_audit.sampler.draw import FUSED_OBSTACLES, DrawPath
from sampler_reference.conventions import CONVENTIONS, Conventions
from sampler_reference.distribution import reference_distribution, scaled
from sampler_reference.noise import accepts
from sampler_reference.processors import process
from sampler_scenarios.params import SamplingParams
from sampler_scenarios.requests import ModelConfig, Request

DRY = "sampler_audit.sampler.processors.examples.dry:Dry"
Make = Callable[..., Any]


def build(model: ModelConfig, **options: Any) -> BatchedSampler:
    """A sampler of eight slots on the twins, unless the options say otherwise."""
    defaults: dict[str, Any] = {"path": "twin", "processors": [DRY], "max_requests": 8}
    return BatchedSampler(model, rng=np.random.default_rng(1), **(defaults | options))


def draw(sampler: BatchedSampler, scene: Any, order: list[int]) -> list[int]:
    """The tokens of the scene's requests, stepped in this order of rows, by request."""
    slots = {i: sampler.add(scene.requests[i]) for i in order}
    logits = torch.from_numpy(scene.logits[order])
    step = sampler.step(
        logits, [slots[i] for i in order], grammar=[scene.grammar[i] for i in order]
    )
    tokens = dict(zip(order, step.token_ids, strict=True))
    return [tokens[i][0] for i in sorted(order)]


@pytest.fixture
def seeded_scene(random_request: Make, random_scene: Make) -> Callable[[int], Any]:
    """Six seeded requests of all kinds, at one step."""

    def make(seed: int) -> Any:
        rng = np.random.default_rng(seed)
        requests = [random_request(rng, chance) for chance in (0, 0.2, 0.4, 0.6, 0.8, 1)]
        for i, request in enumerate(requests):
            params = replace(request.params, seed=2**40 * seed + i)
            requests[i] = replace(request, params=params)
        return random_scene(rng, requests)

    return make


@pytest.mark.parametrize("name", ["sampler-audit", "vllm-triton", "huggingface"])
def test_tokens_are_those_of_the_noise(
    name: str, model: ModelConfig, random_request: Make, random_scene: Make
) -> None:
    """Each is one that the float64 race of the reference allows for its seed and position.

    The race is over the row that the reference makes: every stage, temperature, filters. Where
    conventions have no noise of their own it is ours.
    """
    rng, conventions = np.random.default_rng(11), CONVENTIONS[name]
    for _ in range(12):
        requests = [random_request(rng, 0.4, conventions.processing) for _ in range(6)]
        requests = [
            replace(r, params=replace(r.params, seed=int(rng.integers(2**63)))) for r in requests
        ]
        scene = random_scene(rng, requests)
        tokens = draw(build(model, conventions=conventions), scene, [*range(6)])
        for row, request, token in zip(scene.logits, scene.rows, tokens, strict=True):
            assert allowed(token, row, request, model, conventions)


def allowed(
    token: int, row: Any, request: Request, model: ModelConfig, conventions: Conventions
) -> bool:
    """Whether the noise of the request lets it draw the token."""
    params = request.params
    processed = process(row, request, model, conventions)
    kept = reference_distribution(processed, params, conventions).kept
    z = np.where(kept, scaled(processed, params.temperature), -np.inf).astype(np.float64)
    labels = np.array([params.seed]), np.array([request.position])
    return bool(accepts(np.array([token]), z, *labels, conventions.noise or "philox")[0])


def test_another_seed_or_position_is_noticed(model: ModelConfig, seeded_scene: Make) -> None:
    """Power twin of the test above: of 60 tokens the noise refuses many at the next position."""
    conventions, refused = CONVENTIONS["sampler-audit"], 0
    for seed in range(10):
        scene = seeded_scene(seed)
        tokens = draw(build(model), scene, [*range(6)])
        for row, request, token in zip(scene.logits, scene.rows, tokens, strict=True):
            moved = replace(request, prompt_token_ids=(9, *request.prompt_token_ids))
            refused += not allowed(token, row, moved, model, conventions)
    assert refused > 10


@pytest.mark.parametrize("seed", range(4))
def test_neither_batch_nor_row_nor_order_matters(
    seed: int, model: ModelConfig, seeded_scene: Make
) -> None:
    """A request's token is the same alone, in any company, in any row and in any slot."""
    scene, rng = seeded_scene(seed), np.random.default_rng(seed)
    together = draw(build(model), scene, [*range(6)])
    for index in range(6):
        assert draw(build(model), scene, [index]) == [together[index]]
    for _ in range(3):
        assert draw(build(model), scene, rng.permutation(6).tolist()) == together


@pytest.mark.parametrize("path", ["kernel", "twin"])
def test_both_paths_draw_the_same_tokens_and_masks(
    path: str, model: ModelConfig, seeded_scene: Make
) -> None:
    """Fused or masked first: the same noise over the same kept set."""
    for seed in range(2 if path == "kernel" else 10):
        scene = seeded_scene(seed)
        requests, logits = scene.requests, torch.from_numpy(scene.logits)
        steps = []
        draw_paths: tuple[DrawPath, ...] = ("fused", "masked")
        for draw_path in draw_paths:
            sampler = build(model, path=path, draw_path=draw_path)
            slots = [sampler.add(request) for request in requests]
            steps.append(sampler.step(logits, slots, grammar=scene.grammar, want_mask=True))
        fused, masked = steps
        assert fused.token_ids == masked.token_ids
        assert fused.mask is not None
        assert masked.mask is not None
        assert torch.equal(fused.mask, masked.mask)
        assert (fused.fused_obstacle, masked.fused_obstacle) == (None, FUSED_OBSTACLES["masked"])


def test_the_mask_is_the_kept_set(model: ModelConfig, seeded_scene: Make) -> None:
    """Of every row, greedy ones included; and the token drawn is in it."""
    scene = seeded_scene(3)
    for draw_path in ("fused", "masked"):
        sampler = build(model, draw_path=draw_path)
        slots = [sampler.add(request) for request in scene.requests]
        step = sampler.step(
            torch.from_numpy(scene.logits), slots, grammar=scene.grammar, want_mask=True
        )
        assert step.mask is not None
        for row, request, kept in zip(scene.logits, scene.rows, step.mask.numpy(), strict=True):
            processed = process(row, request, model, CONVENTIONS["sampler-audit"])
            law = reference_distribution(processed, request.params, CONVENTIONS["sampler-audit"])
            assert kept.tolist() == law.kept.tolist()


@pytest.mark.parametrize(
    ("what", "params", "options", "drafts"),
    [
        (None, SamplingParams(top_k=3), {}, ()),
        (None, SamplingParams(temperature=0), {}, ()),
        ("masked", SamplingParams(top_k=3), {"draw_path": "masked"}, ()),
        ("several calls", SamplingParams(top_k=3), {"conventions": "huggingface"}, ()),
        ("unfiltered", SamplingParams(temperature=0.7, logit_bias={3: 1.0}), {}, ()),
        (
            "processed log-probs",
            SamplingParams(top_k=3, logprobs=1),
            {"log_probs_mode": "processed_logits"},
            (),
        ),
        (None, SamplingParams(top_k=3), {"log_probs_mode": "processed_logits"}, ()),
        (None, SamplingParams(top_k=3, logprobs=1), {}, ()),
        ("drafts", SamplingParams(top_k=3), {}, ((5,),)),
    ],
)
def test_what_keeps_a_step_off_the_fused_path(
    what: str | None, params: SamplingParams, options: dict[str, Any], drafts: Any
) -> None:
    """The reason is data, and reported."""
    if name := options.get("conventions"):
        options = options | {"conventions": CONVENTIONS[name]}
    sampler = build(ModelConfig(vocab_size=16), max_drafts=1, **options)
    slot = sampler.add(Request(params))
    step = sampler.step(torch.zeros(1 + len(drafts), 16), [slot], drafts)
    assert step.fused_obstacle == (None if what is None else FUSED_OBSTACLES[what])


def test_a_row_without_a_token_draws_none() -> None:
    """-1 on both paths, and the neighbours draw theirs."""
    model = ModelConfig(vocab_size=8)
    logits = torch.full((2, 8), -torch.inf)
    logits[1, 5] = 1
    for draw_path in ("fused", "masked"):
        sampler = build(model, draw_path=draw_path)
        slots = [sampler.add(Request(SamplingParams(top_k=2))) for _ in range(2)]
        assert sampler.step(logits, slots).token_ids == ((-1,), (5,))


def test_unseeded_requests_draw_apart(model: ModelConfig) -> None:
    """Sixteen of them on one uniform row: all alike has a chance of 40^-15; and again by seed."""
    steps = []
    for _ in range(2):
        sampler = build(model, max_requests=16)
        slots = [sampler.add(Request()) for _ in range(16)]
        steps.append(sampler.step(torch.zeros(16, 40), slots).token_ids)
    assert len({*steps[0]}) > 1
    assert steps[0] == steps[1]


def test_a_traced_request_emits_its_trace() -> None:
    """Token i as output token i, whatever is drawn; then what is drawn; its mate is untouched."""
    model = ModelConfig(vocab_size=16)
    sampler = build(model)
    plain = SamplingParams(seed=3)
    traced = sampler.add(Request(replace(plain, trace_token_ids=(7, 8, 9)), (1, 2), (7,)))
    mate = sampler.add(Request(plain, (1, 2), (7,)))
    emitted = []
    for _ in range(3):
        first, second = sampler.step(torch.zeros(2, 16), [traced, mate]).token_ids
        emitted.append(first[0])
        for slot in (traced, mate):
            sampler.commit(slot, first)
    # Same seed, tokens and logits: where the trace is over they draw the same.
    assert emitted == [8, 9, second[0]]
