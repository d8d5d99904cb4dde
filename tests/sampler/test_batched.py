"""Stages and filters of whole batches against the reference, bit for bit."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from sampler_audit.sampler.admission import RequestRefused
from sampler_audit.sampler.batched import BatchedSampler
from sampler_reference.conventions import CONVENTIONS
from sampler_reference.distribution import reference_distribution
from sampler_reference.processors import process
from sampler_scenarios.params import SamplingParams
from sampler_scenarios.requests import ModelConfig, Request

DRY = "sampler_audit.sampler.processors.examples.dry:Dry"
Make = Callable[..., Any]


def build(model: ModelConfig, **options: Any) -> BatchedSampler:
    """A sampler of eight slots on the twins, unless the options say otherwise."""
    defaults: dict[str, Any] = {"path": "twin", "processors": [DRY], "max_requests": 8}
    return BatchedSampler(model, rng=np.random.default_rng(1), **(defaults | options))


@pytest.mark.parametrize(
    ("path", "name", "n_batches"),
    [("kernel", "sampler-audit", 3), *[("twin", name, 25) for name in CONVENTIONS]],
)
def test_every_row_is_what_the_reference_makes_of_it(
    path: str,
    name: str,
    n_batches: int,
    model: ModelConfig,
    random_request: Make,
    random_scene: Make,
) -> None:
    """Mixed batches with drafts, grammars, ties and masked tokens, in the order of an engine.

    Rows may be anywhere between no stage and all of them. Values are compared exactly (both zeros
    being equal), and kept sets with the float64 reference of the filters.
    """
    rng, conventions = np.random.default_rng(5), CONVENTIONS[name]
    for _ in range(n_batches):
        chances = rng.choice([0, 0.1, 0.5, 1], 5)
        requests = [random_request(rng, chance, conventions.processing) for chance in chances]
        sampler = build(model, path=path, conventions=conventions, max_drafts=2)
        slots = [sampler.add(request) for request in requests]
        scene = random_scene(rng, requests, 2)
        step = torch.from_numpy(scene.logits), slots, scene.drafts
        processed = sampler.process(*step, grammar=scene.grammar).numpy()
        kept = (sampler.filter(*step, grammar=scene.grammar) > -torch.inf).numpy()
        for row, request in enumerate(scene.rows):
            expected = process(scene.logits[row], request, model, conventions)
            np.testing.assert_array_equal(processed[row], expected)
            law = reference_distribution(expected, request.params, conventions)
            np.testing.assert_array_equal(kept[row], law.kept)


def test_another_order_is_noticed(
    model: ModelConfig, random_request: Make, random_scene: Make
) -> None:
    """Power twin: rows of requests that use everything are not those of another order.

    Only where the custom processor stands makes a difference here, which is all that vLLM's two
    orders differ in.
    """
    rng, own, other = np.random.default_rng(5), "vllm-triton", CONVENTIONS["vllm-pytorch"]
    scene = random_scene(rng, [random_request(rng, 0.7) for _ in range(60)])
    sampler = build(model, conventions=CONVENTIONS[own], max_requests=60)
    slots = [sampler.add(request) for request in scene.requests]
    processed = sampler.process(torch.from_numpy(scene.logits), slots).numpy()
    differing = [
        not np.array_equal(got, process(logits, request, model, other))
        for got, logits, request in zip(processed, scene.logits, scene.requests, strict=True)
    ]
    assert sum(differing) > 2


def test_a_request_that_needs_nothing_is_not_changed_by_its_mates(
    model: ModelConfig, random_request: Make, random_scene: Make
) -> None:
    """Bit for bit, NaN, infinities and the sign of zero included, whoever needs whatever."""
    rng = np.random.default_rng(6)
    sampler = build(model)
    slots = [sampler.add(random_request(rng, chance)) for chance in (0.5, 0, 1, 0.5)]
    logits = random_scene(rng, [Request()] * 4).logits
    logits[1, :4] = np.nan, -0.0, np.inf, -np.inf
    for made in (sampler.process, sampler.filter):
        row = made(torch.from_numpy(logits), slots)[1].numpy()
        assert row.tobytes() == logits[1].tobytes()


def test_what_was_committed_is_the_samplers_own(model: ModelConfig) -> None:
    """A caller may use its list again: token 5 is penalised, by 2 for its one occurrence."""
    sampler, logits = build(model), torch.zeros(1, 40)
    slot = sampler.add(Request(SamplingParams(frequency_penalty=2)))
    sampler.step(logits, [slot])
    emitted = [5]
    sampler.commit(slot, emitted)
    emitted[0] = 6
    assert sampler.process(logits, [slot])[0, 5:7].tolist() == [-2, 0]


def test_min_tokens_that_no_output_reaches(model: ModelConfig) -> None:
    """Beyond 32 bits too: both end-of-sequence tokens, 3 and 4, stay masked."""
    sampler = build(model)
    slot = sampler.add(Request(SamplingParams(min_tokens=2**40)))
    masked = sampler.process(torch.zeros(1, 40), [slot])[0] == -torch.inf
    assert masked.nonzero()[:, 0].tolist() == [3, 4]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_callers_logits_are_never_written(
    dtype: torch.dtype, model: ModelConfig, random_request: Make, random_scene: Make
) -> None:
    """Whichever stages act: what is needed is copied."""
    rng = np.random.default_rng(7)
    requests = [random_request(rng, 1) for _ in range(3)]
    logits = torch.from_numpy(random_scene(rng, requests).logits).to(dtype)
    before = logits.clone()
    sampler = build(model, log_probs_mode="processed_logprobs")
    slots = [sampler.add(request) for request in requests]
    sampler.step(logits, slots, grammar=[np.arange(40) % 3 == 0] * 3)
    assert torch.equal(logits, before)


def test_slots_are_recycled_last_in_first_out(model: ModelConfig) -> None:
    """The first request has the highest."""
    sampler = build(model)
    slots = [sampler.add(Request()) for _ in range(3)]
    sampler.remove(slots[1])
    assert [*slots, sampler.add(Request())] == [7, 6, 5, 6]


def test_a_full_sampler_refuses() -> None:
    """Until somebody leaves."""
    sampler = build(ModelConfig(vocab_size=8), max_requests=1)
    slot = sampler.add(Request())
    with pytest.raises(RequestRefused, match=r"^max_requests=1 requests fit at a time, got one"):
        sampler.add(Request())
    sampler.remove(slot)
    assert sampler.add(Request()) == slot


def test_a_refused_request_takes_no_slot(model: ModelConfig) -> None:
    """Neither for its own settings, nor for a processor's or the conventions' sake."""
    sampler = build(model, conventions=CONVENTIONS["vllm-triton"])
    for params, message in (
        (SamplingParams(stop_token_ids=(40,)), r"^stop_token_ids must be token ids in \[0, 40\)"),
        (SamplingParams(extra_args={"dry_base": 0.5}), "^dry_base must be finite and >= 1"),
        (SamplingParams(temperature=2.5), "^vllm-triton refuses temperature=2.5: its maximum is 2"),
    ):
        with pytest.raises(RequestRefused, match=message):
            sampler.add(Request(params))
    assert sampler.add(Request()) == 7


def test_a_slot_that_nobody_holds(model: ModelConfig) -> None:
    """Every method names those that are held."""
    sampler = build(model)
    sampler.add(Request())
    row = torch.zeros(1, 40)
    for use in (
        lambda: sampler.remove(3),
        lambda: sampler.commit(3, [1]),
        lambda: sampler.step(row, [3]),
    ):
        with pytest.raises(KeyError, match=r"no request holds slot 3; held are \[7\]"):
            use()


def test_commits_that_cannot_be(model: ModelConfig) -> None:
    """A token of no vocabulary, and more tokens than the model's length has room for."""
    sampler = build(model)
    slot = sampler.add(Request(SamplingParams(), (1,) * 90, (2,) * 4))
    with pytest.raises(ValueError, match=r"^token_ids must be in \[0, 40\), got -1; commit only"):
        sampler.commit(slot, [5, -1])
    with pytest.raises(ValueError, match=r"^token_ids must be at most the 2 that max_model_len=96"):
        sampler.commit(slot, [5, 5, 5])


