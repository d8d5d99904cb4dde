"""Distribution: laws printed in public reports, exact ties, special values, and properties."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sampler_reference.conventions import CONVENTIONS, Conventions
from sampler_reference.distribution import Distribution, reference_distribution, scaled
from sampler_scenarios.params import SamplingParams

OURS = CONVENTIONS["sampler-audit"]
FLOAT32_MAX = float(np.finfo(np.float32).max)


def row(*probs: float) -> NDArray[np.float32]:
    """Logits whose softmax is ``probs``."""
    return np.log(np.array(probs, dtype=np.float64)).astype(np.float32)


P4 = row(0.1, 0.2, 0.3, 0.4)
P6 = row(0.40, 0.22, 0.14, 0.09, 0.08, 0.07)
P8 = row(0.40, 0.22, 0.14, 0.09, 0.06, 0.04, 0.03, 0.02)


def law(
    logits: NDArray[np.float32],
    name: str = "sampler-audit",
    *,
    temperature: float = 1,
    top_k: int = -1,
    top_p: float = 1,
    min_p: float = 0,
) -> Distribution:
    """The reference law under named conventions."""
    params = SamplingParams(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    return reference_distribution(logits, params, CONVENTIONS[name])


def probs(distribution: Distribution) -> list[float]:
    """Probabilities to three decimals, as reports print them."""
    return [round(float(p), 3) for p in distribution.probs]


def test_ties_at_k_example_of_a_public_report() -> None:
    """vllm-project/vllm#50979: both conventions with the numbers of the report's case."""
    logits = np.array([5, 4, 4, 4, 4, 1], dtype=np.float32)
    assert probs(law(logits, top_k=3)) == [0.576, 0.212, 0.212, 0, 0, 0]
    assert probs(law(logits, "vllm-pytorch", top_k=3)) == [0.405, 0.149, 0.149, 0.149, 0.149, 0]


def test_joint_and_sequential_example_of_a_public_report() -> None:
    """sgl-project/sglang#36173, k = 3 and p = .7 on six tokens."""
    joint, sequential = (law(P6, n, top_k=3, top_p=0.7) for n in ("flashinfer-joint", "flashinfer"))
    assert probs(joint) == [0.526, 0.289, 0.184, 0, 0, 0]
    assert probs(sequential) == [0.645, 0.355, 0, 0, 0, 0]


