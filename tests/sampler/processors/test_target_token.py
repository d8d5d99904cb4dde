"""The example in its two forms, on batches that change."""

import pytest
import torch

from sampler_audit.sampler.processors import BatchTracker, EngineConfig, LiveRequest
from sampler_audit.sampler.processors.examples.target_token import (
    TargetToken,
    TargetTokenByRequest,
)
from sampler_scenarios.params import SamplingParams
from sampler_scenarios.requests import ModelConfig

CPU = torch.device("cpu")
CONFIG = EngineConfig(model=ModelConfig(vocab_size=4), max_requests=4, max_drafts=0, device=CPU)
LOGITS = torch.arange(12, dtype=torch.float32).reshape(3, 4)
# Columns that stay finite in each row.
ALL = [0, 1, 2, 3]

FORMS = pytest.mark.parametrize("form", [TargetToken, TargetTokenByRequest])
Form = type[TargetToken] | type[TargetTokenByRequest]


def live(target: int | None) -> LiveRequest:
    """A request with that target, or with none."""
    extra_args = {} if target is None else {"target_token": target}
    return LiveRequest(SamplingParams(extra_args=extra_args))


@FORMS
def test_targets_follow_their_requests(form: Form) -> None:
    """Three steps: two with a target of three, their order changed, one gone; logits are kept."""
    a, b, c = live(1), live(None), live(3)
    tracker, processor = BatchTracker(), form(CONFIG, CPU, False)
    for requests, expected in (
        ([a, b, c], [[1], ALL, [3]]),
        ([c, a, b], [[3], [1], ALL]),
        ([b, c], [ALL, [3]]),
        ([b], [ALL]),
    ):
        processor.update_state(tracker.update(requests))
        given = LOGITS[: len(requests)]
        processed = processor.apply(given.clone())
        for row, before, columns in zip(processed, given, expected, strict=True):
            assert torch.isfinite(row).nonzero().flatten().tolist() == columns
            assert torch.equal(row[columns], before[columns])


@FORMS
def test_it_runs_for_greedy_requests_too(form: Form) -> None:
    """It changes the argmax."""
    assert not form(CONFIG, CPU, False).is_argmax_invariant()


@FORMS
@pytest.mark.parametrize("target", [-1, 1.0, True, "the"])
def test_what_is_no_token_id_is_refused(form: Form, target: object) -> None:
    """The argument, what is allowed, what was given."""
    form.validate_params(SamplingParams(extra_args={"target_token": 3}))
    with pytest.raises(ValueError, match="target_token") as raised:
        form.validate_params(SamplingParams(extra_args={"target_token": target}))
    assert str(raised.value) == (
        f"target_token must be a token id, an integer >= 0, got {target!r}"
    )
