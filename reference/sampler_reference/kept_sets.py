"""Whether a mask is the kept set that conventions declare, and if not, which rule it breaks.

Knows masks and rows, not who made them.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sampler_reference import filters
from sampler_reference.conventions import Conventions
from sampler_reference.distribution import (
    MASS_BAND,
    Judged,
    Mask,
    SortedRow,
    judge_stages,
    n_kept,
    open_ties,
    probs_of,
    sort_row,
)
from sampler_reference.filters import Slack
from sampler_scenarios.params import SamplingParams


@dataclass(frozen=True, eq=False)
class Judgement:
    """What is to be said about one mask ``[V]``.

    Attributes:
        verdict: EXACT: the declared set, up to ties that the conventions leave open. BAND: another
            prefix of the total order whose edge lies within the stated rounding of the declared
            one. FAIL: anything else.
        rule: In words, what was broken or, for BAND, what was rounded; empty for EXACT.
        expected: The declared set ``[V]``; ties that are left open go to the mask's own choice.
        lost: Token ids that should have been kept, likeliest first.
        gained: Token ids that should not have been, likeliest first.
        lost_mass: Probability of the lost tokens in the right law.
        gained_mass: Share of the weight of all kept tokens that the gained ones take.
        n_expected: Size of the declared set.
    """

    verdict: Literal["EXACT", "BAND", "FAIL"]
    rule: str
    expected: Mask
    lost: NDArray[np.int64]
    gained: NDArray[np.int64]
    lost_mass: float
    gained_mass: float
    n_expected: int


def judge_kept(
    mask: Mask,
    logits: NDArray[np.float32],
    params: SamplingParams,
    conventions: Conventions,
    mass_error: float = MASS_BAND,
    min_p_error: float = 0.0,
) -> Judgement:
    """Judge the kept tokens ``mask`` [V] of the row ``logits`` [V] before temperature.

    ``mass_error`` bounds the error of the kernel's cumulative probabilities (of the survivors that
    reach top_p), ``min_p_error`` that of its min_p threshold in nats; both only widen the band.
    """
    row = sort_row(logits, params, conventions)
    if open_ties(conventions):
        row = _prefer(mask, row)
    slack = Slack(mass_error, min_p_error)
    verdict, rule = _verdict(mask[row.ids], row, params, conventions, slack)
    n = n_kept(row, params, conventions, Slack())
    expected = np.zeros_like(mask)
    expected[row.ids[:n]] = True
    lost = row.ids[(expected & ~mask)[row.ids]]
    gained = row.ids[(mask & ~expected)[row.ids]]
    right = probs_of(logits, row.ids[:n], row.temperature)
    # A masked logit carries no weight, even where a kernel says that it keeps it.
    finite = row.ids[(mask[row.ids]) & (row.divided > -np.inf)]
    drawn = probs_of(logits, finite, row.temperature)
    lost_mass, gained_mass = float(right[lost].sum()), float(drawn[gained].sum())
    return Judgement(verdict, rule, expected, lost, gained, lost_mass, gained_mass, n)


def _prefer(mask: Mask, row: SortedRow) -> SortedRow:
    """The same order, but among equal values the kept tokens first."""
    order = np.lexsort((~mask[row.ids], -row.values))
    return replace(
        row, ids=row.ids[order], undivided=row.undivided[order], divided=row.divided[order]
    )


def _verdict(
    kept: Mask, row: SortedRow, params: SamplingParams, conventions: Conventions, slack: Slack
) -> tuple[Literal["EXACT", "BAND", "FAIL"], str]:
    """``kept`` is the mask in sorted order; a good one is True up to some position."""
    if hole := _hole(kept, row):
        return "FAIL", hole
    m = int(np.count_nonzero(kept))
    n = n_kept(row, params, conventions, Slack())
    if m == n:
        return "EXACT", ""
    fewest = n_kept(row, params, conventions, Slack(-slack.mass, -slack.min_p))
    most = n_kept(row, params, conventions, slack)
    if fewest <= m <= most and _whole_ties(m, row, conventions):
        return "BAND", f"kept {m} where float64 keeps {n}: the edge is within rounding"
    return "FAIL", _count_rule(m, n, row, params, conventions)


def _whole_ties(m: int, row: SortedRow, conventions: Conventions) -> bool:
    """Whether the m best tokens end with a whole tied group, where top_p may not split one."""
    return conventions.ties_at_p != "keep_all" or m == filters.tied_with(row.values, m)[1]


def _hole(kept: Mask, row: SortedRow) -> str:
    """Why the kept tokens are not the best ones, whatever the filters are; empty if they are."""
    m = int(np.count_nonzero(kept))
    if n_masked := int(np.count_nonzero(kept[row.n_finite :])):
        return f"kept {_tokens(n_masked)} whose logit is -inf"
    if kept[:m].all():
        return ""
    worst, best = int(np.flatnonzero(kept)[-1]), int(np.argmin(kept))
    low, high = row.values[worst], row.values[best]
    pair = f"token {row.ids[worst]} is kept and token {row.ids[best]} is not"
    if low < high:
        return f"a kept logit is below a masked one: {pair} ({low:.6g} < {high:.6g})"
    return f"tied tokens must be kept from the lowest id up: {pair}"


def _count_rule(
    m: int, n: int, row: SortedRow, params: SamplingParams, conventions: Conventions
) -> str:
    """What is wrong with keeping the best m tokens where the best n belong."""
    if m == 0:
        return f"kept nothing, where {_tokens(n)} should stay"
    if row.temperature == 0:
        return f"kept {m} tokens at temperature={params.temperature:g}; greedy keeps 1"
    trail = judge_stages(row, params, conventions, Slack())
    cutting = [judged for judged in trail if judged.left == n < judged.given]
    if cutting and (tie := _tie_rule(m, n, row, cutting[-1].name)):
        return tie
    return _too_few(m, n, params, trail, cutting) if m < n else _too_many(m, params, trail)


def _tie_rule(m: int, n: int, row: SortedRow, stage: str) -> str:
    """The wrong number of a tied group at the edge; empty where the edge has no tie."""
    first, last = filters.tied_with(row.values, n)
    if last - first == 1 or not first <= m <= last:
        return ""
    size, needed = last - first, n - first
    would = f"{needed} are needed and {size} would be all" if needed < size else "all belong in"
    return f"kept {m - first} of {size} tied tokens at the {stage} edge; {would}"


def _too_few(
    m: int, n: int, params: SamplingParams, trail: list[Judged], cutting: list[Judged]
) -> str:
    dropped = f"dropped {_tokens(n - m)}"
    nucleus = next(judged for judged in trail if judged.name == "top_p")
    mass = _mass(nucleus, m)
    if mass < np.float32(params.top_p) < 1:
        need = "is needed" if n - m == 1 else "are needed"
        return f"{dropped} that {need} for top_p={params.top_p:g}: the kept mass is {mass:.6g}"
    if not cutting:
        return f"{dropped} that no filter removes: {m} of {n} are kept"
    return f"{dropped} that {_setting(cutting[-1].name, params)} keeps: {m} of {n} are kept"


def _too_many(m: int, params: SamplingParams, trail: list[Judged]) -> str:
    judged = next(judged for judged in trail if judged.left < m)
    extra = f"kept {_tokens(m - judged.left)} too many: "
    if judged.name == "top_k":
        return f"{extra}ranked below the best {judged.left}, {_setting('top_k', params)}"
    if judged.name == "min_p":
        return f"{extra}less likely than {params.min_p:g} of the maximum (min_p)"
    above = _mass(judged, m - 1)
    return f"{extra}the mass above the last is {above:.6g}, {_setting('top_p', params)}"


def _mass(judged: Judged, m: int) -> float:
    """Mass of the best m tokens among those that the filter was given."""
    x = judged.x[: judged.given]
    return float(np.exp(x[:m] - x[0]).sum() / np.exp(x - x[0]).sum())


def _setting(name: str, params: SamplingParams) -> str:
    return f"{name}={getattr(params, name):g}"


def _tokens(n: int) -> str:
    return "1 token" if n == 1 else f"{n} tokens"
