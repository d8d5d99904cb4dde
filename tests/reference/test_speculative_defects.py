"""Wrong verifications against reported figures, hand-computed laws and simulation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from sampler_reference import speculative as sd
from sampler_reference import speculative_defects as wrong

Float = NDArray[np.float64]

P, Q = np.array([0.2, 0.45, 0.35]), np.array([0.7, 0.28, 0.02])
"""Target and draft of the report behind vllm-project/vllm#54282."""


def first_token(p: Float, q: Float, verify: sd.Verify) -> Float:
    """The law of the first token emitted after one draft."""
    drawn = sd.propose(lambda _: q, 1)
    law = sd.emitted_law(sd.rows_of(lambda _: p), drawn, lambda _: q, verify)
    return sd.next_token_laws(law, p.size)[()]


def test_reported_law_of_shared_noise() -> None:
    """.200 .392 .409 by a simulation of 4 million draws, whose standard error is .00025."""
    law = first_token(P, Q, wrong.WRONG_LAWS["draft-shares-noise"])
    assert law == pytest.approx([0.200, 0.392, 0.409], abs=0.001)


def test_reported_law_of_acceptance_by_the_best_token() -> None:
    """1bit-MONSTER/1bit-MONSTER#637: target .5 .3 .2, draft .1 .1 .8 give .447 .233 .320.

    By hand: accepted are .1, .1 * .6, .8 * .4; the other .52 is shared as 2 : 1 by ids 0 and 1.
    """
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.1, 0.8])
    law = first_token(p, q, wrong.WRONG_LAWS["acceptance-by-best-token"])
    assert law == pytest.approx([0.1 + 0.52 * 2 / 3, 0.06 + 0.52 / 3, 0.32])


def test_wrong_residuals_by_hand() -> None:
    """Half of the drafts .2 .28 .02 are accepted; the other half is p, or .17 and .83."""
    from_target = first_token(P, Q, wrong.WRONG_LAWS["residual-from-target"])
    assert from_target == pytest.approx([0.2 + 0.1, 0.28 + 0.225, 0.02 + 0.175])
    unnormalised = first_token(P, Q, wrong.WRONG_LAWS["residual-not-renormalised"])
    assert unnormalised == pytest.approx([0.2, 0.28 + 0.085, 0.02 + 0.415])


@pytest.mark.parametrize("verify", [sd.standard_law, sd.block_law])
def test_control_one_hot_drafts_are_no_fault(verify: sd.Verify) -> None:
    """vllm-project/vllm#40149, filed as one: any drafts, taken as certain, leave the law alone."""
    certain: dict[sd.Prefix, float] = {(0,): 1.0}
    for drafts in (certain, sd.propose(lambda _: Q, 1)):
        law = sd.emitted_law(sd.rows_of(lambda _: P), drafts, None, verify)
        assert sd.next_token_laws(law, 3)[()] == pytest.approx(P, abs=1e-15)


def test_shared_noise_is_no_fault_where_one_token_is_left() -> None:
    """Only id 2 has target > draft: whatever the noise, it is the residual."""
    p, q = np.array([0.2, 0.2, 0.6]), np.array([0.5, 0.3, 0.2])
    assert first_token(p, q, wrong.WRONG_LAWS["draft-shares-noise"]) == pytest.approx(p)


def simulate_shared_noise(p: Float, q: Float, n: int, rng: np.random.Generator) -> Float:
    """Counts of the first token when one noise vector draws the draft and its replacement."""
    e = rng.exponential(size=(n, p.size))
    with np.errstate(divide="ignore"):
        drafts, redrawn = (e / q).argmin(axis=1), (e / np.maximum(p - q, 0)).argmin(axis=1)
    accepted = rng.random(n) * q[drafts] < p[drafts]
    return np.bincount(np.where(accepted, drafts, redrawn), minlength=p.size).astype(np.float64)


def test_shared_noise_law_is_that_of_a_simulation() -> None:
    """Pearson chi-square of 200,000 steps, false-alarm rate 1e-6, six tokens, some without q."""
    p = np.array([0.05, 0.25, 0.2, 0.1, 0.3, 0.1])
    q = np.array([0.4, 0.05, 0.3, 0.0, 0.05, 0.2])
    n = 200_000
    counts = simulate_shared_noise(p, q, n, np.random.default_rng(20260916))
    law = first_token(p, q, wrong.WRONG_LAWS["draft-shares-noise"])
    assert stats.chisquare(counts, n * law).pvalue > 1e-6
    assert stats.chisquare(counts, n * p).pvalue < 1e-6


rows = st.lists(st.integers(0, 9), min_size=4, max_size=4).filter(any)


@settings(derandomize=True)
@given(a=rows, b=rows)
def test_what_shared_noise_redraws_is_a_law(a: list[int], b: list[int]) -> None:
    """The integrals over all tokens make 1 for every draft that can be rejected."""
    p, q = np.array(a) / sum(a), np.array(b) / sum(b)
    for draft in np.flatnonzero(q > p):
        law = wrong.redraw_with_noise_of_draft(p, q, int(draft))
        assert law.sum() == pytest.approx(1, abs=1e-12)
        assert np.array_equal(law > 0, p > q)


def deviating_depths(rows_of_defect: sd.Rows, target: sd.Conditional, n_drafts: int) -> set[int]:
    """After how many tokens of the step a law is not the target's."""
    q = np.array([0.3, 0.3, 0.4])
    drawn = sd.propose(lambda _: q, n_drafts)
    law = sd.emitted_law(rows_of_defect, drawn, lambda _: q, sd.standard_law)
    laws = sd.next_token_laws(law, 3).items()
    return {len(prefix) for prefix, row in laws if np.abs(row - target(prefix)).max() > 1e-9}


def test_rows_without_the_filter_are_wrong_where_they_stand() -> None:
    """Two drafts: the bonus token is the third, after 2 tokens of the step."""
    filtered, plain = (lambda _: np.array([0.6, 0.4, 0])), (lambda _: np.array([0.5, 0.3, 0.2]))
    bonus = wrong.WRONG_ROWS["bonus-unfiltered"](filtered, plain)
    assert deviating_depths(bonus, filtered, n_drafts=2) == {2}
    drafts = wrong.WRONG_ROWS["filter-skipped-at-drafts"](filtered, plain)
    assert deviating_depths(drafts, filtered, n_drafts=2) == {0, 1}
    assert deviating_depths(sd.rows_of(filtered), filtered, n_drafts=2) == set()
