"""Where custom processors stand in the sampler: their places, and whom a step calls."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from sampler_audit.sampler.batched import BatchedSampler
from sampler_audit.sampler.processors import (
    BatchLogitsProcessor,
    BatchUpdate,
    Context,
    LogitsProcessor,
    ProcessorMisbehaved,
    ProcessorRefused,
)
from sampler_reference.conventions import CONVENTIONS
from sampler_scenarios.params import SamplingParams
from sampler_scenarios.requests import ModelConfig, Request

MODEL = ModelConfig(vocab_size=4, max_model_len=8)
ROW = torch.tensor([[8.0, 4.0, 2.0, -2.0]])


class DoubleSlots(LogitsProcessor):
    """Doubles the rows of requests that say so."""

    def add_request(self, slot: int, params: SamplingParams) -> bool:  # noqa: ARG002
        """Whether the request says so."""
        return bool(params.extra_args)

    def apply(self, logits: torch.Tensor, context: Context) -> torch.Tensor:  # noqa: ARG002
        """A new tensor, which the sampler must take."""
        return logits * 2


class Double(BatchLogitsProcessor):
    """Doubles all rows, before temperature."""

    def is_argmax_invariant(self) -> bool:
        """It is, but does not say so."""
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """It has no state."""

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """Twice the logits."""
        return logits * 2


class DoubleInvariant(Double):
    """Doubles all rows, after temperature."""

    def is_argmax_invariant(self) -> bool:
        """The largest logit stays the largest."""
        return True


class Undecided(DoubleSlots):
    """Answers neither yes nor no."""

    def add_request(self, slot: int, params: SamplingParams) -> Any:  # noqa: ARG002
        """What the interface forbids."""
        return "perhaps"


def build(processor: type, conventions: str = "sampler-audit", **options: Any) -> BatchedSampler:
    """A sampler of two slots with this processor."""
    return BatchedSampler(
        MODEL,
        path="twin",
        conventions=CONVENTIONS[conventions],
        processors=[processor],
        rng=np.random.default_rng(0),
        max_requests=2,
        **options,
    )


@pytest.mark.parametrize("processor", [DoubleSlots, Double])
@pytest.mark.parametrize(
    ("conventions", "expected"),
    [
        # vLLM V2 penalises first: (8 - 1) * 2; V1 runs custom processors first: 8 * 2 - 1.
        ("vllm-triton", [14.0, 8.0, 4.0, -4.0]),
        ("vllm-pytorch", [15.0, 8.0, 4.0, -4.0]),
    ],
)
def test_its_place_in_the_order_is_data(
    processor: type, conventions: str, expected: list[float]
) -> None:
    """Before or after the penalties, as the conventions say; of either interface."""
    sampler = build(processor, conventions)
    params = SamplingParams(frequency_penalty=1.0, extra_args={"double": True})
    slot = sampler.add(Request(params, (1,), (0,)))
    assert sampler.process(ROW, [slot]).tolist() == [expected]


def test_argmax_invariant_processors_come_after_temperature() -> None:
    """8 / 0.5 * 2; before it, and before top_k, they have done nothing."""
    sampler = build(DoubleInvariant)
    slot = sampler.add(Request(SamplingParams(temperature=0.5, top_k=1)))
    assert sampler.process(ROW, [slot]).tolist() == ROW.tolist()
    assert sampler.filter(ROW, [slot]).tolist() == [[32.0, *[-np.inf] * 3]]


def test_argmax_invariant_processors_rest_where_all_are_greedy() -> None:
    """With one request that is not, they run for the whole batch."""
    sampler = build(DoubleInvariant)
    greedy = sampler.add(Request(SamplingParams(temperature=0)))
    random = sampler.add(Request())
    assert sampler.filter(ROW, [greedy])[0, 0] == 8
    assert sampler.filter(ROW.repeat(2, 1), [greedy, random])[:, 0].tolist() == [16, 16]


def test_batch_level_processors_know_no_drafts() -> None:
    """A sampler that verifies drafts refuses them when it is built."""
    with pytest.raises(ProcessorRefused, match="Double is a batch-level logits processor, and"):
        build(Double, max_drafts=1)
    build(DoubleSlots, max_drafts=1)


def test_conventions_without_a_place_for_processors() -> None:
    """They would never be called."""
    homeless = replace(CONVENTIONS["llama.cpp"], name="bare", processing=("logit_bias",))
    with pytest.raises(ValueError, match=r"^processors must be none with .*, got 1 and bare$"):
        BatchedSampler(
            MODEL, conventions=homeless, processors=[Double], rng=np.random.default_rng(0)
        )


def test_a_processor_that_misbehaves_costs_no_slot() -> None:
    """The request that it would not answer for is not in the sampler."""
    sampler = build(Undecided)
    for _ in range(3):
        with pytest.raises(ProcessorMisbehaved):
            sampler.add(Request())
