"""Distribution: what a right sampler draws from, and how sure that is. Knows no engine's code.

The whole rule: divide by the temperature as the kernels do (float32), widen, sort, let the
filters of the conventions keep a prefix one after the other, and renormalise what is left.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sampler_reference import filters, intervals
from sampler_reference.conventions import Conventions, effective_temperature
from sampler_reference.filters import Row, Slack
from sampler_scenarios.params import SamplingParams

Mask = NDArray[np.bool_]
Filter = Callable[[Row, int, SamplingParams, Conventions, Slack], int]

MASS_BAND = 2.0**-21
"""Bound on the error of a cumulative probability in the fixed-point kernels, vocabularies up to
2^17: two weights of relative error 2e-8 and V * 2^-39 of truncation are 2.8e-7 together."""

FILTERS: dict[str, Filter] = {
    "top_k": filters.top_k,
    "top_p": filters.top_p,
    "min_p": filters.min_p,
}


@dataclass(frozen=True, eq=False)
class Distribution:
    """The law of one row, float64 and bool arrays ``[V]`` indexed by token id.

    Attributes:
        probs: Probabilities, which sum to 1; all zero where every token is masked.
        must_keep: Tokens that every right kernel keeps.
        may_keep: Tokens that some right kernel keeps; contains ``must_keep``. The others must
            never be drawn. Ties that the conventions leave open are may-keep only.
        lower: Smallest unnormalised weight a right kernel may give.
        upper: Largest one. Right laws are w / sum(w) with lower <= w <= upper; where a token is
            may-keep only, lower is 0.
        kept: The kept set without any error, ties to the lowest ids; the support of ``probs``
            up to underflow.
        n_kept_range: A right kernel keeps no fewer tokens than the first and no more than the
            second.
    """

    probs: NDArray[np.float64]
    must_keep: Mask
    may_keep: Mask
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    kept: Mask
    n_kept_range: tuple[int, int]


@dataclass(frozen=True, eq=False)
class SortedRow:
    """A row as the stages see it, ``[V]``, in the total order of its first filter.

    Attributes:
        ids: Token at each position.
        values: float64, what the row is sorted by: ties are ties of these.
        undivided: float64, what a filter before temperature judges.
        divided: float64, what a filter after it judges, and what is drawn from.
        temperature: After the engine's clamps; 0 is greedy.
    """

    ids: NDArray[np.int64]
    values: Row
    undivided: Row
    divided: Row
    temperature: float

    @property
    def n_finite(self) -> int:
        """How many tokens are not masked."""
        return int(np.count_nonzero(self.divided > -np.inf))


def scaled(logits: NDArray[np.float32], temperature: float) -> NDArray[np.float32]:
    """The row a kernel works on: ``float32(logit / temperature)``, ``[V]``.

    NaN becomes -inf (masked), +inf the largest float32, -0.0 becomes 0.0. Temperature 0 (greedy)
    divides nothing.
    """
    divisor = np.float32(temperature if temperature else 1)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        z = logits.astype(np.float32) / divisor + np.float32(0)
    z[np.isnan(z)] = -np.inf
    z[np.isposinf(z)] = np.finfo(np.float32).max
    return z


def sort_row(
    logits: NDArray[np.float32], params: SamplingParams, conventions: Conventions
) -> SortedRow:
    """The row as the stages will see it."""
    temperature = effective_temperature(params.temperature, conventions)
    divided = scaled(logits, temperature).astype(np.float64)
    undivided = scaled(logits, 1).astype(np.float64)
    values = divided if conventions.order[0] == "temperature" else undivided
    ids = filters.total_order(values)
    return SortedRow(ids, values[ids], undivided[ids], divided[ids], temperature)


@dataclass(frozen=True, eq=False)
class Judged:
    """What one filter did: of the first ``given`` tokens of the row ``x`` it keeps ``left``."""

    name: str
    x: Row
    given: int
    left: int


def judge_stages(
    row: SortedRow, params: SamplingParams, conventions: Conventions, slack: Slack
) -> list[Judged]:
    """What every filter does, in order; those that judge together are given the same tokens."""
    x, n = row.undivided, row.n_finite
    trail: list[Judged] = []
    for stage in conventions.stages:
        if stage == ("temperature",):
            x = row.divided
            continue
        here = [
            Judged(name, x, n, FILTERS[name](x, n, params, conventions, slack)) for name in stage
        ]
        n = min(judged.left for judged in here)
        trail += here
    return trail


def n_kept(row: SortedRow, params: SamplingParams, conventions: Conventions, slack: Slack) -> int:
    """How many tokens of the sorted row stay; 0 only where every token is masked."""
    if row.temperature == 0:
        return min(1, row.n_finite)
    return min(judged.left for judged in judge_stages(row, params, conventions, slack))


def kept_ids(
    logits: NDArray[np.float32], params: SamplingParams, conventions: Conventions
) -> NDArray[np.int64]:
    """The tokens that stay, best first, ties to the lowest ids."""
    row = sort_row(logits, params, conventions)
    return row.ids[: n_kept(row, params, conventions, Slack())]


def probs_of(
    logits: NDArray[np.float32], ids: NDArray[np.int64], temperature: float
) -> NDArray[np.float64]:
    """Softmax of the divided logits over the tokens ``ids``; the others are 0.  ``[V]``."""
    probs = np.zeros(logits.size)
    if ids.size:
        z = scaled(logits, temperature)[ids].astype(np.float64)
        weights = np.exp(z - z.max())
        probs[ids] = weights / weights.sum()
    return probs


def reference_distribution(
    logits: NDArray[np.float32],
    params: SamplingParams,
    conventions: Conventions,
    eps: float = 0.0,
    mass_error: float = MASS_BAND,
    min_p_error: float = 0.0,
) -> Distribution:
    """The right law of one row, ``logits`` float32 ``[V]``.

    Every logit (or log-prob) may be off by ``eps`` nats, independently; temperature divides that
    error. ``mass_error`` is the error of the cumulative probability that is compared with top_p,
    ``min_p_error`` that of min_p's threshold, in nats. Both blur an edge but no weight.
    """
    row = sort_row(logits, params, conventions)
    n = n_kept(row, params, conventions, Slack())
    if eps > 0:
        blur = intervals.Blur(eps, mass_error, min_p_error)
        if row.temperature == 0:
            n_must, n_may = intervals.greedy(row.undivided, row.n_finite, blur)
        else:
            n_must, n_may = _survivors(row, params, conventions, blur)
        n_range = (max(n_must, min(1, n)), n_may)
    else:
        n_must, n_may, n_range = _band(row, params, conventions, Slack(mass_error, min_p_error))
    lower, upper = _box(row, n, n_must, n_may, eps)
    return Distribution(
        probs=probs_of(logits, row.ids[:n], row.temperature),
        must_keep=_mask(row, n_must),
        may_keep=_mask(row, n_may),
        lower=_by_id(row, lower),
        upper=_by_id(row, upper),
        kept=_mask(row, n),
        n_kept_range=n_range,
    )


def _band(
    row: SortedRow, params: SamplingParams, conventions: Conventions, slack: Slack
) -> tuple[int, int, tuple[int, int]]:
    """Must-keep and may-keep prefixes and the range of counts, where logits are exact."""
    inwards = Slack(-slack.mass, -slack.min_p)
    fewest = n_kept(row, params, conventions, inwards)
    most = n_kept(row, params, conventions, slack)
    if fewest == 0 or not open_ties(conventions):
        return fewest, most, (fewest, most)
    first, last = filters.tied_with(row.values, fewest)
    n_may = filters.tied_with(row.values, most)[1]
    return (fewest if fewest == last else first), n_may, (fewest, most)


def open_ties(conventions: Conventions) -> bool:
    """Whether some cut may fall on any ids of a tied group."""
    return "any" in (conventions.ties_at_k, conventions.ties_at_p)


def _survivors(
    row: SortedRow, params: SamplingParams, conventions: Conventions, blur: intervals.Blur
) -> intervals.Survivors:
    """Must-keep and may-keep prefixes where every logit may be off by ``blur.eps``."""
    x, left, here = row.undivided, (row.n_finite, row.n_finite), blur
    for stage in conventions.stages:
        if stage == ("temperature",):
            x, here = row.divided, replace(blur, eps=blur.eps / row.temperature)
            continue
        kept = [intervals.FILTERS[name](x, left, params, conventions, here) for name in stage]
        left = min(certain for certain, _ in kept), min(possible for _, possible in kept)
    return left


def _box(row: SortedRow, n: int, n_must: int, n_may: int, eps: float) -> tuple[Row, Row]:
    """Bounds on the weights in sorted order; without error both are ``probs``, on n tokens."""
    lower, upper = np.zeros(row.ids.size), np.zeros(row.ids.size)
    if n_may == 0:
        return lower, upper
    if row.temperature == 0:
        lower[:n_must], upper[:n_may] = 1.0, 1.0
        return lower, upper
    log_weight = row.divided[:n_may] - row.divided[:n_may].max()
    total = np.exp(log_weight[:n]).sum()
    e = eps / row.temperature
    upper[:n_may] = np.exp(np.minimum(log_weight + e, intervals.WIDEST)) / total
    if e <= intervals.WIDEST:
        lower[:n_must] = np.exp(log_weight[:n_must] - e) / total
    return lower, upper


def _mask(row: SortedRow, n: int) -> Mask:
    mask = np.zeros(row.ids.size, dtype=np.bool_)
    mask[row.ids[:n]] = True
    return mask


def _by_id(row: SortedRow, values: Row) -> Row:
    by_id = np.empty_like(values)
    by_id[row.ids] = values
    return by_id
