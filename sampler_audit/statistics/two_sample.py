"""Two samples and no law: are both drawn from one, and is a share as large as it must be?

E-values by universal inference, as in e_values.py: a fixed mixture of alternatives over the largest
likelihood that the null allows, so one may look after every draw.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sampler_audit.statistics.box import Box, max_log_likelihood
from sampler_audit.statistics.e_values import dirichlet_log_likelihood

Counts = NDArray[np.float64]


def two_sample_log_e(x: Counts, y: Counts) -> float:
    """Evidence that counts ``x [k]`` and ``y [k]`` are of two laws and not of one.

    Alternative: two laws, each Dirichlet 1/2. The bins must not be chosen by looking at the draws
    of one sample alone.
    """
    both = x + y
    any_law = Box(np.zeros(both.size), np.ones(both.size))
    null = max_log_likelihood(both, any_law)
    return float(dirichlet_log_likelihood(x) + dirichlet_log_likelihood(y) - null)


def smaller_share_log_e(x: int, n: int, y: int, m: int) -> float:
    """Evidence that a share is smaller in the first sample, ``x`` of ``n``, than in ``y`` of ``m``.

    Null: it is at least as large there. Alternative: two shares, each beta 1/2, 1/2.
    """
    larger = x * m >= y * n
    shares = (x / n, y / m) if larger else ((x + y) / (n + m),) * 2
    null = sum(
        special.xlogy(hits, share) + special.xlog1py(size - hits, -share)
        for hits, size, share in ((x, n, shares[0]), (y, m, shares[1]))
    )
    mixture = dirichlet_log_likelihood([[x, n - x], [y, m - y]])
    return float(mixture.sum() - null)
