"""The filters, each a count on a row sorted best first; knows no engine and no batch.

A row is sorted by (logit descending, token id ascending). Each filter keeps a prefix of that
order, so a kept set is one number: how many tokens stay. Masked tokens (-inf) are at the end and
never counted.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sampler_reference.conventions import Conventions
from sampler_scenarios.params import SamplingParams

Row = NDArray[np.float64]


@dataclass(frozen=True)
class Slack:
    """How far an edge is moved outwards, so that it keeps more; negative moves it inwards.

    ``mass`` is added to top_p (a probability); ``min_p`` is taken off min_p's threshold (nats).
    """

    mass: float = 0.0
    min_p: float = 0.0


def total_order(x: Row) -> NDArray[np.int64]:
    """Token ids ``[V]``, best first: the larger logit, among equal logits the lower id."""
    return np.argsort(-x, kind="stable")


def tied_with(x: Row, n: int) -> tuple[int, int]:
    """The half-open range of positions whose value equals that of position ``n - 1``."""
    return int(np.searchsorted(-x, -x[n - 1], "left")), int(np.searchsorted(-x, -x[n - 1], "right"))


def top_k(x: Row, n: int, params: SamplingParams, conventions: Conventions, _: Slack) -> int:
    """Of the first n tokens, how many are among the top_k; a top_k <= 0 keeps all."""
    if not 0 < params.top_k < n:
        return n
    return _cut(x, n, params.top_k, keep_all=conventions.ties_at_k == "keep_all")


def top_p(x: Row, n: int, params: SamplingParams, conventions: Conventions, slack: Slack) -> int:
    """Of the first n tokens, how many are in the nucleus, never fewer than one.

    A token is in it while the mass before it is below top_p (Holtzman et al. 2020), or, where the
    crossing token does not belong to it, while the mass up to and with it is at most top_p. Mass
    is relative to the n tokens; top_p is the engine's float32 value, and 1 keeps all.
    """
    p = float(np.float32(params.top_p))
    if p >= 1 or n == 0:
        return n
    cumulative = np.cumsum(np.exp(x[:n] - x[0]))
    with_token = cumulative / cumulative[-1]
    before = np.concatenate(([0.0], with_token[:-1]))
    inside = before < p + slack.mass if conventions.crossing_kept else with_token <= p + slack.mass
    n_inside = max(1, int(np.count_nonzero(inside)))
    return _cut(x, n, n_inside, keep_all=conventions.ties_at_p == "keep_all")


def min_p(x: Row, n: int, params: SamplingParams, conventions: Conventions, slack: Slack) -> int:
    """Of the first n tokens, how many have a probability of at least min_p times the largest.

    Equality stays (Nguyen et al. 2024), so ties of the maximum always do. Judged on logits:
    x >= max + ln(min_p), with the engine's float32 value of min_p.
    """
    if np.float32(params.min_p) == 0 or n == 0:
        return n
    edge = min_p_edge(float(x[0]), params, conventions)
    n_above = int(np.count_nonzero(x[:n] >= edge - slack.min_p))
    return min(n, max(n_above, tied_with(x, 1)[1]))


def min_p_edge(largest: float, params: SamplingParams, conventions: Conventions) -> float:
    """The smallest logit that min_p keeps, ``largest + ln(min_p)``, rounded as the engine does."""
    below = math.log(float(np.float32(params.min_p)))
    if conventions.min_p_arithmetic == "float32":
        return float(np.float32(largest) + np.float32(below))
    return largest + below


def _cut(x: Row, n: int, n_inside: int, *, keep_all: bool) -> int:
    return min(n, tied_with(x, n_inside)[1]) if keep_all else n_inside
