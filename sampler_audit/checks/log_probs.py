"""Log-probs: a reply lists the right tokens, each once, with their values and ranks.

Exact but for the rounding of a float32 log-sum-exp. Which of tied tokens is listed is left open.
"""

import numpy as np
from numpy.typing import NDArray

from sampler_audit.draws import Listed
from sampler_audit.results import CheckResult
from sampler_reference.log_probs import Listing

DESCRIPTION = "listed log-probs, their tokens and ranks are those of the reference"
NAME = "log-probs"

ERROR = 1e-5
"""Absolute error in nats, and relative beyond 1, of float32 log-probs over 2^18 tokens."""


def check(
    found: Listed, expected: Listing, values: NDArray[np.float64], *, chosen: bool, who: str
) -> CheckResult:
    """Fails where the list of ``who`` is not the reference's; the sampled token comes first.

    ``values`` are those of the whole row, ``[vocab_size]``: of tokens that tie there any may be
    listed, unless they were ``chosen`` by id.
    """
    complaint = _complaint(found, expected, values, chosen=chosen)
    if complaint is None:
        return CheckResult(check=NAME, outcome="pass")
    return CheckResult(check=NAME, outcome="fail", reason=f"{who}: {complaint}")


def _complaint(
    found: Listed, expected: Listing, values: NDArray[np.float64], *, chosen: bool
) -> str | None:
    ids = found.token_ids
    if ids.size != expected.token_ids.size:
        return f"{ids.size} tokens are listed instead of {expected.token_ids.size}"
    if np.unique(ids).size < ids.size:
        return "a token is listed twice"
    if ids[0] != expected.token_ids[0]:
        return f"the list begins with token {ids[0]}, but {expected.token_ids[0]} was sampled"
    if (wrong := _displaced(ids, expected, values, chosen=chosen)).any():
        i = int(np.argmax(wrong))
        return f"token {ids[i]} is listed in place of token {expected.token_ids[i]}"
    if (wrong := _far(found.values, expected.values)).any():
        i = int(np.argmax(wrong))
        return f"token {ids[i]} has {found.values[i]:.6g} instead of {expected.values[i]:.6g}"
    # An engine that says the rank of the sampled token alone has -1 elsewhere.
    if (wrong := (found.ranks != -1) & (found.ranks != expected.ranks)).any():
        i = int(np.argmax(wrong))
        return f"token {ids[i]} has rank {found.ranks[i]} instead of {expected.ranks[i]}"
    return None


def _displaced(
    ids: NDArray[np.int64], expected: Listing, values: NDArray[np.float64], *, chosen: bool
) -> NDArray[np.bool_]:
    """Which tokens are neither the reference's nor tied with it; with ``chosen`` no tie counts."""
    other = ids != expected.token_ids
    known = (ids >= 0) & (ids < values.size)
    tied = known & (values[np.where(known, ids, 0)] == expected.values)
    displaced: NDArray[np.bool_] = other if chosen else other & ~tied
    return displaced


def _far(a: NDArray[np.float32], b: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which values differ by more than ERROR; -inf equals itself."""
    same = (a == b) | (np.isneginf(a) & np.isneginf(b))
    with np.errstate(invalid="ignore"):
        near = np.abs(a - b) <= ERROR * np.maximum(1, np.abs(b))
    far: NDArray[np.bool_] = ~(same | near)
    return far
