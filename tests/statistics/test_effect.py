"""Effect sizes and intervals."""

import numpy as np
import pytest
from scipy import stats

from sampler_audit.statistics.box import noise_box
from sampler_audit.statistics.effect import (
    clopper_pearson,
    expected_range,
    total_variation,
    total_variation_lower,
)

LAW = np.array([0.6, 0.3, 0.1])
KEPT = np.ones(3, dtype=np.bool_)


def test_total_variation_by_hand() -> None:
    """Half of .1 + .05 + .05."""
    assert total_variation([0.5, 0.3, 0.2], [0.6, 0.25, 0.15]) == pytest.approx(0.1)


def test_total_variation_lower_by_hand() -> None:
    """Distance less sqrt((k - 1) / n) / 2 and sqrt(log(1 / alpha) / (2 n))."""
    # 1000 draws of the first token: distance .4; slack .02236 + .06786 at alpha 1e-4.
    bound = total_variation_lower([1000, 0, 0], noise_box(LAW, KEPT, KEPT, 0), 1e-4)
    assert bound == pytest.approx(0.4 - 0.02236 - 0.06786, abs=1e-5)
    assert total_variation_lower([0, 0, 0], noise_box(LAW, KEPT, KEPT, 0), 1e-4) == 0


def test_total_variation_lower_is_not_above_the_truth() -> None:
    """Of 2,000 tables at alpha 5 % at most 150 exceed the true distance (chance below 1e-6)."""
    box = noise_box(LAW, KEPT, KEPT, 0.02)
    for truth, distance in ((LAW, 0.0), (np.array([0.9, 0.05, 0.05]), 0.3)):
        tables = np.random.default_rng(71).multinomial(300, truth, size=2000)
        assert sum(total_variation_lower(x, box, 0.05) > distance for x in tables) <= 150


def test_total_variation_lower_proves_large_differences() -> None:
    """A law 30 % away is proved to be over 15 % away by every one of 200 tables of 1,000 draws."""
    box = noise_box(LAW, KEPT, KEPT, 0.02)
    tables = np.random.default_rng(72).multinomial(1000, [0.9, 0.05, 0.05], size=200)
    # Slack .022 + .039 + .010 of the noise leaves .23 in the mean, five standard errors above.
    assert min(total_variation_lower(x, box, 0.05) for x in tables) > 0.15


@pytest.mark.parametrize(("x", "n"), [(0, 10), (3, 10), (10, 10), (1, 5000)])
def test_clopper_pearson_against_scipy(x: int, n: int) -> None:
    """Both ends equal binomtest's exact interval."""
    exact = stats.binomtest(x, n).proportion_ci(0.95)
    assert clopper_pearson(x, n) == pytest.approx((exact.low, exact.high))


def test_clopper_pearson_of_nothing_seen() -> None:
    """0 of 300 at 99.99 %: at most 1 - (0.0001 / 2)^(1/300) = 3.247 %."""
    low, high = clopper_pearson([0, 300], 300, 0.9999)
    assert low == pytest.approx([0, 0.00005 ** (1 / 300)])
    assert high == pytest.approx([0.03247, 1], abs=1e-5)


def test_expected_range_of_each_bin() -> None:
    """A single law has no range; at eps the log-odds move by 2 eps."""
    np.testing.assert_allclose(expected_range(noise_box(LAW, KEPT, KEPT, 0)), [LAW, LAW])
    low, high = expected_range(noise_box(LAW, KEPT, KEPT, 0.1))
    # odds of .1 are 1/9; times e^-.2 and e^.2
    assert low[2] == pytest.approx(1 / (1 + 9 * np.exp(0.2)))
    assert high[2] == pytest.approx(1 / (1 + 9 * np.exp(-0.2)))
