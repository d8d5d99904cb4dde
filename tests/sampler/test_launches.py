"""What runs in a step, counted: no stage works for a batch that does not use it."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from sampler_audit.sampler.batched import BatchedSampler
from sampler_scenarios.params import SamplingParams
from sampler_scenarios.requests import ModelConfig, Request

DRY = "sampler_audit.sampler.processors.examples.dry:Dry"
DRAW = {"gumbel_draw": 1}
COUNTS = {"rebuild_token_counts": 1}
HISTORY = {"token_ids", "prompt_len", "total_len", "drafts", "local positions"}
ROWS = {"row slots", "positions", "seeds"}


def build(model: ModelConfig, **options: Any) -> BatchedSampler:
    """A sampler of eight slots on the twins."""
    defaults: dict[str, Any] = {"path": "twin", "processors": [DRY], "max_requests": 8}
    return BatchedSampler(model, rng=np.random.default_rng(1), **(defaults | options))


def split(launches: Counter[str]) -> tuple[dict[str, int], set[str]]:
    """Launches by name, and the names of what was copied, each of them once."""
    copied = {name.removeprefix("copy "): n for name, n in launches.items() if "copy" in name}
    assert set(copied.values()) <= {1}
    return {name: n for name, n in launches.items() if "copy" not in name}, {*copied}


@pytest.mark.parametrize(
    ("params", "launches", "copies"),
    [
        (SamplingParams(), DRAW, set()),
        (SamplingParams(logprobs=0, seed=3), DRAW | {"log_probs_of": 1, "ranks_of": 1}, set()),
        (SamplingParams(temperature=0.5), DRAW | {"apply_temperature": 1}, {"temperature"}),
        (SamplingParams(top_k=3), {"filter_and_draw": 1}, {"top_k"}),
        (SamplingParams(top_p=0.5), {"filter_and_draw": 1}, {"top_p"}),
        (SamplingParams(min_p=0.5), {"filter_and_draw": 1}, {"min_p"}),
        (SamplingParams(temperature=0), {"filter_and_draw": 1}, {"top_k with greedy"}),
        (
            SamplingParams(allowed_token_ids=(1, 2)),
            DRAW | {"apply_allowed_token_ids": 1},
            {"logits", "allowed_token_ids", "allowed_token_ids counts"},
        ),
        (
            SamplingParams(logit_bias={4: 0.5}),
            DRAW | {"apply_logit_bias": 1},
            {"logits", "logit_bias", "logit_bias token_ids", "logit_bias counts"},
        ),
        (
            SamplingParams(min_tokens=2),
            DRAW | {"apply_min_tokens": 1},
            {
                *("logits", "min_tokens", "stop_token_ids", "stop_token_ids counts", "restore"),
                *HISTORY,
            },
        ),
        (
            SamplingParams(frequency_penalty=0.5),
            DRAW | COUNTS | {"apply_penalties": 1},
            {"logits", "frequency_penalty", "new slots", *HISTORY},
        ),
        (
            SamplingParams(repetition_penalty=1.5, presence_penalty=0.5),
            DRAW | COUNTS | {"apply_penalties": 1},
            {"logits", "repetition_penalty", "presence_penalty", "new slots", *HISTORY},
        ),
        (
            SamplingParams(bad_words=((5,),)),
            DRAW | {"apply_bad_words": 1},
            {"logits", "bad_words", "bad_words offsets", "bad_words counts", *HISTORY},
        ),
        (
            SamplingParams(thinking_token_budget=0),
            DRAW | {"apply_thinking_budget": 1},
            {"logits", "thinking_token_budget", *HISTORY},
        ),
    ],
)
def test_a_setting_runs_its_own_stage_and_no_other(
    params: SamplingParams, launches: dict[str, int], copies: set[str], model: ModelConfig
) -> None:
    """Beside the rows' own arrays nothing else is copied, the logits only where a stage writes.

    Once a step each; the second step finds the state where the first one left it.
    """
    sampler = build(model)
    slots = [sampler.add(Request(params, (1, 2), (1,))), sampler.add(Request())]
    steps = [split(sampler.step(torch.zeros(2, 40), slots).launches) for _ in range(2)]
    assert steps[0] == (launches, copies | ROWS)
    by_step = {"row slots", "positions", "logits", "drafts", "local positions", "restore"}
    again = {name: n for name, n in launches.items() if name not in COUNTS}
    assert steps[1] == (again, (copies | ROWS) & (by_step | {"top_k with greedy"}))


def test_a_processor_runs_for_those_that_ask(model: ModelConfig) -> None:
    """And is not called at all where nobody does."""
    sampler = build(model)
    plain = sampler.add(Request())
    dry = sampler.add(Request(SamplingParams(extra_args={"dry_multiplier": 1.0}), (1, 2, 1)))
    assert "processors" not in sampler.step(torch.zeros(1, 40), [plain]).launches
    assert sampler.step(torch.zeros(2, 40), [plain, dry]).launches["processors"] == 1


def test_a_grammar_costs_where_a_row_has_one(model: ModelConfig) -> None:
    """Only the masks of those rows travel."""
    sampler = build(model)
    slots = [sampler.add(Request()) for _ in range(2)]
    logits = torch.zeros(2, 40)
    assert split(sampler.step(logits, slots, grammar=[None, None]).launches)[0] == DRAW
    launches, copies = split(
        sampler.step(logits, slots, grammar=[None, np.arange(40) < 9]).launches
    )
    assert launches == DRAW | {"apply_bitmask": 1}
    assert copies == {"logits", "grammar", "grammar rows", "row slots", "positions"}


def test_a_request_that_is_not_in_the_step_costs_nothing(
    model: ModelConfig, random_request: Callable[..., Request]
) -> None:
    """It uses every stage and has just come, and one before it has just left its slot."""
    sampler = build(model)
    rng = np.random.default_rng(2)
    plain = sampler.add(Request())
    sampler.remove(sampler.add(random_request(rng, 1)))
    sampler.add(random_request(rng, 1))
    assert split(sampler.step(torch.zeros(1, 40), [plain]).launches) == (DRAW, ROWS)


def test_a_slot_that_nobody_needs_any_more_costs_nothing(
    model: ModelConfig, random_request: Callable[..., Request]
) -> None:
    """A plain request in the slot of one that used every stage, and had run."""
    sampler = build(model)
    slot = sampler.add(random_request(np.random.default_rng(3), 1))
    sampler.step(torch.zeros(1, 40), [slot])
    sampler.remove(slot)
    plain = sampler.add(Request())
    assert plain == slot
    assert split(sampler.step(torch.zeros(1, 40), [plain]).launches) == (DRAW, ROWS)


def test_logits_are_copied_once(model: ModelConfig, random_request: Callable[..., Request]) -> None:
    """However many stages write, and once more where what the model gave is listed."""
    sampler = build(model)
    request = random_request(np.random.default_rng(4), 1)
    slots = [sampler.add(request)]
    step = torch.zeros(1, 40), slots
    grammar = [np.ones(40, np.bool_)]
    assert sampler.step(*step, grammar=grammar).launches["copy logits"] == 1
    listed = replace(request, params=replace(request.params, logprobs=2))
    slots.append(sampler.add(listed))
    step = torch.zeros(2, 40), slots
    assert sampler.step(*step).launches["copy logits"] == 1
    assert sampler.step(*step, grammar=[*grammar, *grammar]).launches["copy logits"] == 2


def test_emitted_tokens_are_counted_where_somebody_is_penalised(model: ModelConfig) -> None:
    """One launch for all that was committed since the last step."""
    sampler = build(model)
    penalised = sampler.add(Request(SamplingParams(presence_penalty=1), (1,)))
    plain = sampler.add(Request())
    slots = [penalised, plain]
    sampler.step(torch.zeros(2, 40), slots)
    for slot in (penalised, plain, penalised):
        sampler.commit(slot, [4, 5])
    launches = split(sampler.step(torch.zeros(2, 40), slots).launches)[0]
    assert launches == DRAW | {"add_output_tokens": 1, "apply_penalties": 1}
    sampler.commit(plain, [4, 5])
    sampler.commit(penalised, [])
    launches = split(sampler.step(torch.zeros(2, 40), slots).launches)[0]
    assert launches == DRAW | {"apply_penalties": 1}
