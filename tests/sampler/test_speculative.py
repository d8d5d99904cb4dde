"""Drafts through the whole sampler: every stage and filter acts at every draft position."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from sampler_audit.sampler.batched import BatchedSampler
from sampler_audit.statistics.chi_square import chi_square
from sampler_kernels import VerifyMethod
from sampler_reference.conventions import CONVENTIONS
from sampler_reference.processors import process
from sampler_reference.speculative import (
    Law,
    block_law,
    emitted_law,
    propose,
    rows_of,
    standard_law,
    target_of,
)
from sampler_scenarios.params import SamplingParams
from sampler_scenarios.requests import ModelConfig, Request

OWN = CONVENTIONS["sampler-audit"]
DRY = "sampler_audit.sampler.processors.examples.dry:Dry"
SMALL = ModelConfig(vocab_size=6, max_model_len=16, eos_token_ids=(1,))
PROMPT, OUTPUT = (0, 3, 2), (3, 4)
N_DRAWS, N_DRAFTS = 1000, 2
OTHER_WAYS: tuple[tuple[VerifyMethod, bool], ...] = (
    ("standard", False),
    ("block", True),
    ("block", False),
)
Make = Callable[..., Any]


def target_logits(prefix: tuple[int, ...]) -> Any:
    """A model's row after a prefix, float32 ``[6]``."""
    return np.random.default_rng((7, *prefix)).normal(0, 1.5, 6).astype(np.float32)


def draft_logits(prefix: tuple[int, ...]) -> Any:
    """A draft model's row: near the model's, and not it."""
    noise = np.random.default_rng((8, *prefix)).normal(0, 1, 6).astype(np.float32)
    return target_logits(prefix) + noise


def draft_law(prefix: tuple[int, ...]) -> Any:
    """What the draft model draws from."""
    weights = np.exp(draft_logits(prefix).astype(np.float64))
    return weights / weights.sum()


def expected(params: SamplingParams, method: VerifyMethod, *, drawn: bool) -> Law:
    """The law of what a step emits, over the drafts that the draft model draws."""

    def request(prefix: tuple[int, ...]) -> Request:
        return Request(params, PROMPT, OUTPUT).extended(prefix)

    rows = rows_of(target_of(target_logits, request, SMALL, OWN))
    verify = standard_law if method == "standard" else block_law
    return emitted_law(rows, propose(draft_law, N_DRAFTS), draft_law if drawn else None, verify)


def emit(params: SamplingParams, method: VerifyMethod, *, drawn: bool) -> Counter[tuple[int, ...]]:
    """What N_DRAWS unseeded requests emit in one step, each with drafts of its own."""
    rng = np.random.default_rng(20)
    sampler = BatchedSampler(
        SMALL,
        path="twin",
        processors=[DRY],
        rng=rng,
        max_requests=N_DRAWS,
        max_drafts=N_DRAFTS,
        verify_method=method,
    )
    slots = [sampler.add(Request(params, PROMPT, OUTPUT)) for _ in range(N_DRAWS)]
    drafts = []
    for _ in slots:
        first = int(rng.choice(6, p=draft_law(())))
        drafts.append((first, int(rng.choice(6, p=draft_law((first,))))))
    rows = np.array([target_logits(d[:n]) for d in drafts for n in range(N_DRAFTS + 1)])
    q = np.array([[draft_logits(d[:n]) for n in range(N_DRAFTS)] for d in drafts])
    step = sampler.step(
        torch.from_numpy(rows), slots, drafts, torch.from_numpy(q) if drawn else None
    )
    return Counter(step.token_ids)


def pvalue(counts: Counter[tuple[int, ...]], law: Law) -> float:
    """Of Pearson's chi-square over everything that can be emitted; 0 where something else was."""
    tokens = [*law]
    if counts.total() > sum(counts[t] for t in tokens if law[t] > 0):
        return 0.0
    return chi_square([counts[t] for t in tokens], [law[t] for t in tokens]).pvalue


SETTINGS = [
    SamplingParams(),
    SamplingParams(temperature=0.7, min_p=0.15),
    SamplingParams(top_k=3),
    SamplingParams(top_p=0.7),
    SamplingParams(logit_bias={2: 1.5, 5: -1.0}, allowed_token_ids=(0, 2, 4, 5)),
    SamplingParams(repetition_penalty=1.6, frequency_penalty=0.8, presence_penalty=0.6),
    SamplingParams(min_tokens=4, stop_token_ids=(2,)),
    SamplingParams(bad_words=((4, 0), (4, 5, 2), (0, 2)), extra_args={"dry_multiplier": 1.0}),
    SamplingParams(temperature=1.3, top_k=4, top_p=0.9, min_p=0.05, frequency_penalty=0.5),
]


@pytest.mark.parametrize(
    ("params", "method", "drawn"),
    [
        *((params, "standard", True) for params in SETTINGS),
        *((SETTINGS[i], method, drawn) for i in (5, 8) for method, drawn in OTHER_WAYS),
    ],
)
def test_what_is_emitted_has_the_exact_law(
    params: SamplingParams, method: VerifyMethod, drawn: bool
) -> None:
    """Against the reference's enumeration; each of the 15 may fail with a chance of 1e-6."""
    assert pvalue(emit(params, method, drawn=drawn), expected(params, method, drawn=drawn)) > 1e-6


