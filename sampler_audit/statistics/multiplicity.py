"""Corrections for many tests at once."""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def holm(pvalues: ArrayLike) -> NDArray[np.float64]:
    """P-values adjusted for their number, ``[m] -> [m]``.

    Rejecting where the result is at most alpha wrongly rejects any true null with probability
    at most alpha, whatever the dependence between the tests (S. Holm, A simple sequentially
    rejective multiple test procedure, Scandinavian Journal of Statistics 6, 1979). For naming
    what failed; whether a run failed is the e-values' business.

    Raises:
        ValueError: a p-value outside [0, 1].
    """
    pvalues = np.asarray(pvalues, dtype=np.float64)
    if not ((pvalues >= 0) & (pvalues <= 1)).all():
        raise ValueError("pvalues must lie in [0, 1]")
    order = np.argsort(pvalues, kind="stable")
    factors = np.arange(pvalues.size, 0, -1)
    adjusted = np.empty_like(pvalues)
    adjusted[order] = np.minimum(np.maximum.accumulate(factors * pvalues[order]), 1)
    return adjusted
