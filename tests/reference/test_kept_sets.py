"""judge_kept: which masks pass, which are within rounding, and what is said of the others."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from sampler_reference.conventions import CONVENTIONS
from sampler_reference.distribution import reference_distribution
from sampler_reference.kept_sets import Judgement, judge_kept
from sampler_scenarios.params import SamplingParams

OURS = CONVENTIONS["sampler-audit"]
P6 = np.log(np.array([0.40, 0.22, 0.14, 0.09, 0.08, 0.07])).astype(np.float32)
TIED = np.array([2, *[1] * 6, 0], dtype=np.float32)


def judge(
    kept: list[int],
    logits: NDArray[np.float32] = P6,
    name: str = "sampler-audit",
    mass_error: float = 0.0,
    min_p_error: float = 0.0,
    *,
    temperature: float = 1,
    top_k: int = -1,
    top_p: float = 1,
    min_p: float = 0,
) -> Judgement:
    """Judge the mask of the token ids ``kept``."""
    mask = np.zeros(logits.size, dtype=np.bool_)
    mask[kept] = True
    params = SamplingParams(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    return judge_kept(mask, logits, params, CONVENTIONS[name], mass_error, min_p_error)


@pytest.mark.parametrize("name", CONVENTIONS)
def test_the_declared_set_is_exact(name: str) -> None:
    """On a row with ties, all filters on; nothing is lost or gained."""
    params = SamplingParams(temperature=0.8, top_k=5, top_p=0.9, min_p=0.01)
    kept = reference_distribution(TIED, params, CONVENTIONS[name]).kept
    found = judge_kept(kept, TIED, params, CONVENTIONS[name])
    assert (found.verdict, found.rule, found.n_expected) == ("EXACT", "", int(kept.sum()))
    assert np.array_equal(found.expected, kept)
    assert found.lost.size == found.gained.size == 0
    assert found.lost_mass == found.gained_mass == 0


def test_a_dropped_weakest_token_is_told_by_the_mass_that_is_left() -> None:
    """P6 at p = .9 needs five tokens, .93; four hold .85."""
    found = judge([0, 1, 2, 3], top_p=0.9)
    assert found.verdict == "FAIL"
    assert found.rule == "dropped 1 token that is needed for top_p=0.9: the kept mass is 0.85"
    assert (found.lost.tolist(), found.n_expected) == ([4], 5)
    # .08 of the .93 that should be kept.
    assert found.lost_mass == pytest.approx(0.08 / 0.93)


def test_mass_is_of_the_survivors_of_earlier_filters() -> None:
    """top_k = 3 leaves .76: the first two hold .62 / .76 of it, enough for .8 but not for .82."""
    assert judge([0, 1], top_k=3, top_p=0.81).verdict == "EXACT"
    found = judge([0, 1], top_k=3, top_p=0.82)
    assert found.rule == "dropped 1 token that is needed for top_p=0.82: the kept mass is 0.815789"


def test_the_original_fault() -> None:
    """min_p leaves two tokens, top_k = 50 cuts none, and the runner-up, needed for p, is gone."""
    logits = np.array([0, np.log(0.9), -5], dtype=np.float32)
    found = judge([0], logits, top_k=50, top_p=0.9, min_p=0.05)
    assert found.verdict == "FAIL"
    # 1 / 1.9
    assert found.rule == "dropped 1 token that is needed for top_p=0.9: the kept mass is 0.526316"


def test_a_dropped_runner_up_is_told_without_a_reference() -> None:
    """A kept logit below a masked one is wrong under every convention."""
    found = judge([0, 2, 3], top_k=3)
    assert found.verdict == "FAIL"
    assert found.rule.startswith(
        "a kept logit is below a masked one: token 3 is kept and token 1 is not"
    )
    assert (found.lost.tolist(), found.gained.tolist()) == ([1], [3])
    assert found.gained_mass == pytest.approx(0.09 / (0.40 + 0.14 + 0.09))


def test_too_few_for_top_k() -> None:
    """The rule counts and names the filter."""
    assert judge([0, 1], top_k=4).rule == "dropped 2 tokens that top_k=4 keeps: 2 of 4 are kept"


def test_too_many_for_top_k() -> None:
    """Also where a later filter is on that keeps all of them."""
    expected = "kept 2 tokens too many: ranked below the best 2, top_k=2"
    assert judge([0, 1, 2, 3], top_k=2, top_p=0.99).rule == expected


def test_too_many_for_top_p() -> None:
    """The mass above the last kept one, .62, has reached p already."""
    found = judge([0, 1, 2], top_p=0.5)
    assert found.rule == "kept 1 token too many: the mass above the last is 0.62, top_p=0.5"


def test_too_many_and_too_few_for_min_p() -> None:
    """Tokens of at least .19 of the maximum: ids 0 to 4."""
    few, many = judge([0, 1], min_p=0.19), judge([0, 1, 2, 3, 4, 5], min_p=0.19)
    assert few.rule == "dropped 3 tokens that min_p=0.19 keeps: 2 of 5 are kept"
    assert many.rule == "kept 1 token too many: less likely than 0.19 of the maximum (min_p)"


def test_a_token_lost_without_any_filter() -> None:
    """Nothing may be masked where nothing filters."""
    assert judge([0, 1, 2, 3, 4]).rule == "dropped 1 token that no filter removes: 5 of 6 are kept"


def test_nothing_kept() -> None:
    """A set is never empty while a logit is finite."""
    assert judge([], top_k=2).rule == "kept nothing, where 2 tokens should stay"


def test_a_masked_token_kept() -> None:
    """It carries no weight, so it gains no mass, but it must not be there."""
    logits = np.array([1, -np.inf, 0], dtype=np.float32)
    found = judge([0, 1], logits, top_k=2)
    assert found.rule == "kept 1 token whose logit is -inf"
    assert (found.lost.tolist(), found.gained.tolist(), found.gained_mass) == ([2], [1], 0)


def test_a_masked_row_must_keep_nothing() -> None:
    """The empty set is right there, and anything else is not."""
    masked = np.full(3, -np.inf, dtype=np.float32)
    assert judge([], masked, top_k=2).verdict == "EXACT"
    assert judge([0], masked, top_k=2).rule == "kept 1 token whose logit is -inf"


def test_greedy_keeps_one() -> None:
    """Filters have no say at temperature 0."""
    assert judge([0], temperature=0, top_k=3).verdict == "EXACT"
    assert judge([0, 1], temperature=0).rule == "kept 2 tokens at temperature=0; greedy keeps 1"


@pytest.mark.parametrize(
    ("name", "kept", "verdict"),
    [
        ("sampler-audit", [0, 1, 2], "EXACT"),
        ("sampler-audit", [0, 3, 5], "FAIL"),
        ("sampler-audit", [0, 1, 2, 3, 4, 5, 6], "FAIL"),
        ("llama.cpp", [0, 3, 5], "EXACT"),
        ("llama.cpp", [0, 1], "FAIL"),
        ("vllm-pytorch", [0, 1, 2, 3, 4, 5, 6], "EXACT"),
        ("vllm-pytorch", [0, 3, 5], "FAIL"),
    ],
)
def test_ties_at_k_as_declared(name: str, kept: list[int], verdict: str) -> None:
    """K = 3 of a row with one best token and six tied: lowest ids, any ids, or all."""
    assert judge(kept, TIED, name, top_k=3).verdict == verdict


@pytest.mark.parametrize("name", ["vllm-pytorch", "huggingface"])
def test_ties_at_p_of_any_ids(name: str) -> None:
    """Seven equal tokens, p = .4: three are needed, whichever."""
    flat = np.zeros(7, dtype=np.float32)
    found = judge([1, 4, 6], flat, name, top_p=0.4)
    assert (found.verdict, found.lost.size, found.gained.size) == ("EXACT", 0, 0)
    assert np.flatnonzero(found.expected).tolist() == [1, 4, 6]


def test_wrong_number_of_ties_is_counted() -> None:
    """The words of a report: kept, size of the group, needed, all."""
    found = judge([0, 1, 2, 3, 4], TIED, top_k=3)
    assert found.rule == (
        "kept 4 of 6 tied tokens at the top_k edge; 2 are needed and 6 would be all"
    )
    lost = judge([0], TIED, "vllm-pytorch", top_k=3)
    assert lost.rule == "kept 0 of 6 tied tokens at the top_k edge; all belong in"


def test_other_ids_of_a_tied_group_are_told_as_such() -> None:
    """Lowest ids first is a rule too."""
    found = judge([0, 2, 3], TIED, top_k=3)
    assert found.rule == (
        "tied tokens must be kept from the lowest id up: token 3 is kept and token 1 is not"
    )


@pytest.mark.parametrize(("kept", "verdict"), [([0, 1, 2, 3], "EXACT"), ([0, 1, 2], "BAND")])
def test_an_edge_within_rounding_is_a_band(kept: list[int], verdict: str) -> None:
    """P6 at p = .760001: the mass before the fourth token is 1e-6 away from p."""
    assert judge(kept, top_p=0.760001, mass_error=2e-6).verdict == verdict


def test_an_edge_beyond_rounding_fails() -> None:
    """The same mask under a smaller error; and one token further is never within it."""
    assert judge([0, 1, 2], top_p=0.760001, mass_error=5e-7).verdict == "FAIL"
    assert judge([0, 1], top_p=0.760001, mass_error=2e-6).verdict == "FAIL"


def test_a_band_must_still_be_the_best_tokens() -> None:
    """As many as the band allows, but not the best ones."""
    assert judge([0, 1, 3], top_p=0.760001, mass_error=2e-6).verdict == "FAIL"


def test_a_min_p_threshold_within_rounding_is_a_band() -> None:
    """Token 1 has .55 of the maximum: min_p = .5500005 is 9e-7 nats above it."""
    assert judge([0, 1], min_p=0.5500005, min_p_error=2e-6).verdict == "BAND"
    assert judge([0, 1], min_p=0.5500005, min_p_error=1e-8).verdict == "FAIL"


def test_a_band_does_not_split_a_group_that_is_kept_whole() -> None:
    """Value-based cuts: near the edge all of the tied tokens or none."""
    logits = np.log(np.array([0.5, 0.1, 0.1, 0.1, 0.1, 0.1])).astype(np.float32)
    none, some, whole = (
        judge(kept, logits, "flashinfer", top_p=0.5, mass_error=1e-6)
        for kept in ([0], [0, 1, 2], [0, 1, 2, 3, 4, 5])
    )
    assert {none.verdict, whole.verdict} == {"EXACT", "BAND"}
    assert some.verdict == "FAIL"


def test_crossing_token_by_convention() -> None:
    """P6 at p = .7: three tokens hold .76; where the crossing one is dropped two are right."""
    drops = replace(OURS, crossing_kept=False)
    mask, params = np.array([True, True, False, False, False, False]), SamplingParams(top_p=0.7)
    assert judge_kept(mask, P6, params, drops).verdict == "EXACT"
    assert judge_kept(mask, P6, params, OURS).verdict == "FAIL"
