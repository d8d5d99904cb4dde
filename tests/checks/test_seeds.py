from dataclasses import replace

import numpy as np
import pytest

from sampler_audit.checks.seeds import SeededDraws, check_equal, check_independent

RNG = np.random.default_rng(20261130)
TOKENS = RNG.integers(0, 4, 24)
FAIR = SeededDraws(
    alone=TOKENS,
    one_by_one=TOKENS,
    in_batch=TOKENS,
    other_row=TOKENS,
    permuted=TOKENS,
    by_kernel=TOKENS,
    by_seed=RNG.integers(0, 4, 128),
    by_position=RNG.integers(0, 4, 128),
)


def test_equal_tokens_everywhere_pass() -> None:
    """The surroundings change nothing."""
    assert check_equal(FAIR).outcome == "pass"


@pytest.mark.parametrize("where", ["one_by_one", "in_batch", "other_row", "permuted", "by_kernel"])
def test_one_changed_token_fails(where: str) -> None:
    """In each of the five surroundings."""
    changed = TOKENS.copy()
    changed[5] += 1
    result = check_equal(replace(FAIR, **{where: changed}))
    assert result.outcome == "fail"
    assert "1 of 24" in result.reason


def test_independent_draws_give_no_evidence() -> None:
    """An e-value over 20 has chance below 5 % under the null; this seed gives less than 1."""
    log_e = check_independent(FAIR).log_e
    assert log_e is not None
    assert log_e < 0


def test_paired_seeds_give_evidence() -> None:
    """Power twin: every seed repeats its neighbour's token, and the e-value is over 10^4."""
    log_e = check_independent(replace(FAIR, by_seed=np.repeat(FAIR.by_seed[:64], 2))).log_e
    assert log_e is not None
    assert log_e > np.log(1e4)


@pytest.mark.parametrize("which", ["by_seed", "by_position"])
def test_a_constant_order_fails_where_the_other_is_not(which: str) -> None:
    """Position ignored, or seed ignored: exchangeability alone cannot see it."""
    result = check_independent(replace(FAIR, **{which: np.zeros(128, dtype=np.int64)}))
    assert result.outcome == "fail"


def test_a_greedy_row_is_constant_both_ways() -> None:
    """And is no fault."""
    same = np.zeros(128, dtype=np.int64)
    assert check_independent(replace(FAIR, by_seed=same, by_position=same)).outcome == "pass"