def test_temperature_last_example_of_a_public_report() -> None:
    """huggingface/transformers#8686, T = 2 and p = .7: four tokens or, temperature last, three."""
    first, last = law(P8, temperature=2, top_p=0.7), law(P8, "llama.cpp", temperature=2, top_p=0.7)
    assert first.kept.sum() == 4
    # sqrt(.4, .22, .14) over their sum, by hand.
    assert probs(last) == [0.429, 0.318, 0.254, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(("p", "n"), [(0.7499, 2), (0.7501, 3)])
def test_extra_token_example_of_a_public_report(p: float, n: int) -> None:
    """huggingface/transformers#18976: .5 .25 .125 .125 on both sides of p = .75."""
    assert law(row(0.5, 0.25, 0.125, 0.125), top_p=p).kept.sum() == n


def test_a_mass_that_equals_p_is_a_matter_of_rounding() -> None:
    """At p = .75 itself both two and three tokens are right; the third would have 1/7."""
    d = law(row(0.5, 0.25, 0.125, 0.125), top_p=0.75)
    assert d.n_kept_range == (2, 3)
    assert d.must_keep.tolist() == [True, True, False, False]
    assert d.may_keep.tolist() == [True, True, True, False]
    assert d.upper[2] / (d.upper[:2].sum() + d.upper[2]) == pytest.approx(1 / 7)


@pytest.mark.parametrize("p", [0.7600003, 0.7599997])
def test_the_band_lies_on_both_sides_of_p(p: float) -> None:
    """P6: the mass before the fourth token is 3e-7 from p, less than the band of 2^-21."""
    d = law(P6, top_p=p)
    assert d.kept.sum() == (4 if p > 0.76 else 3)
    assert (d.n_kept_range, d.must_keep.sum(), d.may_keep.sum()) == ((3, 4), 3, 4)


def test_joint_filters_both_cut() -> None:
    """Either may be the one that decides."""
    assert law(P6, "flashinfer-joint", top_k=2, top_p=0.9).kept.sum() == 2
    assert law(P6, "flashinfer-joint", top_k=5, top_p=0.7).kept.sum() == 3


def test_top_k_before_top_p_renormalises() -> None:
    """ml-explore/mlx-lm#388: one survivor stays whatever p, and two of k = 2 at p = .8."""
    logits = row(0.15, 0.12, 0.11, 0.10, 0.10, 0.09, 0.09, 0.08, 0.08, 0.08)
    assert law(logits, top_k=1, top_p=0.8).kept.sum() == 1
    assert law(logits, top_k=2, top_p=0.8).kept.sum() == 2


def test_temperature_and_top_k_example_of_a_public_report() -> None:
    """vllm-project/vllm#9453 and its kin: P4 at T = .5 and k = 2 has log-probs -1.022 and -.446."""
    d = law(P4, temperature=0.5, top_k=2)
    assert np.log(d.probs[2:]).round(3).tolist() == [-1.022, -0.446]


def test_peaked_row_example_of_a_public_report() -> None:
    """vllm-project/vllm#48927: a head of .9999 and a geometric tail; p = .99995 needs 70 tokens."""
    tail = 0.99 ** np.arange(4095)
    d = law(row(0.9999, *(1e-4 * tail / tail.sum())), top_p=0.99995)
    assert d.kept.sum() == 70
    assert d.probs[d.kept].min() * 0.99995 == pytest.approx(5.05e-7, rel=1e-3)


def test_lowest_ids_of_a_tied_group_are_kept() -> None:
    """vllm-project/vllm#54651: 64 tokens of 1/128 beside one of 1/2; just below 3/4, 32 stay."""
    logits = np.full(64 * 2048, -np.inf, dtype=np.float32)
    ties = np.arange(64) * 2048 + 5
    logits[ties], logits[0] = np.log(1 / 128), np.log(1 / 2)
    kept = np.flatnonzero(law(logits, top_p=0.749).kept)
    assert kept.tolist() == [0, *ties[:32].tolist()]


def test_large_logits_keep_the_best() -> None:
    """microsoft/onnxruntime-genai#1363: 2000, 1960, 1955, ... at k = 40, p = .95 is the first."""
    logits = np.array([2000, *np.arange(1960, 1700, -5)], dtype=np.float32)
    assert np.flatnonzero(law(logits, top_k=40, top_p=0.95).kept).tolist() == [0]


@pytest.mark.parametrize("p", [1e-8, 1e-4])
def test_tiny_p_is_never_empty(p: float) -> None:
    """huggingface/transformers#19839: it keeps the best token, as T = 0 does."""
    assert law(P8, top_p=p).probs.tolist() == law(P8, temperature=0).probs.tolist()


@pytest.mark.parametrize("temperature", [0, 1e-6, 1e-3])
def test_tiny_temperature_is_the_argmax(temperature: float) -> None:
    """vllm-project/vllm#3063: 7, 6.9, 0 leave 100 nats at T = 1e-3, beyond float64 in softmax."""
    d = law(np.array([0, 6.9, 7], dtype=np.float32), temperature=temperature)
    assert d.probs == pytest.approx([0, 0, 1], abs=1e-40)


def test_greedy_takes_the_lowest_id_of_a_tied_maximum() -> None:
    """Whatever the filters say."""
    d = law(np.array([1, 7, 7, 0], dtype=np.float32), temperature=0, top_k=3, top_p=0.9)
    assert d.probs.tolist() == [0, 1, 0, 0]
    assert d.kept.tolist() == d.must_keep.tolist() == d.may_keep.tolist() == d.probs.tolist()


def test_greedy_may_take_any_tied_maximum_where_ties_are_open() -> None:
    """Of three tokens of which two tie, one of the two is drawn every time."""
    d = law(np.array([1, 7, 7], dtype=np.float32), "llama.cpp", temperature=0, top_k=3)
    assert d.may_keep.tolist() == [False, True, True]
    assert not d.must_keep.any()
    assert d.n_kept_range == (1, 1)


def test_a_masked_row_keeps_nothing() -> None:
    """Nothing can be drawn: probabilities are 0, no class holds a token."""
    d = law(np.full(5, -np.inf, dtype=np.float32), temperature=0.7, top_k=2, top_p=0.9, min_p=0.1)
    assert not d.probs.any()
    assert not (d.kept | d.may_keep).any()
    assert not d.upper.any()
    assert d.n_kept_range == (0, 0)


def test_special_values_follow_the_stated_policy() -> None:
    """NaN is masked, +inf is the largest float32, -0.0 ties with 0.0."""
    z = scaled(np.array([np.nan, np.inf, -np.inf, -0.0, 3], dtype=np.float32), 2)
    assert z.tolist() == [-np.inf, FLOAT32_MAX, -np.inf, 0, 1.5]
    assert not np.signbit(z[3])
    assert law(np.array([np.nan, np.inf, 1, np.inf], dtype=np.float32)).probs.tolist() == [
        0,
        0.5,
        0,
        0.5,
    ]


def test_division_is_in_float32() -> None:
    """The nearest float32 to 1/3 is 11184811 / 2^25; an overflow is the largest float32."""
    z = scaled(np.array([1, 1e37], dtype=np.float32), 3)
    assert z.dtype == np.float32
    assert float(z[0]) == 11184811 / 2**25 != 1 / 3
    assert scaled(np.array([1e37], dtype=np.float32), 0.01).tolist() == [FLOAT32_MAX]


def test_float32_division_can_tie_what_was_apart() -> None:
    """Denormals at T = 100 collapse onto few values: the top 2 are then the lowest ids."""
    logits = (np.arange(1, 9) * np.float32(1e-45)).astype(np.float32)
    d = law(logits, temperature=100, top_k=2)
    assert np.flatnonzero(d.kept).tolist() == [0, 1]
    assert np.flatnonzero(law(logits, top_k=2).kept).tolist() == [6, 7]
    last = law(logits, "llama.cpp", temperature=100, top_k=2)
    assert np.flatnonzero(last.kept).tolist() == [6, 7]


def test_open_ties_are_may_keep_only() -> None:
    """Of three tied tokens two are needed: any two are right, none is certain."""
    logits = np.array([1, 3, 1, 1, 0], dtype=np.float32)
    d = law(logits, "llama.cpp", top_k=3)
    assert d.must_keep.tolist() == [False, True, False, False, False]
    assert d.may_keep.tolist() == [True, True, True, True, False]
    assert d.n_kept_range == (3, 3)
    assert d.kept.tolist() == [True, True, True, False, False]


def test_open_ties_that_are_all_needed_are_certain() -> None:
    """A whole group is no choice."""
    logits = np.array([1, 3, 1, 1, 0], dtype=np.float32)
    d = law(logits, "llama.cpp", top_k=4)
    assert d.must_keep.tolist() == d.may_keep.tolist() == [True, True, True, True, False]


def test_min_p_last_sees_what_top_p_left() -> None:
    """P6: min_p = .5 first leaves .4 .22, of which the first holds .645, enough for p = .63.

    top_p = .63 first leaves .4 .22 .14, and min_p then .4 .22.
    """
    assert law(P6, top_p=0.63, min_p=0.5).kept.sum() == 1
    assert law(P6, "huggingface", top_p=0.63, min_p=0.5).kept.sum() == 2


def test_weights_without_error_are_the_law_itself() -> None:
    """The box is a point where nothing is uncertain."""
    d = law(P8, temperature=0.7, top_k=5, top_p=0.9)
    assert d.lower == pytest.approx(d.probs)
    assert d.upper == pytest.approx(d.probs)


def test_min_p_error_makes_a_token_on_the_threshold_borderline() -> None:
    """The second token has half of the first one's probability: min_p = .5 is its own edge."""
    logits, params = row(0.5, 0.25, 0.125, 0.125), SamplingParams(min_p=0.5)
    d = reference_distribution(logits, params, OURS, min_p_error=1e-6)
    assert (int(d.must_keep.sum()), int(d.may_keep.sum())) == (1, 2)
    sure = reference_distribution(logits, SamplingParams(min_p=0.49), OURS, min_p_error=1e-6)
    assert (int(sure.must_keep.sum()), int(sure.may_keep.sum())) == (2, 2)


logit = st.floats(-12, 12, width=32)
arrays = st.lists(logit, min_size=1, max_size=24).map(lambda v: np.array(v, dtype=np.float32))
all_params = st.builds(
    SamplingParams,
    temperature=st.sampled_from([0, 0.5, 1, 2]),
    top_k=st.integers(-1, 26),
    top_p=st.floats(0.01, 1),
    min_p=st.sampled_from([0, 0.01, 0.1, 0.5, 1]),
)
all_conventions = st.sampled_from(
    [*CONVENTIONS.values(), replace(OURS, name="drops-crossing", crossing_kept=False)]
)


@settings(derandomize=True)
@given(logits=arrays, params=all_params, conventions=all_conventions, eps=st.sampled_from([0, 0.1]))
def test_classes_and_weights_are_consistent(
    logits: NDArray[np.float32], params: SamplingParams, conventions: Conventions, eps: float
) -> None:
    """Mass 1 on the kept set, must within may, weights positive exactly where they may be."""
    d = reference_distribution(logits, params, conventions, eps)
    assert d.probs.sum() == pytest.approx(1, abs=1e-12)
    assert np.array_equal(d.probs > 0, d.kept)
    assert (d.must_keep | d.kept <= d.may_keep).all()
    assert np.array_equal(d.lower > 0, d.must_keep)
    assert np.array_equal(d.upper > 0, d.may_keep)
    assert (d.lower <= d.upper).all()
    assert d.n_kept_range[0] <= d.kept.sum() <= d.n_kept_range[1]


@settings(derandomize=True)
@given(
    logits=st.lists(logit, min_size=1, max_size=24, unique=True),
    params=all_params,
    conventions=all_conventions,
    data=st.data(),
)
def test_permuting_tokens_permutes_the_law(
    logits: list[float], params: SamplingParams, conventions: Conventions, data: st.DataObject
) -> None:
    """Without ties an id means nothing."""
    x = np.array(logits, dtype=np.float32)
    order = np.array(data.draw(st.permutations(range(x.size))))
    # Division by the temperature can tie what was apart.
    assume(np.unique(scaled(x, params.temperature)).size == x.size)
    straight, permuted = (reference_distribution(z, params, conventions) for z in (x, x[order]))
    assert np.array_equal(permuted.kept, straight.kept[order])
    assert permuted.probs == pytest.approx(straight.probs[order], abs=1e-12)
