"""Requests of stages: each decides something, and no other stage of a pair hides it."""

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from sampler_reference.conventions import CONVENTIONS
from sampler_reference.defect_laws import right_law
from sampler_reference.processors import process
from sampler_scenarios.params import STAGES, SamplingParams
from sampler_scenarios.rows import load_row
from sampler_scenarios.stages import audit_model, build_request, switched_off

ROWS = ("dense-normal@2048", "zipf@512", "bf16-rounded@129")
EVERY_PAIR = pytest.mark.parametrize("pair", [*combinations(STAGES, 2)], ids="+".join)
EVERY_STAGE = pytest.mark.parametrize("stage", STAGES)


def law(row: str, *stages: str) -> NDArray[np.float64]:
    """The law of the row's request with these stages on."""
    logits = load_row(row).logits
    request = build_request(logits, SamplingParams(), stages)
    model = audit_model(logits.size, logits)
    ours = CONVENTIONS["sampler-audit"]
    return right_law(process(logits, request, model, ours), SamplingParams(), ours)


def distance(p: NDArray[np.float64], q: NDArray[np.float64]) -> float:
    """Total variation."""
    return float(np.abs(p - q).sum()) / 2


@EVERY_STAGE
@pytest.mark.parametrize("row", ROWS)
def test_a_stage_moves_probability(row: str, stage: str) -> None:
    """By at least a hundredth, on ordinary rows."""
    assert distance(law(row), law(row, stage)) > 0.01


@EVERY_STAGE
def test_a_stage_can_be_switched_off(stage: str) -> None:
    """It alone goes, and nothing that the others ask."""
    logits = load_row("zipf@512").logits
    every = build_request(logits, SamplingParams(), STAGES)
    left = switched_off(every, [stage])
    assert left.combo == tuple(other for other in STAGES if other != stage)
    assert switched_off(every, STAGES).combo == ()


@EVERY_PAIR
def test_neither_of_a_pair_hides_the_other(pair: tuple[str, str]) -> None:
    """Both show in the law of the pair; only a forced token leaves nothing to see."""
    both = law("zipf@512", *pair)
    for alone, other in (pair, pair[::-1]):
        if alone != "thinking_budget":
            assert distance(both, law("zipf@512", alone)) > 0.003, other


@EVERY_PAIR
def test_three_finite_logits_are_enough_for_a_pair(pair: tuple[str, str]) -> None:
    """Something is left to draw."""
    assert law("finite-3-spread@64", *pair).sum() == pytest.approx(1)


@EVERY_STAGE
def test_only_the_named_stage_is_on(stage: str) -> None:
    """A request of one stage has the settings of no other."""
    logits = load_row("zipf@512").logits
    request = build_request(logits, SamplingParams(top_k=9), (stage,))
    expected = {stage} - {"grammar", "processor"}
    assert set(request.params.stages) == expected
    assert (request.grammar is not None) == (stage == "grammar")
    assert bool(request.params.extra_args) == (stage == "processor")
    assert request.params.combo == ("top_k",)


@pytest.mark.parametrize("vocab_size", [1, 2, 3, 5, 129])
def test_ids_are_in_the_vocabulary(vocab_size: int) -> None:
    """Of prompts, outputs, settings and models, on the shortest rows too."""
    logits = np.zeros(vocab_size, np.float32)
    request = build_request(logits, SamplingParams(), STAGES)
    params, model = request.params, audit_model(vocab_size, logits)
    ids = {
        *request.token_ids,
        *(params.allowed_token_ids or ()),
        *params.logit_bias,
        *params.stop_token_ids,
        *(token for word in params.bad_words for token in word),
        *(*model.eos_token_ids, *model.reasoning_start, *model.reasoning_end),
    }
    assert ids <= set(range(vocab_size))


def test_requests_repeat() -> None:
    """The same arguments give the same request, in any order of the stages."""
    logits = load_row("zipf@512").logits
    first = build_request(logits, SamplingParams(), STAGES)
    second = build_request(logits, SamplingParams(), reversed(STAGES))
    assert first.params == second.params
    assert first.token_ids == second.token_ids


def test_a_lower_best_rank_is_about_other_tokens() -> None:
    """Rank 1 takes the place of rank 0, and so on."""
    logits = np.arange(0, -64, -1, dtype=np.float32)
    bias = build_request(logits, SamplingParams(), ("logit_bias",), best_rank=1).params.logit_bias
    assert bias == {13: 2.1, 1: -0.7, 2: 1.3}


def test_end_of_sequence_tokens_are_likely_in_the_row_of_a_model() -> None:
    """Fifth and ninth; without a row the vocabulary says where."""
    logits = load_row("zipf@512").logits
    likeliest = np.argsort(-logits, kind="stable")
    assert audit_model(512, logits).eos_token_ids == (likeliest[4], likeliest[8])
    assert len(set(audit_model(512).eos_token_ids)) == 2
    assert audit_model(512).reasoning_start == audit_model(512, logits).reasoning_start


def test_unknown_stage() -> None:
    """Named, with the known ones."""
    with pytest.raises(ValueError, match="unknown stage 'bias'; known: grammar, "):
        build_request(np.zeros(8, np.float32), SamplingParams(), ("bias",))


@pytest.mark.parametrize("stages", [(), ("logit_bias",), STAGES])
def test_reasoning_is_open_in_every_request(stages: tuple[str, ...]) -> None:
    """So that the budget of a slot's last holder would act: the last marker opens it."""
    row = load_row("dense-normal@512").logits
    (start, _), (end, _) = audit_model(512).reasoning_start, audit_model(512).reasoning_end
    markers = [
        t for t in build_request(row, SamplingParams(), stages).token_ids if t in (start, end)
    ]
    assert markers[-1] == start
