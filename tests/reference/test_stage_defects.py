"""Planted defects of stages: each changes a row where it can act, and nothing elsewhere."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from sampler_reference.conventions import CONVENTIONS
from sampler_reference.defect_laws import right_law
from sampler_reference.defects import DEFECTS, POOLED
from sampler_reference.processors import process
from sampler_reference.stage_defects import STAGE_DEFECTS
from sampler_scenarios.params import STAGES, SamplingParams
from sampler_scenarios.requests import ModelConfig, Request
from sampler_scenarios.rows import load_row
from sampler_scenarios.stages import audit_model, build_request

OURS = CONVENTIONS["sampler-audit"]
OF_REQUESTS = [name for name, defect in STAGE_DEFECTS.items() if defect.process]
MODEL = ModelConfig(vocab_size=6, eos_token_ids=(4, 5), reasoning_start=(0,), reasoning_end=(1,))
ZIPF = load_row("zipf@129").logits


def wrong(
    name: str, logits: NDArray[np.float32], request: Request, model: ModelConfig = MODEL
) -> NDArray[np.float32]:
    """What the defect lets through to the filters."""
    processes = STAGE_DEFECTS[name].process
    assert processes is not None
    return processes(logits, request, model, OURS)


def test_names_and_sources() -> None:
    """Named as they are looked up, each with a source; no name is used twice, none is pooled."""
    assert len(STAGE_DEFECTS) == 25
    assert all(d.name == name and d.summary and d.source for name, d in STAGE_DEFECTS.items())
    assert not any(defect.pooled or name in POOLED for name, defect in STAGE_DEFECTS.items())
    assert {d.stage for d in STAGE_DEFECTS.values() if d.process} == {"processing"}
    assert all(d.needs | d.one_of <= set(STAGES) for d in STAGE_DEFECTS.values())
    assert not any(d.process for d in DEFECTS.values() if d.law)


# What is wrong, of six zeros, prompt 2 2 3 and output 3 3: by hand.
@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        ("penalty-counts-prompt", SamplingParams(frequency_penalty=1), [0, 0, -2, -3, 0, 0]),
        ("penalty-counts-prompt", SamplingParams(presence_penalty=1), [0, 0, -1, -1, 0, 0]),
        ("penalty-misses-output", SamplingParams(frequency_penalty=1), [0] * 6),
        ("penalty-twice", SamplingParams(frequency_penalty=1), [0, 0, 0, -4, 0, 0]),
        ("penalty-twice", SamplingParams(presence_penalty=1), [0, 0, 0, -2, 0, 0]),
        ("presence-for-frequency", SamplingParams(frequency_penalty=1), [0, 0, 0, -1, 0, 0]),
    ],
)
def test_wrong_penalties(name: str, settings: SamplingParams, expected: list[float]) -> None:
    """Counts of the prompt, none of the output, twice, or once only."""
    request = Request(settings, (2, 2, 3), (3, 3))
    assert wrong(name, np.zeros(6, np.float32), request).tolist() == expected


def test_wrong_repetition_penalties() -> None:
    """4 and -4, the first in the prompt, the other in the output, penalty 2."""
    x = np.array([4, -4], np.float32)
    request = Request(SamplingParams(repetition_penalty=2), (0,), (1,))
    assert wrong("repetition-ignores-sign", x, request).tolist() == [2, -2]
    assert wrong("penalty-misses-output", x, request).tolist() == [2, -4]
    assert wrong("penalty-twice", x, request).tolist() == [1, -16]


def test_the_sign_rule_of_a_public_report() -> None:
    """huggingface/transformers#2302: -2.0 (seen) and -2.1, penalty 1.5: .683 instead of .289."""
    x, request = (
        np.array([-2.0, -2.1], np.float32),
        Request(SamplingParams(repetition_penalty=1.5), (0,)),
    )
    law = right_law(wrong("repetition-ignores-sign", x, request), SamplingParams(), OURS)
    assert law[0] == pytest.approx(0.683, abs=5e-4)


# Masked ids of six zeros, prompt 2 3, output 3 0, end-of-sequence tokens 4 and 5.
@pytest.mark.parametrize(
    ("name", "settings", "masked"),
    [
        ("bad-word-matches-prompt", SamplingParams(bad_words=((2, 3, 3, 0, 1),)), [1]),
        ("bad-word-ignored-prefix", SamplingParams(bad_words=((1, 2), (3,))), [2, 3]),
        ("allowed-ids-inverted", SamplingParams(allowed_token_ids=(1, 2, 9)), [1, 2]),
        ("min-tokens-off-by-one", SamplingParams(min_tokens=3), []),
        ("min-tokens-off-by-one", SamplingParams(min_tokens=4), [4, 5]),
        ("second-eos-free", SamplingParams(min_tokens=3, stop_token_ids=(1,)), [1, 4]),
        ("stop-set-without-eos", SamplingParams(min_tokens=3, stop_token_ids=(1,)), [1]),
    ],
)
def test_wrong_masks(name: str, settings: SamplingParams, masked: list[int]) -> None:
    """The tokens that go, by hand."""
    x = wrong(name, np.zeros(6, np.float32), Request(settings, (2, 3), (3, 0)))
    assert np.flatnonzero(np.isneginf(x)).tolist() == masked


def test_an_ignored_budget_forces_nothing() -> None:
    """Where the right next token is the end marker."""
    request, x = Request(SamplingParams(thinking_token_budget=0), (0,)), np.zeros(6, np.float32)
    assert process(x, request, MODEL, OURS)[1] == 1e9
    assert not wrong("thinking-budget-ignored", x, request).any()


@pytest.mark.parametrize("name", OF_REQUESTS)
def test_a_defect_acts_on_the_requests_of_its_stages(name: str) -> None:
    """With each stage that is enough for it, the audit's own request shows it."""
    defect, model = STAGE_DEFECTS[name], audit_model(ZIPF.size, ZIPF)
    for stage in defect.one_of or {""}:
        request = build_request(ZIPF, SamplingParams(), (defect.needs | {stage}) - {""})
        changed = wrong(name, ZIPF, request, model)
        assert (changed != process(ZIPF, request, model, OURS)).any()


@pytest.mark.parametrize("name", OF_REQUESTS)
def test_without_its_stages_a_defect_changes_nothing(name: str) -> None:
    """All other stages are on."""
    defect, model = STAGE_DEFECTS[name], audit_model(ZIPF.size, ZIPF)
    others = set(STAGES) - (defect.needs or defect.one_of)
    request = build_request(ZIPF, SamplingParams(), others)
    expected = process(ZIPF, request, model, OURS)
    assert wrong(name, ZIPF, request, model).tobytes() == expected.tobytes()


def test_conventions_under_which_a_defect_is_the_rule() -> None:
    """Where the prompt counts by declaration, counting it is right."""
    llama, processes = CONVENTIONS["llama.cpp"], STAGE_DEFECTS["penalty-counts-prompt"].process
    assert processes is not None
    request = build_request(ZIPF, SamplingParams(), ("frequency_penalty",))
    assert (processes(ZIPF, request, MODEL, llama) == process(ZIPF, request, MODEL, llama)).all()
    unlimited = replace(llama, penalty_window=0)
    assert (process(ZIPF, request, MODEL, unlimited) != process(ZIPF, request, MODEL, OURS)).any()
