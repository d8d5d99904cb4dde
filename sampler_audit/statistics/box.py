"""The noise box: every law that is within the error of the log-probs, and what it allows.

The null hypothesis is a set, not a point. Each token's weight lies in an interval, and a law is
a vector of weights divided by its sum.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special


@dataclass(frozen=True, eq=False)
class Box:
    """The laws ``w / w.sum()`` with ``lower <= w <= upper``; a convex set.

    A token that must be kept has a positive lower bound, one that may be kept the lower bound 0,
    one that must be dropped the upper bound 0. Borderline tokens whose fate changes from draw to
    draw are covered too, since a mixture of laws of the box is in the box.

    Attributes:
        lower: ``[..., k]`` float64; leading dimensions hold one box each.
        upper: ``[..., k]`` float64.

    Raises:
        ValueError: bounds that are not finite, negative or reversed, or that allow no token.
    """

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]

    def __post_init__(self) -> None:
        lower, upper = np.asarray(self.lower), np.asarray(self.upper)
        if lower.shape != upper.shape or lower.ndim < 1:
            raise ValueError(f"bounds must have one shape, got {lower.shape} and {upper.shape}")
        if not (np.isfinite(upper).all() and (lower >= 0).all() and (lower <= upper).all()):
            raise ValueError("bounds must be finite with 0 <= lower <= upper")
        if not (upper > 0).any(axis=-1).all():
            raise ValueError("a box must allow at least one token: every upper bound is 0")

    @property
    def center(self) -> NDArray[np.float64]:
        """``[..., k]``, the law at the geometric middle; borderline tokens at their upper bound."""
        weights = np.where(self.lower > 0, np.sqrt(self.lower) * np.sqrt(self.upper), self.upper)
        return np.asarray(weights / weights.sum(axis=-1, keepdims=True))

    def contains(self, probs: NDArray[np.float64], *, rtol: float = 1e-9) -> bool:
        """Whether ``probs [k]`` is a law of this box ``[k]``, up to the relative error ``rtol``."""
        held = probs > 0
        if (self.lower[~held] > 0).any():
            return False
        lowest_scale = (self.lower[held] / probs[held]).max()
        highest_scale = (self.upper[held] / probs[held]).min()
        return bool(lowest_scale <= highest_scale * (1 + rtol) and highest_scale > 0)


def noise_box(
    weights: NDArray[np.float64],
    must_keep: NDArray[np.bool_],
    may_keep: NDArray[np.bool_],
    eps: float,
) -> Box:
    """The box of log-probs that are known to within ``eps`` nats.

    ``weights [k]`` need no normalisation, but must be positive where a token may be kept: the
    softmax before the filters serves, the filtered law does not where it dropped a borderline
    token. ``may_keep [k]`` is read as "may or must". After a temperature T an error of the
    log-probs is ``eps / T``.
    """
    lower = np.where(must_keep, weights * np.exp(-eps), 0.0)
    return Box(lower, np.where(must_keep | may_keep, weights * np.exp(eps), 0.0))


def nearest_law(counts: ArrayLike, box: Box) -> NDArray[np.float64]:
    """The law of the box that fits ``counts [..., k]`` best, ``[..., k]``, by water filling.

    With x the counts and n their sum, the weights are ``clip(x, s * lower, s * upper)`` at the
    scale s where they sum to n. For a fixed sum of weights the log-likelihood is separable and
    concave, and the Karush-Kuhn-Tucker conditions make x / w constant wherever w is not clipped.
    The same law is the nearest one in total variation: there what the bounds cut off above
    equals what they add below. Without counts the answer is some law of the box.
    """
    counts = np.asarray(counts, dtype=np.float64)
    if np.array_equal(box.lower, box.upper):
        return np.broadcast_to(box.center, np.broadcast_shapes(counts.shape, box.lower.shape))
    x = np.where(box.upper > 0, counts, 0.0)
    x = np.where(x.sum(axis=-1, keepdims=True) > 0, x, box.center)
    scale = _scale(x, counts.sum(axis=-1), box)[..., None]
    weights = np.clip(x, scale * box.lower, scale * box.upper)
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def _scale(x: NDArray[np.float64], total: NDArray[np.float64], box: Box) -> NDArray[np.float64]:
    """The root of ``clip(x, s * lower, s * upper).sum() = total``, exact between breakpoints."""
    lower, upper = np.broadcast_to(box.lower, x.shape), np.broadcast_to(box.upper, x.shape)
    total = np.where(total > 0, total, x.sum(axis=-1))
    breaks = np.concatenate([np.zeros((*x.shape[:-1], 1)), _ratio(x, upper), _ratio(x, lower)], -1)
    breaks.sort(axis=-1)

    def at(index: NDArray[np.intp]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        s = np.take_along_axis(breaks, index[..., None], axis=-1)
        return s[..., 0], np.clip(x, s * lower, s * upper).sum(axis=-1)

    n_breaks = breaks.shape[-1]
    left = np.zeros(x.shape[:-1], dtype=np.intp)
    right = np.full(x.shape[:-1], n_breaks)
    for _ in range(n_breaks.bit_length()):
        middle = (left + right) // 2
        below = at(middle)[1] <= total
        left, right = np.where(below, middle, left), np.where(below, right, middle)
    (start, start_sum), (end, end_sum) = at(left), at(np.minimum(right, n_breaks - 1))
    # Beyond the last breakpoint every weight sits at its lower bound.
    last = right == n_breaks
    rise = np.where(last, lower.sum(axis=-1), end_sum - start_sum)
    run = np.where(last, 1.0, end - start)
    return np.asarray(start + _ratio(total - start_sum, rise) * run)


def _ratio(numerator: NDArray[np.float64], denominator: NDArray[np.float64]) -> NDArray[np.float64]:
    """Quotients, 0 where the denominator is 0."""
    zeros = np.zeros(np.broadcast_shapes(numerator.shape, denominator.shape))
    return np.divide(numerator, denominator, out=zeros, where=denominator > 0)


def max_log_likelihood(counts: ArrayLike, box: Box) -> NDArray[np.float64]:
    """The largest ``sum(x * log q)`` over the laws q of the box; ``counts [..., k] -> [...]``.

    -inf where a token was drawn that the box calls impossible, 0 where nothing was drawn. The
    multinomial coefficient is left out: this is the likelihood of the sequence.
    """
    counts = np.asarray(counts, dtype=np.float64)
    logs = special.xlogy(counts, nearest_law(counts, box)).sum(axis=-1)
    impossible = ((counts > 0) & (box.upper == 0)).any(axis=-1)
    return np.asarray(np.where(impossible, -np.inf, logs))


def mass_range(
    box: Box, members: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Smallest and largest mass of a set of tokens; ``members [..., k] -> [...]`` twice.

    Attained: the set at one bound and the rest at the other. 1 and 1 for a set that holds every
    allowed token, 0 and 0 for one that holds none.
    """
    inside = members.astype(np.float64)
    low, high = inside @ box.lower, inside @ box.upper
    rest_low, rest_high = (1 - inside) @ box.lower, (1 - inside) @ box.upper
    smallest = np.where(rest_high > 0, _ratio(low, low + rest_high), 1.0)
    return smallest, _ratio(high, high + rest_low)


def hidden_variation(eps: float) -> float:
    """The largest total variation between laws whose log-probs differ by at most ``eps`` nats.

    Attained by two halves of equal mass that move apart. A change of shape below it cannot be
    told from noise in one cell, however many draws are made; a missing token can.
    """
    return float(np.tanh(eps) / 2)
