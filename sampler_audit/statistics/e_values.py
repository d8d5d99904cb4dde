"""Evidence that a sampler is wrong, as e-values: of a cell, of a named defect, of a run.

An e-value is a statistic whose mean under the null is at most 1. All of these are likelihood
ratios: a fixed mixture of alternatives over the largest likelihood that the noise box allows
(universal inference: L. Wasserman, A. Ramdas, S. Balakrishnan, PNAS 117, 2020; for multinomials
M. Lindon, A. Malek, NeurIPS 2022). Draw by draw they stay below a non-negative martingale that
starts at 1, so by J. Ville's inequality (1939) the chance under the null that one ever reaches
1 / alpha is at most alpha, however often one looks and whatever the expected counts.

Invalid where draws within a cell are not independent, where a box is too small for the noise,
or where alternatives were chosen after seeing the draws.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from sampler_audit.statistics.bins import binned
from sampler_audit.statistics.box import Box, mass_range, max_log_likelihood

CAP = 3.0
"""The most nats that one cell adds to a pooled defect: no mis-measured cell fails a run alone."""

RHOS = (0.1, 0.5, 0.95)
"""The shares of cells in which a pooled defect may act."""

SET_WEIGHT = 0.8
"""Weight of the sets of a cell; the multinomial as a whole has the rest."""

RUN_WEIGHTS = (0.4, 0.3, 0.2, 0.1)
"""Weights of pooled defects, single cells, independence and duplicates in the run's evidence."""


def cell_log_e(counts: ArrayLike, box: Box) -> NDArray[np.float64]:
    """Evidence against the law of one cell, ``counts [..., k] -> [...]``.

    Null: independent draws from one law of ``box [k]``. Alternatives: each bin alone, and each
    tail of bins in the order given (descending probability makes tails what filters cut), is
    either never drawn or has any other share (beta 1/2, 1/2); or the whole law is another
    (Dirichlet 1/2). A set is compared with the rest as one, so that it does not suffer from
    noise within either. A bin of mass m that is never drawn gains ``-n * log(1 - m)`` nats, less
    the logarithm of the number of sets: the exact p-value's reciprocal.

    +inf where a token was drawn that the box calls impossible; 0 without draws, and where only
    one bin is possible.
    """
    counts = np.asarray(counts, dtype=np.float64)
    possible = box.upper > 0
    impossible = counts[..., ~possible].sum(axis=-1) > 0
    x = counts[..., possible]
    log_e = np.zeros(x.shape[:-1])
    if possible.sum() > 1:
        allowed = Box(box.lower[possible], box.upper[possible])
        log_e = np.logaddexp(
            np.log(SET_WEIGHT) + log_mean_exp(_set_log_es(x, allowed)),
            np.log(1 - SET_WEIGHT) + _dirichlet_log_e(x, allowed),
        )
    return np.asarray(np.where(impossible, np.inf, log_e))


