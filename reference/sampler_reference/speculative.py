"""The exact law of speculative verification: what is emitted, with which probability.

Everything is enumeration in float64, so vocabularies and drafts are small. Only ``target_of``
knows requests and filters; the rest takes probabilities, and no engine's code.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from sampler_reference.conventions import Conventions
from sampler_reference.distribution import reference_distribution
from sampler_reference.processors import process
from sampler_scenarios.requests import ModelConfig, Request

Float = NDArray[np.float64]

Prefix = tuple[int, ...]
"""Tokens of this step: drafts, or what is emitted. A draft of -1 is a placeholder."""

Conditional = Callable[[Prefix], Float]
"""The law ``[V]`` of the token after a prefix."""

Rows = Callable[[Prefix], Float]
"""Drafts to the laws ``[n_drafts + 1, V]`` that verify them; the last is the bonus token's."""

Law = dict[Prefix, float]
"""Probability of every emitted sequence: accepted drafts, then one token more."""

Verify = Callable[[Float, Prefix, Float | None], Law]
"""``(p [n_drafts + 1, V], drafts, q [n_drafts, V])`` to the law of what is emitted given these
drafts. Without q each draft counts as certain: its q is 1 at the draft."""


def ratio(p: float, q: float) -> float:
    """min(1, p / q), the probability to accept a token: 0 where p is, 1 where only q is 0."""
    if p == 0:
        return 0.0
    return 1.0 if p >= q else p / q


def acceptance_probability(p: Float, q: Float) -> float:
    """Sum of min(p, q): the probability that a draft from ``q`` is accepted by ``p``."""
    return float(np.minimum(p, q).sum())


def residual(p: Float, q: Float, scale: float = 1.0) -> Float:
    """max(scale * p - q, 0), renormalised.

    Where nothing is left it is p: only a draft that q never proposes can be rejected there.
    """
    left = np.maximum(scale * p - q, 0)
    total = left.sum()
    return left / total if total > 0 else p


@dataclass(frozen=True)
class Rule:
    """What the token-by-token verification does with one draft of laws p and q.

    Attributes:
        accept: ``(p, q, draft)`` to the probability to accept it.
        redraw: ``(p, q, draft)`` to the law of the token that replaces it once it is rejected.
    """

    accept: Callable[[Float, Float, int], float]
    redraw: Callable[[Float, Float, int], Float]


STANDARD = Rule(
    accept=lambda p, q, draft: ratio(p[draft], q[draft]),
    redraw=lambda p, q, _: residual(p, q),
)
"""Leviathan et al., ICML 2023, algorithm 1; Chen et al., 2023, algorithm 2."""


def standard_law(p: Float, drafts: Prefix, q: Float | None, rule: Rule = STANDARD) -> Law:
    """The law of token-by-token verification.

    The first draft that is not accepted is replaced and ends the step. A placeholder is never
    accepted, and its row is drawn from as it is; so is the bonus row after the last draft.
    """
    drafts = before_placeholder(drafts)
    q = _one_hot(drafts, p.shape[1]) if q is None else q
    law: Law = defaultdict(float)
    reached = 1.0
    for i, draft in enumerate(drafts):
        accepted = rule.accept(p[i], q[i], draft)
        if accepted < 1:
            _add(law, drafts[:i], reached * (1 - accepted) * rule.redraw(p[i], q[i], draft))
        reached *= accepted
    _add(law, drafts, reached * p[len(drafts)])
    return dict(law)


def block_law(p: Float, drafts: Prefix, q: Float | None) -> Law:
    """The law of block verification; a placeholder ends the block.

    The longest prefix is kept whose length i passes a test of its own, with probability h[i]: of
    the running ratio r[i] = min(1, r[i-1] p / q) at the last draft, before it S / (S + 1 - r[i])
    with S the sum of max(r[i] p - q, 0) over the next row. Then max(r[i] p - q, 0) / S is drawn
    from. Sun et al., ICLR 2025 (arXiv 2403.10444), algorithm 2.
    """
    drafts = before_placeholder(drafts)
    q = _one_hot(drafts, p.shape[1]) if q is None else q
    n = len(drafts)
    r = [1.0]
    for i, draft in enumerate(drafts):
        r.append(ratio(r[i] * p[i, draft], q[i, draft]))
    law: Law = defaultdict(float)
    _add(law, drafts, r[n] * p[n])
    not_longer = 1 - r[n]
    for i in range(n - 1, -1, -1):
        kept = _passes(r[i], p[i], q[i]) if i else 1.0
        _add(law, drafts[:i], not_longer * kept * residual(p[i], q[i], r[i]))
        not_longer *= 1 - kept
    return dict(law)


