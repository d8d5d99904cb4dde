import numpy as np
import pytest

from sampler_audit.checks.support import check, outside
from sampler_reference.conventions import CONVENTIONS
from sampler_reference.distribution import reference_distribution
from sampler_scenarios.params import SamplingParams

# Probabilities .5 .25 .125 .125: top_k = 2 leaves ids 0 and 1.
LOGITS = np.log(np.array([0.5, 0.25, 0.125, 0.125])).astype(np.float32)
LAW = reference_distribution(LOGITS, SamplingParams(top_k=2), CONVENTIONS["sampler-audit"])
NOTHING = reference_distribution(
    np.full(4, -np.inf, dtype=np.float32), SamplingParams(), CONVENTIONS["sampler-audit"]
)


def test_draws_inside_pass() -> None:
    """Without a look at the fresh sample."""
    assert check(np.array([0, 1, 1, 0]), np.array([], dtype=np.int64), LAW).outcome == "pass"


def test_a_draw_outside_fails_once_confirmed() -> None:
    """Two samples hold a token that must be dropped."""
    assert check(np.array([0, 2]), np.array([3, 0]), LAW).outcome == "fail"


def test_a_draw_outside_that_never_comes_back_is_inconclusive() -> None:
    """It is said, and neither passes nor fails."""
    assert check(np.array([0, 2]), np.array([1, 0]), LAW).outcome == "inconclusive"


@pytest.mark.parametrize("token", [-1, 4, 2**62])
def test_ids_outside_the_vocabulary_are_outside(token: int) -> None:
    """An invalid id is never right where something may be kept."""
    assert outside(np.array([token]), LAW).tolist() == [token]


def test_minus_one_is_right_where_everything_is_masked() -> None:
    """And any real token is wrong there."""
    assert outside(np.array([-1, 0]), NOTHING).tolist() == [0]