@pytest.mark.parametrize(
    ("n_rows", "drafts", "grammar", "message"),
    [
        (3, (), None, r"vocab_size\], \[2, 40\], got \[3, 40\]$"),
        (2, ((1,),), None, "^drafts must be empty or one sequence a request, 2 of them, got 1$"),
        (6, ((1,) * 3, (2,)), None, "^drafts must be at most max_drafts=2 a request, got 3$"),
        (2, (), [None], "^grammar must have a mask or None for each of 2 rows, got 1$"),
        (2, (), [None, np.ones(7, np.bool_)], r"^the masks of grammar must be bool \[40\], got"),
        (3, ((1,), ()), [None, np.ones(40, np.bool_), None], "^grammar must have masks for all"),
    ],
)
def test_steps_that_do_not_fit_together(
    n_rows: int, drafts: tuple[tuple[int, ...], ...], grammar: Any, message: str, model: ModelConfig
) -> None:
    """What was given, what is allowed."""
    sampler = build(model, max_drafts=2)
    slots = [sampler.add(Request()), sampler.add(Request())]
    with pytest.raises(ValueError, match=message):
        sampler.step(torch.zeros(n_rows, 40), slots, drafts, grammar=grammar)


def test_a_slot_named_twice(model: ModelConfig) -> None:
    """One request has one place in a step."""
    sampler = build(model)
    slot = sampler.add(Request())
    with pytest.raises(ValueError, match=r"^slots must be distinct, got \[7, 7\]$"):
        sampler.step(torch.zeros(2, 40), [slot, slot])


def test_a_grammar_where_the_conventions_have_none(model: ModelConfig) -> None:
    """Ignoring it would give text that the grammar forbids."""
    own = CONVENTIONS["sampler-audit"]
    bare = replace(own, name="bare", processing=("logit_bias",))
    sampler = build(model, conventions=bare, processors=[])
    slot = sampler.add(Request())
    mask = np.zeros(model.vocab_size, np.bool_)
    with pytest.raises(ValueError, match=r"^grammar must be None: bare has no grammar"):
        sampler.step(torch.zeros(1, model.vocab_size), [slot], grammar=[mask])
