"""The V1 sampler of vLLM 0.32.0, natively on a CPU: it draws from our reference's law."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sampler_audit.statistics.chi_square import chi_square
from sampler_reference.conventions import CONVENTIONS
from sampler_reference.distribution import reference_distribution
from sampler_reference.processors import process
from sampler_scenarios.params import SamplingParams
from sampler_scenarios.requests import ModelConfig, Request

pytestmark = pytest.mark.e2e

V1 = CONVENTIONS["vllm-pytorch"]
MODEL = ModelConfig(vocab_size=40, max_model_len=64, eos_token_ids=(1,))
N_CHOICES, N_STEPS = 64, 160
ALPHA = 1e-4
"""False-alarm rate of the whole file, shared among the cells; the seeds are fixed."""

# Logits fall from token 0 to token 39: the settings decide about likely tokens.
LOGITS = (-0.15 * np.arange(MODEL.vocab_size)).astype(np.float32)
PROMPT, OUTPUT = (0, 2, 5, 30), (3, 4, 4, 6)
CELLS: dict[str, dict[str, Any]] = {
    "neutral": {},
    "temperature": {"temperature": 1.7},
    "top_k": {"top_k": 9},
    "top_p": {"top_p": 0.8},
    "min_p": {"min_p": 0.2},
    "all filters": {"temperature": 1.4, "top_k": 12, "top_p": 0.9, "min_p": 0.3},
    "repetition_penalty": {"repetition_penalty": 2.0},
    "frequency_penalty": {"frequency_penalty": 0.8},
    "presence_penalty": {"presence_penalty": -1.5, "min_p": 0.05},
    "logit_bias": {"logit_bias": {7: 2.0, 0: -3.0}, "top_p": 0.9},
    "bad_words": {"bad_words": ((4, 6, 0), (9,)), "top_k": 5},
    "allowed_token_ids": {"allowed_token_ids": (2, 3, 8, 20), "temperature": 2.0},
    "min_tokens": {"min_tokens": 9, "stop_token_ids": (2,), "min_p": 0.3},
}

Calls = list[tuple[str, dict[str, Any]]]
Answers = list[dict[str, NDArray[Any]]]


def params_of(cell: str) -> SamplingParams:
    """The settings of a cell."""
    return SamplingParams(**CELLS[cell])


def law(params: SamplingParams) -> NDArray[np.float64]:
    """What a right sampler draws from."""
    row = process(LOGITS, Request(params, PROMPT, OUTPUT), MODEL, V1)
    return reference_distribution(row, params, V1).probs


@pytest.fixture(scope="module")
def counts(
    run_vllm: Callable[[str, list[tuple[dict[str, Any], Calls]]], list[Answers]],
    vllm_facts: Callable[..., dict[str, Any]],
    vllm_settings: Callable[[SamplingParams], dict[str, Any]],
) -> dict[str, NDArray[np.int64]]:
    """By cell how often each token was drawn; all cells share each batch."""
    names = [f"{cell}/{i}" for cell in CELLS for i in range(N_CHOICES)]
    calls: Calls = []
    for seed, name in enumerate(names):
        settings = vllm_settings(params_of(name.split("/")[0])) | {"seed": seed}
        calls.append(
            ("add", {"name": name, "settings": settings, "prompt": PROMPT, "output": OUTPUT})
        )
    logits = np.tile(LOGITS, (len(names), 1))
    calls += [("step", {"names": names, "logits": logits})] * N_STEPS
    (answers,) = run_vllm("v1", [(vllm_facts(MODEL, max_requests=len(names)), calls)])
    drawn = np.stack([a["token_ids"][:, 0] for a in answers if a])
    by_cell = drawn.reshape(N_STEPS, len(CELLS), N_CHOICES)
    return {
        cell: np.bincount(by_cell[:, i].ravel(), minlength=MODEL.vocab_size)
        for i, cell in enumerate(CELLS)
    }


@pytest.mark.parametrize("cell", CELLS)
def test_draws_follow_the_law(counts: dict[str, NDArray[np.int64]], cell: str) -> None:
    """Chi-square of 10,240 draws, at the file's false-alarm rate of 1e-4 in all."""
    result = chi_square(counts[cell], law(params_of(cell)))
    assert result.n_draws == N_CHOICES * N_STEPS
    assert result.g_pvalue > ALPHA / len(CELLS)


@pytest.mark.parametrize("cell", [cell for cell in CELLS if cell != "neutral"])
def test_another_law_is_told_apart(counts: dict[str, NDArray[np.int64]], cell: str) -> None:
    """The power twin: the same draws against the law without the setting that names the cell."""
    changed = replace(params_of(cell), **{name: NEUTRAL[name] for name in CELLS[cell]})
    assert chi_square(counts[cell], law(changed)).g_pvalue < 1e-20


NEUTRAL = {name: getattr(SamplingParams(), name) for cell in CELLS.values() for name in cell}
