"""The faults that were seen with vLLM 0.32.0 on rows of a real model, with their numbers.

The masks are built here from the description of what its Triton kernel kept at temperature 1.
"""

import numpy as np
import pytest

from sampler_reference.conventions import CONVENTIONS, Conventions
from sampler_reference.distribution import kept_ids, reference_distribution
from sampler_reference.kept_sets import Judgement, judge_kept
from sampler_scenarios.params import SamplingParams
from sampler_scenarios.real_rows import REAL_ROWS
from sampler_scenarios.rows import load_row

TRITON = CONVENTIONS["vllm-triton"]


def judge_best(
    n: int, row: str, params: SamplingParams, conventions: Conventions = TRITON
) -> Judgement:
    """The judgement on a kernel that kept the n best tokens of a whole real row."""
    logits = load_row(f"{row}@49152").logits
    mask = np.zeros(logits.size, dtype=np.bool_)
    mask[kept_ids(logits, SamplingParams(top_k=n), TRITON)] = True
    return judge_kept(mask, logits, params, conventions)


def test_a_tie_group_at_the_bottom_is_lost() -> None:
    """top_k = 20 and min_p = .05: 5 of 20 tokens and 6.6 % of the mass are gone."""
    found = judge_best(15, "real-you-should-never", SamplingParams(top_k=20, min_p=0.05))
    assert found.verdict == "FAIL"
    assert (found.n_expected, found.lost.size) == (20, 5)
    assert found.lost_mass == pytest.approx(0.066, abs=5e-4)
    assert "kept 0 of 6 tied tokens at the top_k edge; 5 are needed" in found.rule


def test_the_fourth_of_four_survivors_is_lost() -> None:
    """All three filters on: the weakest survivor, 5.4 %, is needed for top_p = .95."""
    params = SamplingParams(top_k=20, top_p=0.95, min_p=0.05)
    found = judge_best(3, "real-she-opened-the-door-and-saw", params)
    assert (found.n_expected, found.lost.size) == (4, 1)
    assert found.lost_mass == pytest.approx(0.054, abs=5e-4)
    assert found.rule == "dropped 1 token that is needed for top_p=0.95: the kept mass is 0.946199"


def test_part_of_a_tie_group_fits_no_convention() -> None:
    """top_p = .95 alone: 18 of 38 tied tokens, where 4 suffice and 38 would be all."""
    params = SamplingParams(top_p=0.95)
    row, n_above = "real-roses-are-red-violets-are", 617
    assert judge_best(n_above + 18, row, params).rule == (
        "kept 18 of 38 tied tokens at the top_p edge; 4 are needed and 38 would be all"
    )
    for conventions in CONVENTIONS.values():
        assert judge_best(n_above + 18, row, params, conventions).verdict == "FAIL"


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_real_rows_have_no_edge_within_rounding(temperature: float) -> None:
    """At the report's settings the classes leave nothing open on any of the thirty rows."""
    params = SamplingParams(temperature=temperature, top_k=20, top_p=0.95, min_p=0.05)
    for row in REAL_ROWS:
        d = reference_distribution(load_row(f"{row}@4096").logits, params, TRITON)
        assert np.array_equal(d.must_keep, d.may_keep), row
        assert d.probs.sum() == pytest.approx(1)
