import numpy as np
import pytest

from sampler_audit.checks import histogram, no_effect
from sampler_reference.conventions import CONVENTIONS
from sampler_reference.distribution import reference_distribution
from sampler_scenarios.params import SamplingParams

OURS = CONVENTIONS["sampler-audit"]
PROBS = np.array([0.5, 0.25, 0.125, 0.125])
LOGITS = np.log(PROBS).astype(np.float32)
UNFILTERED = reference_distribution(LOGITS, SamplingParams(), OURS)
TOP_TWO = reference_distribution(LOGITS, SamplingParams(top_k=2), OURS)
# 800 draws in the exact proportions of the law.
TOKENS = np.repeat(np.arange(4), [400, 200, 100, 100])


def test_proportional_draws_have_chi_square_zero() -> None:
    """Three degrees of freedom, p = 1, nothing observed away from expected."""
    found = histogram.summarize(histogram.gather(TOKENS, UNFILTERED))
    # The logits are rounded to fp32, so the law is off by about 1e-8.
    assert found.statistic == pytest.approx(0, abs=1e-9)
    assert (found.dof, found.pvalue) == (3, 1.0)
    assert found.total_variation == pytest.approx(0, abs=1e-7)
    assert found.log_e < 0


def test_a_missing_token_has_a_large_e_value() -> None:
    """Power twin. Closed form of a dropped eighth: 0.875^-200 = e^26.7, less the weights."""
    found = histogram.summarize(histogram.gather(TOKENS[:700].repeat(2)[::7], UNFILTERED))
    assert found.n_draws == 200
    assert 20 < found.log_e < 26.7


def test_ladder_marks_what_should_never_appear() -> None:
    """Expected, observed, and the exact interval of the observed share."""
    steps = {s.token: s for s in histogram.ladder(TOKENS, TOP_TWO, LOGITS)}
    assert steps[3].note == "should never appear"
    assert steps[0].note == ""
    assert steps[0].low < steps[0].observed == 0.5 < steps[0].high
    assert not steps[0].low <= steps[0].expected <= steps[0].high


def test_an_ignored_filter_gains_evidence_and_an_applied_one_loses_it() -> None:
    """Draws of the unfiltered law against top_k = 2, and draws of the filtered law."""
    ignored = no_effect.check(histogram.gather(TOKENS, TOP_TWO), UNFILTERED.probs, "top_k")
    applied = no_effect.check(histogram.gather(TOKENS[:600], TOP_TWO), UNFILTERED.probs, "top_k")
    assert ignored is not None
    assert ignored.log_e == np.inf
    assert applied is not None
    assert applied.log_e is not None
    assert applied.log_e < -100


def test_a_top_p_of_95_percent_is_asked() -> None:
    """It cuts a twentieth, of which 200 draws of the cut law see nothing: odds of 0.95^200."""
    logits = np.log(np.array([0.5, 0.3, 0.15, 0.05])).astype(np.float32)
    # The mass before the last token is .95 less 1e-8, so .949 is clear of it.
    cut = reference_distribution(logits, SamplingParams(top_p=0.949), OURS)
    uncut = reference_distribution(logits, SamplingParams(), OURS).probs
    applied = no_effect.check(histogram.gather(TOKENS[500:700], cut), uncut, "top_p")
    assert applied is not None
    assert applied.log_e == pytest.approx(200 * np.log(0.95), abs=1e-4)


def test_laws_that_are_close_are_not_asked() -> None:
    """A filter that changes less than the stated distance cannot be seen to have no effect."""
    assert no_effect.check(histogram.gather(TOKENS, UNFILTERED), PROBS, "top_p") is None