@pytest.mark.parametrize("index", [4, 5, 6, 7])
def test_a_stage_that_is_left_out_is_noticed(index: int) -> None:
    """Power twin: the draws of a setting against the law without it, at one in a million."""
    counts = emit(SETTINGS[index], "standard", drawn=True)
    law = expected(SamplingParams(), "standard", drawn=True)
    assert pvalue(counts, law) < 1e-6


def test_drafts_that_do_not_count_are_noticed() -> None:
    """Power twin: a penalty that acts, but for which accepted drafts are not part of the output."""
    params = replace(SETTINGS[5], frequency_penalty=2.0)
    rows = rows_of(target_of(target_logits, lambda _: Request(params, PROMPT, OUTPUT), SMALL, OWN))
    law = emitted_law(rows, propose(draft_law, N_DRAFTS), draft_law, standard_law)
    assert pvalue(emit(params, "standard", drawn=True), law) < 1e-6


def test_greedy_requests_accept_what_they_would_emit(
    model: ModelConfig, random_request: Make, random_scene: Make
) -> None:
    """The argmax of every processed row, up to the first draft that is not one."""
    rng = np.random.default_rng(30)
    for _ in range(10):
        requests = [random_request(rng, 0.4) for _ in range(4)]
        requests = [replace(r, params=replace(r.params, temperature=0)) for r in requests]
        scene = random_scene(rng, requests, 3)
        best = [
            int(np.argmax(process(logits, row, model, OWN)))
            for logits, row in zip(scene.logits, scene.rows, strict=True)
        ]
        sampler = BatchedSampler(
            model, path="twin", processors=[DRY], rng=rng, max_requests=4, max_drafts=3
        )
        slots = [sampler.add(request) for request in requests]
        drafts, first, right = [], 0, []
        # The first draft is right, so that later rows are looked at too.
        for tokens in scene.drafts:
            drafts.append((best[first], *tokens[1:]) if tokens else ())
            first += 1 + len(tokens)
        scene = replace_drafts(scene, drafts)
        first = 0
        for tokens in drafts:
            own = [
                int(np.argmax(process(scene.logits[r], scene.rows[r], model, OWN)))
                for r in range(first, first + len(tokens) + 1)
            ]
            n = next((i for i, t in enumerate(tokens) if t != own[i]), len(tokens))
            right.append((*tokens[:n], own[n]))
            first += 1 + len(tokens)
        step = sampler.step(torch.from_numpy(scene.logits), slots, drafts, grammar=scene.grammar)
        assert list(step.token_ids) == right


def replace_drafts(scene: Any, drafts: list[tuple[int, ...]]) -> Any:
    """The same step with other drafts, as many of them."""
    rows = [
        replace(request.extended(tokens[:n]), grammar=None)
        for request, tokens in zip(scene.requests, drafts, strict=True)
        for n in range(len(tokens) + 1)
    ]
    rows = [replace(row, grammar=old.grammar) for row, old in zip(rows, scene.rows, strict=True)]
    return replace(scene, drafts=drafts, rows=rows)


@pytest.mark.parametrize("noise", ["philox", "philox-fp64", "murmur", "murmur-fp64"])
def test_a_request_without_drafts_draws_as_ever(
    noise: str, model: ModelConfig, random_request: Make, random_scene: Make
) -> None:
    """Among requests that have some, the token that it draws alone, whatever the noise."""
    rng = np.random.default_rng(31)
    for _ in range(10):
        requests = [random_request(rng, 0.3) for _ in range(3)]
        requests = [replace(r, params=replace(r.params, seed=5)) for r in requests]
        scene = random_scene(rng, requests)
        sampler = BatchedSampler(
            model,
            path="twin",
            conventions=replace(OWN, noise=noise),
            processors=[DRY],
            rng=rng,
            max_drafts=2,
        )
        slots = [sampler.add(request) for request in requests]
        logits = torch.from_numpy(scene.logits)
        alone = sampler.step(logits[:1], slots[:1], grammar=scene.grammar[:1])
        drafts = [(), (3, 4), (5,)]
        expanded = logits[[0, 1, 1, 1, 2, 2]]
        grammar = [scene.grammar[i] for i in (0, 1, 1, 1, 2, 2)]
        together = sampler.step(expanded, slots, drafts, grammar=grammar)
        assert together.token_ids[0] == alone.token_ids[0]


def test_a_placeholder_ends_the_drafts() -> None:
    """Its row is drawn from as it is; nothing behind it is emitted."""
    sampler = BatchedSampler(SMALL, path="twin", rng=np.random.default_rng(0), max_drafts=3)
    slot = sampler.add(Request(SamplingParams(temperature=0), (2,)))
    rows = torch.eye(6)[[4, 5, 0, 1]]
    assert sampler.step(rows, [slot], [(4, -1, 0)]).token_ids == ((4, 5),)
