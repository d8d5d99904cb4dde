import numpy as np
import pytest

from sampler_audit.checks import logits

INF = np.float32(np.inf)
ROW = np.array([2.0, -1.0, -INF, 0.25], np.float32)


def test_the_same_row_passes() -> None:
    """Signed zeros are equal, and what neither keeps is not compared."""
    assert logits.check(ROW, ROW, error=0.0).outcome == "pass"
    zeros = np.array([0.0, -INF], np.float32), np.array([-0.0, -INF], np.float32)
    assert logits.check(*zeros, error=0.0).outcome == "pass"


def test_one_bit_is_a_fault_where_the_bound_is_zero() -> None:
    """And names the token and both values."""
    found = ROW.copy()
    found[3] = np.nextafter(ROW[3], INF)
    result = logits.check(found, ROW, error=0.0)
    assert result.outcome == "fail"
    assert "1 of 3 kept tokens" in result.reason
    assert "token 3" in result.reason


@pytest.mark.parametrize(("error", "outcome"), [(1.01e-3, "pass"), (0.99e-3, "fail")])
def test_the_bound_is_relative_above_one_and_absolute_below(error: float, outcome: str) -> None:
    """2.002 for 2 is off by 1e-3 relative; 0.251 for 0.25 by 1e-3 absolute."""
    for at, value in ((0, 2.002), (3, 0.251)):
        found = ROW.copy()
        found[at] = value
        assert logits.check(found, ROW, error=error).outcome == outcome


def test_infinity_counts_as_the_largest_float() -> None:
    """The reference makes one of the other before it sorts."""
    found, expected = np.array([INF], np.float32), np.array([np.finfo(np.float32).max])
    assert logits.check(found, expected.astype(np.float32), error=0.0).outcome == "pass"
