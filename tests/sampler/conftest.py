"""Random requests in which every stage has a part, for the tests of the batched sampler."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from sampler_scenarios.params import STAGES, SamplingParams
from sampler_scenarios.requests import ModelConfig, Request

# Rows are short: more threads than one cost, and far more so beside other test processes.
torch.set_num_threads(1)

VOCAB_SIZE = 40
DRY = "sampler_audit.sampler.processors.examples.dry:Dry"


@pytest.fixture(scope="session")
def model() -> ModelConfig:
    """40 tokens, so that random histories hold many of them; two ends, markers of two tokens."""
    return ModelConfig(
        vocab_size=VOCAB_SIZE,
        max_model_len=96,
        eos_token_ids=(3, 4),
        reasoning_start=(10, 11),
        reasoning_end=(12, 13),
    )


@dataclass(frozen=True)
class Scene:
    """The requests of one step with their drafts, and what each of their rows is given.

    Attributes:
        requests: As they were admitted.
        drafts: Token ids, one sequence a request.
        rows: Of every row the request as it stands there: its drafts emitted, its grammar.
        logits: float32 ``[n_rows, VOCAB_SIZE]``, in quarters, so that there are ties; some masked.
    """

    requests: list[Request]
    drafts: list[tuple[int, ...]]
    rows: list[Request]
    logits: NDArray[np.float32]

    @property
    def grammar(self) -> list[NDArray[np.bool_] | None]:
        """By row."""
        return [row.grammar for row in self.rows]


@pytest.fixture(scope="session")
def random_request() -> Callable[..., Request]:
    """A request that uses each setting with the given chance, of the stages in ``processing``."""
    return make_request


@pytest.fixture(scope="session")
def random_scene() -> Callable[..., Scene]:
    """A step of these requests, each of whose rows has a grammar with a chance of a third."""
    return make_scene


def make_scene(rng: np.random.Generator, requests: list[Request], most_drafts: int = 0) -> Scene:
    """See ``random_scene``."""
    drafts = [
        tuple(rng.integers(0, VOCAB_SIZE, rng.integers(0, most_drafts + 1)).tolist())
        for _ in requests
    ]
    rows = []
    for request, tokens in zip(requests, drafts, strict=True):
        structured = rng.random() < 1 / 3
        for n in range(len(tokens) + 1):
            allowed = rng.random(VOCAB_SIZE) < 0.5 if structured else None
            rows.append(replace(request.extended(tokens[:n]), grammar=allowed))
    logits = np.round(rng.normal(0, 2, (len(rows), VOCAB_SIZE)) * 4) / 4
    logits[rng.random(logits.shape) < 0.05] = -np.inf
    return Scene(requests, drafts, rows, logits.astype(np.float32))


def make_request(
    rng: np.random.Generator, chance: float, processing: tuple[str, ...] = STAGES
) -> Request:
    """See ``random_request``."""

    def some(most: int) -> tuple[int, ...]:
        return tuple(rng.choice(VOCAB_SIZE, rng.integers(1, most + 1), replace=False).tolist())

    prompt, output = history(rng)
    settings: dict[str, Any] = {
        "temperature": float(rng.choice([0, 0.5, 1.5])),
        "top_k": int(rng.integers(1, 12)),
        "top_p": float(rng.uniform(0.3, 1)),
        "min_p": float(rng.uniform(0, 0.4)),
        "repetition_penalty": float(rng.uniform(0.6, 1.8)),
        "frequency_penalty": float(rng.uniform(-2, 2)),
        "presence_penalty": float(rng.uniform(-2, 2)),
        "logit_bias": {token: float(rng.normal(0, 3)) for token in some(5)},
        "allowed_token_ids": some(30),
        "bad_words": bad_words(output, some),
        "min_tokens": int(rng.integers(0, 10)),
        "stop_token_ids": some(4),
        "thinking_token_budget": int(rng.integers(0, 6)),
        "seed": int(rng.integers(-(2**63), 2**63)),
        "extra_args": {"dry_multiplier": float(rng.uniform(0.2, 2)), "dry_allowed_length": 1},
    }
    absent = {*STAGES} - {*processing}
    if "thinking_budget" in absent:
        absent.add("thinking_token_budget")
    asked = {
        name: value
        for name, value in settings.items()
        if rng.random() < chance and name not in absent
    }
    return Request(SamplingParams(**asked), prompt, output)


def history(rng: np.random.Generator) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """A prompt and an output of few different tokens, so that they repeat themselves.

    In one of two cases reasoning is opened, and perhaps partly closed again.
    """
    prompt = rng.integers(0, 9, rng.integers(1, 8)).tolist()
    output = rng.integers(0, 9, rng.integers(0, 8)).tolist()
    if rng.random() < 0.5:
        prompt += [10, 11]
        output += [[], [12], [12, 13], [10, 11, 12]][rng.integers(4)]
    return tuple(prompt), tuple(output)


def bad_words(
    output: tuple[int, ...], some: Callable[[int], tuple[int, ...]]
) -> tuple[tuple[int, ...], ...]:
    """Words of one token, and words whose first tokens are the last of the output."""
    begun = [(*output[-n:], token) for n, token in enumerate(some(3), start=1) if n <= len(output)]
    return tuple(dict.fromkeys([(token,) for token in some(3)] + begun + [some(4)]))