def emitted_law(
    rows: Rows, proposals: Mapping[Prefix, float], draft: Conditional | None, verify: Verify
) -> Law:
    """The law of what a step emits, over the law ``proposals`` of the drafts.

    ``draft`` is the q that the verifier is told, None where it is told none.
    """
    law: Law = defaultdict(float)
    for drafts, weight in proposals.items():
        q = None if draft is None else _stack(draft, drafts, len(drafts))
        for tokens, prob in verify(rows(drafts), drafts, q).items():
            law[tokens] += weight * prob
    return dict(law)


def propose(draft: Conditional, n_drafts: int, n_placeholders: int = 0) -> dict[Prefix, float]:
    """The law of ``n_drafts`` tokens drawn one after the other, and placeholders after them."""
    law: dict[Prefix, float] = {(): 1.0}
    for _ in range(n_drafts):
        law = {
            (*drafts, int(token)): weight * draft(drafts)[token]
            for drafts, weight in law.items()
            for token in np.flatnonzero(draft(drafts))
        }
    return {(*drafts, *(-1,) * n_placeholders): weight for drafts, weight in law.items()}


def rows_of(target: Conditional) -> Rows:
    """The right rows: each is the target's law after the drafts before it."""
    return lambda drafts: _stack(target, drafts, len(drafts) + 1)


def target_of(
    logits: Callable[[Prefix], NDArray[np.float32]],
    request: Callable[[Prefix], Request],
    model: ModelConfig,
    conventions: Conventions,
) -> Conditional:
    """The target's law after a prefix: its logits through every stage and filter.

    ``request`` gives the request as it stands after the prefix: ``Request.extended``, or one that
    moves a grammar on too. So every filter acts at every position, and accepted drafts count.
    """

    def law(prefix: Prefix) -> Float:
        at = request(prefix)
        row = process(logits(prefix), at, model, conventions)
        return reference_distribution(row, at.params, conventions).probs

    # An enumeration asks for the law after one prefix once for every continuation.
    return cache(law)


def next_token_laws(law: Law, vocab_size: int) -> dict[Prefix, Float]:
    """The law of the next token given that a prefix was emitted and another token followed.

    A verification is right iff this is the target's law after every prefix that is reached: then,
    and only then, a text of many steps has the target's law.
    """
    masses: dict[Prefix, Float] = defaultdict(lambda: np.zeros(vocab_size))
    for tokens, prob in law.items():
        for i, token in enumerate(tokens):
            masses[tokens[:i]][token] += prob
    return {prefix: mass / mass.sum() for prefix, mass in masses.items() if mass.sum() > 0}


def mean_length(law: Law) -> float:
    """Expected number of tokens that a step emits."""
    return sum(len(tokens) * prob for tokens, prob in law.items())


def before_placeholder(drafts: Prefix) -> Prefix:
    """The drafts up to the first placeholder: no later one can be reached."""
    return drafts[: drafts.index(-1)] if -1 in drafts else drafts


def _one_hot(drafts: Prefix, vocab_size: int) -> Float:
    """The q of drafts that come without one, ``[n_drafts, V]``."""
    return np.eye(vocab_size)[list(drafts)]


def _passes(r: float, p: Float, q: Float) -> float:
    """Block verification's h before the last draft."""
    left = np.maximum(r * p - q, 0).sum()
    # Where nothing is left and r is 1 the next row's p is its q: it accepts whatever it is given.
    return left / (left + 1 - r) if left + 1 - r > 0 else 1.0


def _stack(conditional: Conditional, drafts: Prefix, n: int) -> Float:
    """The laws after the first 0 .. n-1 drafts, ``[n, V]``; a placeholder changes nothing."""
    sure = before_placeholder(drafts)
    return np.array([conditional(sure[:i]) for i in range(n)])


def _add(law: Law, prefix: Prefix, probs: Float) -> None:
    for token in np.flatnonzero(probs):
        law[(*prefix, int(token))] += float(probs[token])
