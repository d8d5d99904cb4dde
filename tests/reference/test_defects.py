"""Planted defects: each changes a stated law, and nothing where it cannot act."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from sampler_reference.conventions import CONVENTIONS
from sampler_reference.defect_laws import right_law
from sampler_reference.defects import DEFECT_LIST_VERSION, DEFECTS, POOLED
from sampler_scenarios.params import SamplingParams

OURS = CONVENTIONS["sampler-audit"]
P6 = np.log(np.array([0.40, 0.22, 0.14, 0.09, 0.08, 0.07])).astype(np.float32)
TIED = np.array([1, 0, 0, 0], dtype=np.float32)
WITH_LAW = [name for name, defect in DEFECTS.items() if defect.law]


def law(name: str, params: SamplingParams, logits: NDArray[np.float32] = P6) -> NDArray[np.float64]:
    """The defect's law under this project's conventions."""
    yields = DEFECTS[name].law
    assert yields is not None
    return yields(logits, params, OURS)


def test_the_pooled_list_is_version_one() -> None:
    """Whoever changes the list raises the version: e-values of runs average over exactly it."""
    assert DEFECT_LIST_VERSION == 1
    assert POOLED == (
        "weakest-dropped",
        "runner-up-dropped",
        "tail-half-dropped",
        "top-k-minus-one",
        "top-k-plus-one",
        "crossing-token-dropped",
        "order-swapped",
        "joint-for-sequential",
        "temperature-twice",
        "temperature-ignored",
        "temperature-last",
        "min-p-absolute",
        "min-p-last",
    )
    assert all(DEFECTS[name].law for name in POOLED)


def test_every_defect_says_what_it_is() -> None:
    """At least fifteen, each with a summary and a source, named as it is looked up."""
    assert len(DEFECTS) >= 15
    assert all(d.name == name and d.summary and d.source for name, d in DEFECTS.items())
    sampler_only = {d.stage for d in DEFECTS.values() if d.law is None and d.process is None}
    assert sampler_only == {"batch", "seeds", "noise", "state", "speculative", "log_probs"}


# Each expected law is the probabilities of P6, or of TIED, renormalised over the ids named.
@pytest.mark.parametrize(
    ("name", "params", "ids"),
    [
        ("weakest-dropped", SamplingParams(top_k=4), [0, 1, 2]),
        ("runner-up-dropped", SamplingParams(top_k=4), [0, 2, 3]),
        ("tail-half-dropped", SamplingParams(top_k=5), [0, 1, 2]),
        ("top-k-minus-one", SamplingParams(top_k=4), [0, 1, 2]),
        ("top-k-plus-one", SamplingParams(top_k=4), [0, 1, 2, 3, 4]),
        ("top-k-ignored", SamplingParams(top_k=4), [0, 1, 2, 3, 4, 5]),
        ("crossing-token-dropped", SamplingParams(top_p=0.7), [0, 1]),
        # Right: the two that hold .7 of the best three; top_p first, or jointly, keeps three.
        ("order-swapped", SamplingParams(top_k=3, top_p=0.7), [0, 1, 2]),
        ("joint-for-sequential", SamplingParams(top_k=3, top_p=0.7), [0, 1, 2]),
        ("temperature-ignored", SamplingParams(temperature=0.5, top_k=2), [0, 1]),
        # Probabilities of at least .1, where .1 of the maximum keeps all six.
        ("min-p-absolute", SamplingParams(min_p=0.1), [0, 1, 2]),
        # Right: min_p leaves .4 .22, and .7 of that takes both; last, top_p keeps .4 .22 .14 first.
        ("min-p-last", SamplingParams(top_p=0.61, min_p=0.5), [0, 1]),
    ],
)
def test_the_law_of_a_defect(name: str, params: SamplingParams, ids: list[int]) -> None:
    """By hand, and different from the right law."""
    expected = np.zeros(6)
    expected[ids] = np.exp(P6[ids]) / np.exp(P6[ids]).sum()
    assert law(name, params) == pytest.approx(expected, abs=1e-7)
    assert np.abs(law(name, params) - right_law(P6, params, OURS)).sum() > 0.01


def test_temperature_twice_is_its_square() -> None:
    """T = .7 acts as .49."""
    twice = law("temperature-twice", SamplingParams(temperature=0.7))
    assert twice == pytest.approx(right_law(P6, SamplingParams(temperature=0.49), OURS), rel=1e-6)
    assert np.abs(twice - right_law(P6, SamplingParams(temperature=0.7), OURS)).sum() > 0.1


def test_temperature_last_filters_the_undivided_row() -> None:
    """P6 at T = 2, p = .7: three tokens hold .76 at T = 1; at T = 2 four are needed."""
    params = SamplingParams(temperature=2, top_p=0.7)
    assert np.count_nonzero(law("temperature-last", params)) == 3
    assert np.count_nonzero(right_law(P6, params, OURS)) == 4


def test_min_p_before_temperature() -> None:
    """.5 of the maximum keeps .40 .22 at T = 1; at T = 2 the ratio of .14 rises to .59 as well."""
    params = SamplingParams(temperature=2, min_p=0.5)
    assert np.count_nonzero(law("min-p-before-temperature", params)) == 2
    assert np.count_nonzero(right_law(P6, params, OURS)) == 3


def test_ties_by_chance_share_the_mass_of_the_needed_ones() -> None:
    """Of three tied tokens one is needed: each gets a third of its mass, 1 / (1 + e) / 3."""
    third = 1 / (1 + np.e) / 3
    assert law("ties-by-chance", SamplingParams(top_k=2), TIED) == pytest.approx(
        [1 - 3 * third, third, third, third]
    )


def test_ties_kept_are_all_of_them() -> None:
    """top_k = 2 keeps all four."""
    all_four = right_law(TIED, SamplingParams(), OURS)
    assert law("ties-kept", SamplingParams(top_k=2), TIED) == pytest.approx(all_four)


@pytest.mark.parametrize("name", [n for n in WITH_LAW if DEFECTS[n].needs])
def test_without_a_filter_that_it_needs_a_defect_changes_nothing(name: str) -> None:
    """Each needed filter is switched off in turn, the others left on."""
    neutral = SamplingParams()
    on = SamplingParams(temperature=0.7, top_k=4, top_p=0.7, min_p=0.3)
    for needed in DEFECTS[name].needs:
        params = replace(on, **{needed: getattr(neutral, needed)})
        assert np.array_equal(law(name, params), right_law(P6, params, OURS))


@pytest.mark.parametrize("name", WITH_LAW)
@pytest.mark.parametrize("conventions", CONVENTIONS)
def test_laws_are_laws_under_every_convention(name: str, conventions: str) -> None:
    """Mass 1; a row of one token and a masked row are left alone."""
    yields = DEFECTS[name].law
    assert yields is not None
    params = SamplingParams(temperature=0.7, top_k=4, top_p=0.8, min_p=0.1)
    assert yields(P6, params, CONVENTIONS[conventions]).sum() == pytest.approx(1)
    one = np.array([-np.inf, 2, -np.inf], dtype=np.float32)
    assert yields(one, params, CONVENTIONS[conventions]).tolist() == [0, 1, 0]
    masked = np.full(3, -np.inf, dtype=np.float32)
    assert not yields(masked, params, CONVENTIONS[conventions]).any()


def test_top_k_ignored_example_of_a_public_report() -> None:
    """FlashML-org/FreeToken#345: a head of 73.3 %, k = 50; 26.6 % of draws fall outside."""
    logits = np.concatenate(([12], 2 - 4 * np.arange(1, 32768) / 32768)).astype(np.float32)
    params = SamplingParams(top_k=50)
    outside = right_law(logits, params, OURS) == 0
    # The head holds .733 of the row, its 49 companions the rest up to .734.
    assert law("top-k-ignored", params, logits)[outside].sum() == pytest.approx(0.266, abs=5e-4)
