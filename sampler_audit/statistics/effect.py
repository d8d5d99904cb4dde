"""How large a difference is: distances, bounds and ranges for people to read."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from sampler_audit.statistics.box import Box, mass_range, nearest_law


def total_variation(p: ArrayLike, q: ArrayLike) -> float:
    """Half the sum of ``|p - q|`` over ``[k]``, in [0, 1]: the share of draws that moved."""
    return float(np.abs(np.asarray(p, dtype=np.float64) - np.asarray(q)).sum() / 2)


def total_variation_lower(f_obs: ArrayLike, box: Box, alpha: float) -> float:
    """A lower bound on the distance of the sampler's law from every law of the box.

    Wrong with probability at most ``alpha``, for independent draws with counts ``f_obs [k]``
    and any number of them. The observed distance exceeds the true one by at most
    ``sqrt((k - 1) / n) / 2`` in the mean (Jensen, Cauchy-Schwarz) and by
    ``sqrt(log(1 / alpha) / (2 * n))`` more with probability at most ``alpha`` (C. McDiarmid, On
    the method of bounded differences, 1989: one draw moves it by at most 1 / n). 0 where this
    proves nothing.
    """
    counts = np.asarray(f_obs, dtype=np.float64)
    n = counts.sum()
    if n == 0:
        return 0.0
    distance = total_variation(counts / n, nearest_law(counts, box))
    slack = np.sqrt((counts.size - 1) / n) / 2 + np.sqrt(np.log(1 / alpha) / (2 * n))
    return float(max(distance - slack, 0.0))


def clopper_pearson(
    x: ArrayLike, n: ArrayLike, confidence: float = 0.95
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Exact interval of a binomial share, lower and upper, for ``x [...]`` of ``n [...]``.

    Each side misses with probability at most ``(1 - confidence) / 2`` (C. J. Clopper and E. S.
    Pearson, Biometrika 26, 1934).
    """
    x, n = np.broadcast_arrays(np.asarray(x, dtype=np.float64), np.asarray(n, dtype=np.float64))
    tail = (1 - confidence) / 2
    # The inverse of the incomplete beta function wants positive parameters; the ends are known.
    lower = np.where(x > 0, special.betaincinv(np.maximum(x, 1), n - x + 1, tail), 0.0)
    upper = np.where(x < n, special.betaincinv(x + 1, np.maximum(n - x, 1), 1 - tail), 1.0)
    return lower, upper


def expected_range(box: Box) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Smallest and largest share of each bin that the box ``[k]`` allows, ``[k]`` twice."""
    return mass_range(box, np.eye(box.lower.size, dtype=np.bool_))
