"""The filters once more, by interval arithmetic: every logit may be off. Knows no engine.

Of a row sorted best first, each function is given the number of tokens that survive for certain
and the number that possibly do, and returns both for its own filter. The formulas depend on a
token through its value alone, so both sets are prefixes. They bound every way to break ties.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sampler_reference import filters
from sampler_reference.conventions import Conventions
from sampler_reference.filters import Row
from sampler_scenarios.params import SamplingParams

Survivors = tuple[int, int]

WIDEST = 300.0
"""Nats of error from which a weight says nothing: exp() of twice as much would overflow."""


@dataclass(frozen=True)
class Blur:
    """Errors: ``eps`` nats of each value, ``mass`` at top_p's edge, ``min_p`` nats at min_p's."""

    eps: float
    mass: float
    min_p: float


def top_k(
    x: Row, survivors: Survivors, params: SamplingParams, _: Conventions, blur: Blur
) -> Survivors:
    """Certain where at most k tokens can be at or above it, possible where fewer than k must be."""
    certain, possible = survivors
    k = params.top_k
    if not 0 < k < possible:
        return survivors
    surely_in = int(np.count_nonzero(x[:certain] > x[k] + 2 * blur.eps))
    if certain < k:
        return surely_in, possible
    return surely_in, int(np.count_nonzero(x[:possible] >= x[k - 1] - 2 * blur.eps))


def min_p(
    x: Row, survivors: Survivors, params: SamplingParams, conventions: Conventions, blur: Blur
) -> Survivors:
    """Certain where the threshold cannot rise above it, possible where it can fall to it."""
    certain, possible = survivors
    r = float(np.float32(params.min_p))
    if r == 0 or possible == 0:
        return survivors
    edge = filters.min_p_edge(float(x[0]), params, conventions)
    reach = 2 * blur.eps + blur.min_p
    n_certain = int(np.count_nonzero(x[:certain] >= edge + reach))
    # The largest token is measured against the second: it cannot lift its own threshold.
    second = x[1] if possible > 1 else -np.inf
    if x[0] - 2 * blur.eps >= second + math.log(r):
        n_certain = max(n_certain, int(np.count_nonzero(x[:certain] == x[0])))
    return n_certain, int(np.count_nonzero(x[:possible] >= edge - reach))


def top_p(
    x: Row, survivors: Survivors, params: SamplingParams, conventions: Conventions, blur: Blur
) -> Survivors:
    """Certain where the largest mass before it stays below top_p, possible where the smallest is.

    The largest counts before a token all that may rank above it, raised by e^eps, against the
    certain rest, lowered; the smallest only what must rank above it.
    """
    certain, possible = survivors
    p = float(np.float32(params.top_p))
    if p >= 1 or possible == 0:
        return survivors
    v = x[:possible]
    weights = np.exp(v - v[0])
    mass = np.concatenate(([0.0], np.cumsum(weights)))
    n_maybe_above = np.searchsorted(-v, -(v - 2 * blur.eps), "right")
    n_surely_above = np.minimum(np.searchsorted(-v, -(v + 2 * blur.eps), "left"), certain)
    maybe_above = mass[n_maybe_above] - weights
    certain_below = mass[certain] - mass[np.minimum(n_maybe_above, certain)]
    surely_above = mass[n_surely_above]
    possible_below = mass[possible] - surely_above - weights
    own = np.zeros_like(weights) if conventions.crossing_kept else weights
    largest = _share(maybe_above + own, certain_below + weights - own, blur.eps)
    smallest = _share(surely_above + own, possible_below + weights - own, -blur.eps)
    if conventions.crossing_kept:
        in_for_sure, maybe_in = largest < p - blur.mass, smallest < p + blur.mass
    else:
        in_for_sure = (largest <= p - blur.mass) | (maybe_above <= 0)
        maybe_in = (smallest <= p + blur.mass) | (n_surely_above == 0)
    if blur.eps > WIDEST:
        in_for_sure = n_maybe_above == 1
    return int(np.count_nonzero(in_for_sure[:certain])), int(np.count_nonzero(maybe_in))


def greedy(x: Row, n_finite: int, blur: Blur) -> Survivors:
    """The largest token: certain where no other can reach it, possible where it may be it."""
    if n_finite == 0:
        return 0, 0
    n_possible = int(np.count_nonzero(x[:n_finite] >= x[0] - 2 * blur.eps))
    return int(n_possible == 1), n_possible


def _share(above: Row, below: Row, eps: float) -> Row:
    """``above`` over everything, where ``above`` is raised by e^eps and ``below`` lowered by it."""
    ratio = np.divide(below, above, out=np.full_like(above, np.inf), where=above > 0)
    return 1 / (1 + ratio * math.exp(-2 * max(-WIDEST, min(eps, WIDEST))))


FILTERS: dict[str, Callable[[Row, Survivors, SamplingParams, Conventions, Blur], Survivors]] = {
    "top_k": top_k,
    "top_p": top_p,
    "min_p": min_p,
}