def log_mean_exp(log_es: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log of the mean e-value over the last axis, ``[..., m] -> [...]``; inf and -inf may occur."""
    return np.asarray(np.logaddexp.reduce(log_es, axis=-1) - np.log(log_es.shape[-1]))


def _set_log_es(x: NDArray[np.float64], box: Box) -> NDArray[np.float64]:
    """Log e-value of every set against its rest, ``[..., k] -> [..., n_sets]``."""
    k = x.shape[-1]
    # Each bin alone, and each tail of 2 to k - 1 bins.
    tails = np.arange(k) >= np.arange(1, k - 1)[:, None]
    sets = np.concatenate([np.eye(k, dtype=np.bool_), tails])
    inside, n = x @ sets.T.astype(np.float64), x.sum(axis=-1, keepdims=True)
    share = np.clip(inside / np.maximum(n, 1), *mass_range(box, sets))
    null = special.xlogy(inside, share) + special.xlog1py(n - inside, -share)
    never = np.where(inside == 0, 0.0, -np.inf)
    other = special.betaln(inside + 0.5, n - inside + 0.5) - special.betaln(0.5, 0.5)
    return np.asarray(np.logaddexp(never, other) + np.log(0.5) - null)


def _dirichlet_log_e(x: NDArray[np.float64], box: Box) -> NDArray[np.float64]:
    """Log e-value of the multinomial as a whole, Dirichlet(1/2) over the null, ``[...]``."""
    return np.asarray(dirichlet_log_likelihood(x) - max_log_likelihood(x, box))


def dirichlet_log_likelihood(counts: ArrayLike) -> NDArray[np.float64]:
    """Log-likelihood of sequences with ``counts [..., k]`` under a mixture of laws, ``[...]``.

    The mixture is Dirichlet(1/2); of two bins, beta(1/2, 1/2).
    """
    x = np.asarray(counts, dtype=np.float64)
    k, n = x.shape[-1], x.sum(axis=-1)
    mixture = special.gammaln(x + 0.5).sum(axis=-1) - k * special.gammaln(0.5)
    return np.asarray(mixture + special.gammaln(k / 2) - special.gammaln(k / 2 + n))


@dataclass(frozen=True, eq=False)
class Contrast:
    """A defect's law against a box, on the few groups of tokens in which they differ most.

    Attributes:
        labels: ``[k]``, the group of each bin: 0 killed by the defect, 1 pushed down, 2 not
            pushed down, 3 impossible under the null. Groups may be empty.
        probs: ``[4]``, the defect's law by group.
        box: ``[4]``, the null by group.
        acts: Whether the defect's law is outside the box; otherwise no draws can show it.
    """

    labels: NDArray[np.int64]
    probs: NDArray[np.float64]
    box: Box
    acts: bool


def contrast(q_defect: NDArray[np.float64], box: Box) -> Contrast:
    """How the law ``q_defect [k]`` differs from the middle of ``box [k]``."""
    center = box.center
    labels = np.select([box.upper == 0, q_defect == 0, q_defect < center], [3, 0, 1], 2)
    one_each = np.concatenate([labels, np.arange(4)])
    nothing = np.zeros(4)
    probs, lower, upper = (
        binned(one_each, np.concatenate([values, nothing]))
        for values in (q_defect, box.lower, box.upper)
    )
    coarse = Box(lower, upper)
    return Contrast(labels, probs, coarse, acts=not coarse.contains(probs))


def contrast_log_e(
    group_counts: ArrayLike, probs: NDArray[np.float64], box: Box
) -> NDArray[np.float64]:
    """Evidence for defects by group, ``group_counts [..., 4] -> [...]``, as ``defect_log_e``.

    ``probs`` and the bounds of ``box`` are those of contrasts, ``[..., 4]``.
    """
    counts = np.asarray(group_counts, dtype=np.float64)
    alternative = special.xlogy(counts, probs).sum(axis=-1)
    null = max_log_likelihood(counts, box)
    refuted = np.isneginf(null)
    return np.asarray(np.where(refuted, np.inf, alternative - np.where(refuted, 0.0, null)))


def defect_log_e(counts: ArrayLike, q_defect: NDArray[np.float64], box: Box) -> NDArray[np.float64]:
    """Evidence for the law ``q_defect [k]`` against ``box [k]``, ``counts [..., k] -> [...]``.

    The law must follow from the null's law and the defect alone, not from the draws. It is
    compared on four groups of tokens only: killed, pushed down, the rest, impossible under the
    null. 0 where the law is inside the box by group, -inf where a killed token was drawn, +inf
    where an impossible one was.
    """
    counts = np.asarray(counts, dtype=np.float64)
    groups = contrast(q_defect, box)
    if not groups.acts:
        return np.zeros(counts.shape[:-1])
    return contrast_log_e(counts @ np.eye(4)[groups.labels], groups.probs, groups.box)


def pooled_log_e(
    log_es: NDArray[np.float64],
    members: NDArray[np.bool_] | None = None,
    *,
    cap: float = CAP,
    rhos: tuple[float, ...] = RHOS,
) -> NDArray[np.float64]:
    """Evidence that one defect acts in many cells, ``[..., n_cells] -> [...]``.

    The product over independent cells of ``1 - rho + rho * min(e, exp(cap))``, averaged over
    ``rhos``. With ``members [n_sets, n_cells]`` one value for each set of cells, ``[..., n_sets]``:
    a fault that needs three filters together drowns where it is pooled over all cells. 0 where
    there are no cells.
    """
    capped = np.minimum(log_es, cap)
    rho = np.array(rhos)[:, None]
    factors = np.log1p(rho * np.expm1(capped)[..., None, :])
    inside = np.ones((1, capped.shape[-1])) if members is None else members.astype(np.float64)
    pooled = log_mean_exp(np.moveaxis(factors @ inside.T, -2, -1))
    return pooled[..., 0] if members is None else pooled


def run_log_e(
    pooled: NDArray[np.float64] | None,
    cells: NDArray[np.float64] | None,
    independence: ArrayLike | None = None,
    duplicates: ArrayLike | None = None,
) -> NDArray[np.float64]:
    """Evidence that something is wrong anywhere in the run, a weighted mean of e-values.

    ``pooled [..., n_alternatives]`` and ``cells [..., n_cells]`` enter by their means,
    ``independence [...]`` and ``duplicates [...]`` as they are; all are logs, of any dependence.
    A piece that was not measured (None, or no entries) counts as an e-value of 1. The run fails
    where the result reaches ``log(1 / alpha)``.
    """
    means = [
        np.zeros(()) if p is None or p.shape[-1] == 0 else log_mean_exp(p) for p in (pooled, cells)
    ]
    singles = [np.zeros(()) if p is None else np.asarray(p) for p in (independence, duplicates)]
    total = np.asarray(-np.inf)
    for weight, piece in zip(RUN_WEIGHTS, means + singles, strict=True):
        total = np.logaddexp(total, np.log(weight) + piece)
    return np.asarray(total)


def pooled_threshold(alpha: float, n_alternatives: int) -> float:
    """The log e-value at which one pooled alternative fails a run of level ``alpha`` alone."""
    return float(np.log(n_alternatives / (alpha * RUN_WEIGHTS[0])))


def e_bonferroni_threshold(alpha: float, m: int) -> float:
    """The log e-value at which one of at most ``m`` cells alone fails a run of level ``alpha``.

    Such a cell lifts the mean of the cells, and with it the run, to ``1 / alpha``: to name it adds
    nothing to the false-alarm rate of the run. At ``m / alpha`` it would, to as much as twice.
    """
    return float(np.log(m / (alpha * RUN_WEIGHTS[1])))
