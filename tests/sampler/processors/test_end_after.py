"""The example that takes the end-of-sequence tokens from the engine's configuration."""

import pytest
import torch

from sampler_audit.sampler.processors import BatchTracker, EngineConfig, LiveRequest
from sampler_audit.sampler.processors.examples.end_after import EndAfter
from sampler_scenarios.params import SamplingParams
from sampler_scenarios.requests import ModelConfig

CPU = torch.device("cpu")


def end_after(*eos_token_ids: int) -> EndAfter:
    """The processor, for a model with these end-of-sequence tokens."""
    model = ModelConfig(vocab_size=4, eos_token_ids=eos_token_ids)
    config = EngineConfig(model=model, max_requests=4, max_drafts=0, device=CPU)
    return EndAfter(config, CPU, False)


def finite(processor: EndAfter, n_rows: int) -> list[list[int]]:
    """The columns that stay finite in each row of zeros."""
    rows = processor.apply(torch.zeros(n_rows, 4))
    return [torch.isfinite(row).nonzero().flatten().tolist() for row in rows]


def test_the_end_comes_when_the_output_is_long_enough() -> None:
    """Seen without an update, by the list that grows; the mate without a length goes on."""
    processor = end_after(1, 3)
    request = LiveRequest(SamplingParams(extra_args={"end_after": 1}))
    processor.update_state(BatchTracker().update([request, LiveRequest(SamplingParams())]))
    assert finite(processor, 2) == [[0, 1, 2, 3]] * 2
    request.output_token_ids.append(0)
    assert finite(processor, 2) == [[1, 3], [0, 1, 2, 3]]


def test_a_model_without_an_end_has_none() -> None:
    """The configuration is read at construction."""
    processor = end_after()
    processor.update_state(
        BatchTracker().update([LiveRequest(SamplingParams(extra_args={"end_after": 0}))])
    )
    assert finite(processor, 1) == [[0, 1, 2, 3]]


@pytest.mark.parametrize("value", [-1, 1.5, True])
def test_refusals(value: object) -> None:
    """The argument, what is allowed, what was given."""
    with pytest.raises(ValueError, match="end_after") as raised:
        EndAfter.validate_params(SamplingParams(extra_args={"end_after": value}))
    assert str(raised.value) == f"end_after must be an integer >= 0, got {value!r}"
