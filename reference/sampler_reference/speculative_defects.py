"""What wrong verifications emit: rules and rows to put in the place of the right ones.

A rule goes into ``standard_law``, rows into ``emitted_law``; nothing of either is written twice.
"""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from sampler_reference.speculative import (
    STANDARD,
    Conditional,
    Prefix,
    Rows,
    Rule,
    residual,
    rows_of,
    standard_law,
)

Float = NDArray[np.float64]


def accept_by_best(p: Float, _: Float, draft: int) -> float:
    """The draft's probability over that of the target's best token, where q belongs."""
    return float(p[draft] / p.max())


def redraw_from_target(p: Float, _: Float, __: int) -> Float:
    """The replaced token comes from p, without taking away what the drafts have had of it."""
    return p


def redraw_unnormalised(p: Float, q: Float, _: int) -> Float:
    """A uniform in [0, 1) runs past the end of the cumulative sum of max(p - q, 0): last id."""
    left = np.maximum(p - q, 0)
    left[-1] += 1 - left.sum()
    return left


def redraw_with_noise_of_draft(p: Float, q: Float, draft: int) -> Float:
    """The residual is raced with the exponentials that drew ``draft``, and so knows of them.

    Exact: of exponentials E, ``draft`` is first in E / q and a token y in E / residual with
    probability: integral over v >= q_y / q_draft of dv / D(v)^2, v = E_y / E_draft, where
    D(v) = 1 + v + sum over the others of max(v residual_j / residual_y, q_j / q_draft).
    """
    left = residual(p, q)
    law = np.zeros_like(p)
    for y in np.flatnonzero(left):
        others = np.delete(np.arange(p.size), [int(y), draft])
        slopes, floors = left[others] / left[y], q[others] / q[draft]
        law[y] = _integral(slopes, floors, q[y] / q[draft]) / q[draft]
    return law


def _integral(slopes: Float, floors: Float, start: float) -> float:
    """Integral from ``start`` on of 1 / (1 + v + sum(max(v slopes, floors)))^2.

    Between kinks the sum is a line, and the integral over [a, b] is (b - a) / (D(a) D(b)).
    """
    rising = slopes > 0
    kinks = floors[rising] / slopes[rising]
    v = np.unique([start, *kinks[kinks > start]])
    d = 1 + v + np.maximum(np.outer(v, slopes), floors).sum(axis=1)
    beyond = 1 / (d[-1] * (1 + slopes.sum()))
    return float((np.diff(v) / (d[:-1] * d[1:])).sum() + beyond)


ACCEPT_BY_BEST = Rule(accept=accept_by_best, redraw=STANDARD.redraw)
REDRAW_FROM_TARGET = Rule(accept=STANDARD.accept, redraw=redraw_from_target)
REDRAW_UNNORMALISED = Rule(accept=STANDARD.accept, redraw=redraw_unnormalised)
SHARED_NOISE = Rule(accept=STANDARD.accept, redraw=redraw_with_noise_of_draft)

WRONG_LAWS = {
    "acceptance-by-best-token": partial(standard_law, rule=ACCEPT_BY_BEST),
    "residual-from-target": partial(standard_law, rule=REDRAW_FROM_TARGET),
    "residual-not-renormalised": partial(standard_law, rule=REDRAW_UNNORMALISED),
    "draft-shares-noise": partial(standard_law, rule=SHARED_NOISE),
}
"""``Verify`` of each defect of the rule."""


def rows_with_plain_bonus(target: Conditional, plain: Conditional) -> Rows:
    """The filters skip the bonus row, which follows ``plain``."""

    def rows(drafts: Prefix) -> Float:
        p = rows_of(target)(drafts)
        p[-1] = rows_of(plain)(drafts)[-1]
        return p

    return rows


def rows_with_plain_drafts(target: Conditional, plain: Conditional) -> Rows:
    """The filters reach the bonus row only; the rows of drafts follow ``plain``."""
    return rows_with_plain_bonus(plain, target)


WRONG_ROWS = {
    "bonus-unfiltered": rows_with_plain_bonus,
    "filter-skipped-at-drafts": rows_with_plain_drafts,
}
"""``(target, plain law without the filter) -> Rows`` of each defect of the rows."""
