"""Histogram: the draws at a fixed position follow the reference distribution.

Null hypothesis: the draws are independent and follow some distribution inside the box that the
reference states. Pearson's chi-square and G are shown; the e-value gates.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sampler_audit.results import Histogram, LadderStep
from sampler_audit.statistics.bins import bin_tokens, binned
from sampler_audit.statistics.box import Box, nearest_law
from sampler_audit.statistics.chi_square import ChiSquareResult, chi_square
from sampler_audit.statistics.e_values import cell_log_e
from sampler_audit.statistics.effect import clopper_pearson, total_variation
from sampler_reference.distribution import Distribution

DESCRIPTION = "the draws follow the reference distribution"

_SHOWN = 10
_LADDER_CONFIDENCE = 0.9999


@dataclass(frozen=True, eq=False)
class Evidence:
    """A cell's draws, binned: what the verdict of the run pools over cells.

    Attributes:
        labels: ``[vocab_size]`` the bin of each token.
        counts: ``[n_bins]`` draws in each bin.
        probs: ``[n_bins]`` the reference's probability of each bin.
        box: What the null hypothesis allows.
        result: The chi-square of this cell.
    """

    labels: NDArray[np.int64]
    counts: NDArray[np.float64]
    probs: NDArray[np.float64]
    box: Box
    result: ChiSquareResult


def gather(tokens: NDArray[np.int64], distribution: Distribution) -> Evidence:
    """Bin the draws, all of which are tokens of the vocabulary."""
    labels = bin_tokens(distribution.probs, distribution.must_keep, distribution.may_keep)
    per_token = np.bincount(tokens, minlength=labels.size).astype(np.float64)
    counts, probs = binned(labels, per_token), binned(labels, distribution.probs)
    box = Box(binned(labels, distribution.lower), binned(labels, distribution.upper))
    # Where ties or the band leave a token open, the nearest admissible law is what is expected.
    expected = nearest_law(counts, box)
    return Evidence(labels, counts, probs, box, chi_square(counts, expected))


def summarize(evidence: Evidence) -> Histogram:
    """The figures of one cell, before adjustment over the run."""
    result, n_draws = evidence.result, int(evidence.counts.sum())
    return Histogram(
        n_draws=n_draws,
        statistic=result.statistic,
        dof=result.dof,
        pvalue=result.pvalue,
        g_statistic=result.g_statistic,
        g_pvalue=result.g_pvalue,
        log_e=float(cell_log_e(evidence.counts, evidence.box)),
        total_variation=total_variation(evidence.counts / max(n_draws, 1), evidence.probs),
    )


def ladder(
    tokens: NDArray[np.int64], distribution: Distribution, logits: NDArray[np.float32]
) -> tuple[LadderStep, ...]:
    """Expected against observed shares of the likeliest tokens, with exact 99.99 % intervals.

    The interval is of the observed share; the two disagree where ``expected`` lies outside it.
    """
    counts = np.bincount(tokens, minlength=logits.size)
    n_draws = max(int(tokens.size), 1)
    order = np.argsort(-np.maximum(distribution.probs, counts / n_draws), kind="stable")
    steps = []
    for token in order[:_SHOWN].tolist():
        if distribution.probs[token] == 0 and counts[token] == 0:
            continue
        low, high = clopper_pearson(int(counts[token]), n_draws, _LADDER_CONFIDENCE)
        steps.append(
            LadderStep(
                token=token,
                logit=float(logits[token]),
                expected=float(distribution.probs[token]),
                observed=float(counts[token] / n_draws),
                low=float(low),
                high=float(high),
                note="" if distribution.may_keep[token] else "should never appear",
            )
        )
    return tuple(steps)
