"""Seeded draws of Model Runner V2's sampler (vLLM 0.32.0), predicted token by token."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from sampler_audit.sampler.batched import BatchedSampler
from sampler_reference.conventions import CONVENTIONS
from sampler_reference.distribution import kept_ids, scaled
from sampler_reference.noise import predict
from sampler_reference.processors import process
from sampler_scenarios.params import SamplingParams
from sampler_scenarios.requests import ModelConfig, Request

pytestmark = pytest.mark.e2e

# Two blocks of 1024 in the kernel that draws, the second one short.
MODEL = ModelConfig(vocab_size=1100, eos_token_ids=(3,), max_model_len=64)
V2 = CONVENTIONS["vllm-triton"]
NOISES = ("murmur", "murmur-fp64")
N_ROWS, N_BATCHES = 20, 10

Calls = list[tuple[str, dict[str, Any]]]
Answers = list[dict[str, NDArray[Any]]]
Row = tuple[NDArray[np.float32], Request]


def requests(rng: np.random.Generator) -> list[Request]:
    """Twenty of mixed settings, of which every fifth is greedy and every fifth has top_k, top_p."""
    made = []
    for i in range(N_ROWS):
        params = SamplingParams(
            seed=int(rng.integers(-(2**63), 2**63)),
            temperature=0.0 if i % 5 == 0 else rng.uniform(0.5, 2),
            top_k=30 if i % 5 == 1 else -1,
            top_p=0.9 if i % 5 == 1 else 1.0,
            min_p=rng.choice([0.0, 0.01]) if i % 5 > 1 else 0.0,
            repetition_penalty=rng.choice([1.0, 1.3]),
            frequency_penalty=rng.choice([0.0, 0.7]),
            logit_bias={int(token): 3.0 for token in rng.integers(MODEL.vocab_size, size=i % 3)},
            min_tokens=i,
        )
        prompt, output = (
            tuple(rng.integers(MODEL.vocab_size, size=n).tolist()) for n in (i + 1, i)
        )
        made.append(Request(params, prompt, output))
    return made


def batches(
    rng: np.random.Generator, settings: Callable[[SamplingParams], dict[str, Any]]
) -> tuple[Calls, list[list[Row]]]:
    """The calls, and the rows of every step, which are in another order each time."""
    calls: Calls = []
    present = {str(i): request for i, request in enumerate(requests(rng))}
    for name, r in present.items():
        prompt, output = r.prompt_token_ids, r.output_token_ids
        came = {"settings": settings(r.params), "prompt": prompt, "output": output}
        calls.append(("add", {"name": name, **came}))
    steps = []
    for _ in range(N_BATCHES):
        names = rng.permutation(list(present)).tolist()
        logits = rng.normal(0, 3, (N_ROWS, MODEL.vocab_size)).astype(np.float32)
        steps.append([(x, present[name]) for x, name in zip(logits, names, strict=True)])
        calls.append(("step", {"logits": logits, "names": names}))
        emitted = rng.integers(MODEL.vocab_size, size=(N_ROWS, 1)).tolist()
        calls.append(("commit", {"names": names, "token_ids": emitted}))
        for name, tokens in zip(names, emitted, strict=True):
            present[name] = present[name].extended(tokens)
    return calls, steps


def prediction(row: Row, noise: str) -> int:
    """The argmax of a greedy request, else what the noise of (seed, position) makes of the row."""
    logits, request = row
    x = process(logits, request, MODEL, V2)
    if request.params.temperature == 0:
        return int(x.argmax())
    z = np.full(x.size, -np.inf)
    kept = kept_ids(x, request.params, V2)
    z[kept] = scaled(x, request.params.temperature)[kept]
    return predict(noise, z, request.params.seed or 0, request.position)[0]


@pytest.fixture(scope="module")
def drawn(
    run_vllm: Callable[[str, list[tuple[dict[str, Any], Calls]]], list[Answers]],
    vllm_facts: Callable[..., dict[str, Any]],
    vllm_settings: Callable[[SamplingParams], dict[str, Any]],
) -> tuple[list[Row], dict[str, list[int]]]:
    """The rows, and by the name of the noise the tokens that the sampler drew."""
    calls, steps = batches(np.random.default_rng(73), vllm_settings)
    facts = [
        vllm_facts(MODEL, max_requests=N_ROWS, fp64_noise=noise == "murmur-fp64")
        for noise in NOISES
    ]
    answers = run_vllm("v2", [(told, calls) for told in facts])
    tokens = [np.concatenate([a["token_ids"][:, 0] for a in got if a]).tolist() for got in answers]
    return [row for rows in steps for row in rows], dict(zip(NOISES, tokens, strict=True))


@pytest.mark.parametrize("noise", NOISES)
def test_every_draw_is_predicted(drawn: tuple[list[Row], dict[str, list[int]]], noise: str) -> None:
    """200 of 200 rows, whatever else is in the batch and in which order."""
    rows, tokens = drawn
    assert len(tokens[noise]) == 200
    assert [prediction(row, noise) for row in rows] == tokens[noise]


@pytest.mark.parametrize("noise", NOISES)
def test_another_seed_predicts_little(
    drawn: tuple[list[Row], dict[str, list[int]]], noise: str
) -> None:
    """The twin: then only greedy rows and likely tokens agree, and half of all do not."""
    rows, tokens = drawn
    others = [(x, replace(r, params=replace(r.params, seed=1))) for x, r in rows]
    agree = [
        prediction(row, noise) == token for row, token in zip(others, tokens[noise], strict=True)
    ]
    assert sum(agree) < 100


@pytest.mark.parametrize("noise", NOISES)
def test_our_sampler_draws_the_same(
    drawn: tuple[list[Row], dict[str, list[int]]], noise: str
) -> None:
    """The twin path under convention vllm-triton, and with its noise in either precision."""
    rows, tokens = drawn
    sampler = BatchedSampler(
        MODEL,
        path="twin",
        conventions=replace(V2, noise=noise),
        rng=np.random.default_rng(0),
        max_requests=N_ROWS,
    )
    mine: list[int] = []
    for start in range(0, len(rows), N_ROWS):
        step = rows[start : start + N_ROWS]
        slots = [sampler.add(request) for _, request in step]
        drawn_now = sampler.step(torch.from_numpy(np.stack([x for x, _ in step])), slots)
        mine += [token for (token,) in drawn_now.token_ids]
        for slot in slots:
            sampler.remove(slot)
    assert mine == tokens[noise]
