"""Holm's adjustment."""

import numpy as np
import pytest

from sampler_audit.statistics.multiplicity import holm


def test_holm_by_hand() -> None:
    """Smallest times 4, next times 3, never decreasing, never above 1."""
    # sorted .01 .02 .03 .5 -> .04 .06 .06 .5
    np.testing.assert_allclose(holm([0.03, 0.5, 0.01, 0.02]), [0.06, 0.5, 0.04, 0.06])
    np.testing.assert_allclose(holm([0.4, 0.9]), [0.8, 0.9])
    np.testing.assert_allclose(holm([0.6, 0.9]), [1, 1])
    assert holm([]).shape == (0,)


@pytest.mark.parametrize("bad", [-0.1, 1.1, np.nan])
def test_holm_refuses_what_is_no_pvalue(bad: float) -> None:
    """A value outside [0, 1] or NaN is an error, not a p-value of 1."""
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        holm([0.5, bad])
