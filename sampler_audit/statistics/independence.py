"""Are draws independent? Evidence from their order and from copies, with no law assumed."""

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sampler_audit.statistics.box import Box
from sampler_audit.statistics.effect import expected_range

TIE_SHARES = (0.02, 0.05, 0.1, 0.3)
"""The shares of draws tied to their predecessor that are bet on."""


def exchangeability_log_e(*rounds: NDArray[np.int64]) -> float:
    """Evidence that draws repeat their predecessor more often than chance allows.

    Each round holds the tokens of one cell, ``[n]``, in the order in which a fault would tie
    them: neighbouring rows, seeds or requests. Null: within a round every order of the same
    tokens is equally likely. No law enters, so errors of the log-probs do not matter. Rounds
    must be independent of each other; several looks at one cell are rounds of their new draws.

    Invalid where the order depends on the tokens, or where a cell's law changes on the way.
    Blind to a round that holds one token only: the histogram sees that.

    By J. Ville's inequality (1939) the chance under the null that it ever reaches log(1 / alpha)
    from round to round is at most alpha.
    """
    logs = sum((tie_log_es(tokens) for tokens in rounds), np.zeros(len(TIE_SHARES)))
    return float(np.logaddexp.reduce(logs) - np.log(len(TIE_SHARES)))


def tie_log_es(tokens: NDArray[np.int64]) -> NDArray[np.float64]:
    """Log e-values of the separate bets in TIE_SHARES, ``[..., n] -> [..., 4]``.

    A next token equals its predecessor with chance r = copies left / draws left. The bet is on
    ``r + share * (1 - r)``, paid at r, except where r is 0 or 1 and nothing is open.
    """
    n = tokens.shape[-1]
    previous, left = tokens[..., :-1], np.arange(n - 1, 0, -1)
    chance = _copies_after(tokens)[..., :-1] / left
    return _paid(tokens[..., 1:] == previous, chance)


def echo_log_es(tokens: NDArray[np.int64], earlier: NDArray[np.int64]) -> NDArray[np.float64]:
    """Log e-values of bets that draws repeat those of an earlier round, ``[n]`` twice ``-> [4]``.

    Null: the order of ``tokens`` is independent of ``earlier``, which stands beside it draw by draw
    (the longer of the two is cut). A server that gives every request the same seed repeats a round
    where no draw within it repeats another.
    """
    n = min(tokens.size, earlier.size)
    tokens, earlier = tokens[:n], earlier[:n]
    still_to_come = np.triu(tokens[None, :] == earlier[:, None])
    chance = still_to_come.sum(axis=1) / np.arange(n, 0, -1)
    return _paid(tokens == earlier, chance)


def repeat_log_es(
    hits: NDArray[np.bool_], chances_upper: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Log e-values of bets that ``hits [n]`` come more often than they may, ``[4]``.

    Null: given what came before, each has at most its chance in ``chances_upper [n]``. A bet that
    is fair at the bound loses on average below it.
    """
    return _paid(hits, chances_upper)


def _paid(hits: NDArray[np.bool_], chance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log of what the bets in TIE_SHARES on ``hits [..., n]`` paid, ``[..., 4]``."""
    is_open = ((chance > 0) & (chance < 1))[..., None]
    chance = np.where(is_open, chance[..., None], 0.5)
    bet = chance + np.array(TIE_SHARES) * (1 - chance)
    factors = np.where(hits[..., None], bet / chance, (1 - bet) / (1 - chance))
    return np.asarray(np.log(np.where(is_open, factors, 1.0)).sum(axis=-2))


def _copies_after(tokens: NDArray[np.int64]) -> NDArray[np.int64]:
    """How often each token comes again later in its sequence, ``[..., n]``."""
    order = np.argsort(tokens, axis=-1, kind="stable")
    ordered = np.take_along_axis(tokens, order, axis=-1)
    places = np.arange(tokens.shape[-1])
    ends = np.ones(tokens.shape, dtype=np.bool_)
    ends[..., :-1] = ordered[..., 1:] != ordered[..., :-1]
    last = np.where(ends, places, tokens.shape[-1])
    last = np.minimum.accumulate(last[..., ::-1], axis=-1)[..., ::-1]
    copies = np.empty(tokens.shape, dtype=np.int64)
    np.put_along_axis(copies, order, last - places, axis=-1)
    return copies


def duplicate_log_e(
    sequences: NDArray[np.int64], collision_probs_upper: NDArray[np.float64]
) -> float:
    """Evidence that different seeds share their noise: ``[S, L]`` tokens of S seeds.

    Null: seeds are independent, and two draws at position t agree with probability at most
    ``collision_probs_upper [L]``, independently over positions. The number of identical pairs
    over its largest expectation then has mean at most 1. -inf where no two sequences agree.

    Invalid where the seeds were chosen after seeing draws, or are not all different.
    """
    n_pairs = special.comb(sequences.shape[0], 2)
    if n_pairs == 0:
        return 0.0
    copies = np.unique(sequences, axis=0, return_counts=True)[1]
    identical = special.comb(copies, 2).sum()
    if identical == 0:
        return float("-inf")
    return float(np.log(identical / n_pairs) - np.log(collision_probs_upper).sum())


def copies_log_e(
    sequences: NDArray[np.int64], log_probs_upper: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Evidence that texts are copies of each other: ``[S, L]`` tokens of S independent texts.

    Null: a text equals an earlier one with probability at most ``exp(log_probs_upper [S])``, the
    earlier one's own. Each pair's indicator over that bound has mean at most 1, and so has the mean
    over the pairs. -inf where no two texts agree; 0 where there is no pair.
    """
    n = len(sequences)
    if n < 2:
        return np.zeros(())
    same = np.triu((sequences[:, None] == sequences[None, :]).all(axis=-1), 1)
    log_es = np.where(same, -np.minimum(log_probs_upper, 0.0)[:, None], -np.inf)
    return np.asarray(np.logaddexp.reduce(log_es[np.triu_indices(n, 1)]) - np.log(n * (n - 1) / 2))


def collision_upper(box: Box) -> float:
    """A bound on the chance that two independent draws agree, for every law of the box ``[k]``.

    Exact for a box of one law. Bins must be single tokens, or agreement means the same bin.
    """
    return float(min((expected_range(box)[1] ** 2).sum(), 1.0))
