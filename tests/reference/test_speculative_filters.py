"""Every filter and stage acts at every draft position and at the bonus token, exactly."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.typing import NDArray

from sampler_reference import speculative as sd
from sampler_reference.conventions import CONVENTIONS
from sampler_reference.speculative_defects import WRONG_ROWS
from sampler_scenarios.params import FILTERS, STAGES, SamplingParams
from sampler_scenarios.requests import ModelConfig, Request

VOCAB_SIZE = 6
N_DRAFTS = 2
MODEL = ModelConfig(
    vocab_size=VOCAB_SIZE, eos_token_ids=(4,), reasoning_start=(3,), reasoning_end=(4, 5, 4)
)
OURS = CONVENTIONS["sampler-audit"]

# Each one changes some law of every position: the bad word follows an output of 0 0 1, the block of
# reasoning is over budget, the end of the output stands repeated before.
SETTINGS = {
    "temperature": SamplingParams(temperature=0.5),
    "top_k": SamplingParams(top_k=2),
    "top_p": SamplingParams(top_p=0.6),
    "min_p": SamplingParams(min_p=0.3),
    "grammar": SamplingParams(),
    "allowed_token_ids": SamplingParams(allowed_token_ids=(0, 2, 3, 5)),
    "logit_bias": SamplingParams(logit_bias={1: 1.5, 4: -1.0}),
    "min_tokens": SamplingParams(min_tokens=6, stop_token_ids=(5,)),
    "repetition_penalty": SamplingParams(repetition_penalty=1.8),
    "frequency_penalty": SamplingParams(frequency_penalty=0.7),
    "presence_penalty": SamplingParams(presence_penalty=1.1),
    "bad_words": SamplingParams(bad_words=((2,), (1, 0), (0, 1))),
    "processor": SamplingParams(extra_args={"dry_multiplier": 0.8}),
    "thinking_budget": SamplingParams(thinking_token_budget=1),
}


def logits(prefix: sd.Prefix) -> NDArray[np.float32]:
    """A random row after every prefix."""
    rng = np.random.default_rng([5, *prefix])
    return rng.normal(scale=1.2, size=VOCAB_SIZE).astype(np.float32)


def flat_logits(_: sd.Prefix) -> NDArray[np.float32]:
    """Three equal logits after every prefix."""
    return np.zeros(3, dtype=np.float32)


def draft(prefix: sd.Prefix) -> NDArray[np.float64]:
    """A drafter that may propose anything."""
    return np.asarray(np.random.default_rng([6, *prefix]).dirichlet(np.full(VOCAB_SIZE, 2.0)))


@dataclass(frozen=True)
class Case:
    """The target's law with a setting and without it."""

    target: sd.Conditional
    plain: sd.Conditional


def build_case(name: str) -> Case:
    """The setting alone, on a request with a prompt and an output."""
    output = (0, 1, 0, 1, 0, 1) if name == "processor" else (0, 0, 1)
    request = Request(SETTINGS[name], prompt_token_ids=(3, 1), output_token_ids=output)

    def at(prefix: sd.Prefix) -> Request:
        extended = request.extended(prefix)
        if name != "grammar":
            return extended
        return replace(extended, grammar=np.arange(VOCAB_SIZE) % 2 == len(prefix) % 2)

    def neutral(prefix: sd.Prefix) -> Request:
        return Request(output_token_ids=request.extended(prefix).output_token_ids)

    return Case(
        target=sd.target_of(logits, at, MODEL, OURS),
        plain=sd.target_of(logits, neutral, MODEL, OURS),
    )


def errors_by_depth(rows: sd.Rows, target: sd.Conditional, verify: sd.Verify) -> dict[int, float]:
    """Largest deviation from the target after 0, 1, ... tokens of the step."""
    proposals = sd.propose(draft, N_DRAFTS)
    worst = dict.fromkeys(range(N_DRAFTS + 1), 0.0)
    for told in (draft, None):
        laws = sd.next_token_laws(sd.emitted_law(rows, proposals, told, verify), VOCAB_SIZE)
        for prefix, row in laws.items():
            error = float(np.abs(row - target(prefix)).max())
            worst[len(prefix)] = max(worst[len(prefix)], error)
    return worst


def test_every_filter_and_stage_is_here() -> None:
    """One setting each."""
    assert sorted(SETTINGS) == sorted((*FILTERS, *STAGES))


@pytest.mark.parametrize("verify", [sd.standard_law, sd.block_law])
@pytest.mark.parametrize("name", SETTINGS)
def test_every_position_follows_the_filtered_target(name: str, verify: sd.Verify) -> None:
    """With and without q: draft positions 0 and 1 and the bonus token, within rounding."""
    case = build_case(name)
    errors = errors_by_depth(sd.rows_of(case.target), case.target, verify)
    assert max(errors.values()) < 1e-12


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_that_is_skipped_at_one_kind_of_row_shows_there(name: str) -> None:
    """The twin: the bonus row without it, or the draft rows; by at least one percentage point."""
    case = build_case(name)
    bonus = WRONG_ROWS["bonus-unfiltered"](case.target, case.plain)
    errors = errors_by_depth(bonus, case.target, sd.standard_law)
    assert errors[2] > 0.01
    assert max(errors[0], errors[1]) < 1e-12
    drafts = WRONG_ROWS["filter-skipped-at-drafts"](case.target, case.plain)
    errors = errors_by_depth(drafts, case.target, sd.standard_law)
    assert min(errors[0], errors[1]) > 0.01
    assert errors[2] < 1e-12


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        # Accepted 2 and 2 again: counted twice by one penalty and once by the other.
        (SamplingParams(frequency_penalty=1), [1, np.exp(-1), np.exp(-2)]),
        (SamplingParams(presence_penalty=1), [1, np.exp(-1), np.exp(-1)]),
        # The bad word's first two tokens are accepted drafts, or an output and a draft.
        (SamplingParams(bad_words=((2, 2, 0),)), [0, 1, 1]),
        (SamplingParams(bad_words=((1, 2, 2, 1),)), [1, 0, 1]),
        # One output and two drafts are one short of four.
        (SamplingParams(min_tokens=4, stop_token_ids=(1,)), [1, 0, 1]),
        (SamplingParams(min_tokens=3, stop_token_ids=(1,)), [1, 1, 1]),
    ],
)
def test_accepted_drafts_count_as_emitted(params: SamplingParams, expected: list[float]) -> None:
    """By hand, on equal logits after the output 1 and the drafts 2 2."""
    request = Request(params, output_token_ids=(1,))
    target = sd.target_of(flat_logits, request.extended, ModelConfig(vocab_size=3), OURS)
    assert target((2, 2)) == pytest.approx(np.array(expected) / sum(expected), rel=1e-6)
