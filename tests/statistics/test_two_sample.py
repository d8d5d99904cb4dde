"""Two samples: e-values whose mean is at most 1 where the null holds, by enumeration, and power."""

import itertools
import math

import numpy as np
import pytest

from sampler_audit.statistics.two_sample import smaller_share_log_e, two_sample_log_e


def binomial(x: int, n: int, p: float) -> float:
    """Probability of ``x`` of ``n``."""
    return math.comb(n, x) * p**x * (1 - p) ** (n - x)


@pytest.mark.parametrize("p", [0.05, 0.3, 0.5])
def test_equal_laws_have_mean_at_most_one(p: float) -> None:
    """Over all outcomes of 8 and 5 draws of a coin."""
    mean = sum(
        binomial(x, 8, p)
        * binomial(y, 5, p)
        * math.exp(two_sample_log_e(np.array([x, 8.0 - x]), np.array([y, 5.0 - y])))
        for x, y in itertools.product(range(9), range(6))
    )
    assert mean <= 1


@pytest.mark.parametrize(("p", "q"), [(0.4, 0.4), (0.6, 0.2), (0.3, 0.05)])
def test_a_share_that_is_no_smaller_has_mean_at_most_one(p: float, q: float) -> None:
    """The null is one-sided: any p >= q."""
    mean = sum(
        binomial(x, 8, p) * binomial(y, 5, q) * math.exp(smaller_share_log_e(x, 8, y, 5))
        for x, y in itertools.product(range(9), range(6))
    )
    assert mean <= 1


def test_different_laws_are_told_apart() -> None:
    """All of 60 draws one token, against half of 60: odds beyond 10^4."""
    log_e = two_sample_log_e(np.array([60.0, 0, 0]), np.array([30.0, 20, 10]))
    assert log_e > math.log(1e4)


def test_a_lost_token_is_told() -> None:
    """None of 48 draws, where 24 draws under one filter alone gave ten."""
    assert smaller_share_log_e(0, 48, 10, 24) > math.log(1e3)
    assert smaller_share_log_e(24, 48, 10, 24) < 0
