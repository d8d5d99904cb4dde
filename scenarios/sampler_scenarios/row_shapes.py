"""The made rows as arrays: ``vocab_size -> float32 [vocab_size]``, the same values at every call.

Knows neither names nor reasons; row_kinds.py gives each shape both.
"""

import math
from typing import Literal
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

Logits = NDArray[np.float32]
Place = Literal["front", "last", "spread"]

FIRST_BLOCK = 8192
"""The widest tile in which the known kernels read a row, in tokens."""


def _rng(kind: str) -> np.random.Generator:
    return np.random.default_rng(crc32(kind.encode()))


def _spread(count: int, vocab_size: int) -> NDArray[np.int64]:
    """``count`` distinct ids at even distances, the middle of as many equal parts of the row."""
    return (2 * np.arange(count) + 1) * vocab_size // (2 * count)


def _two_ids(vocab_size: int) -> tuple[int, int]:
    """One id in each third and neither in front, except where the vocabulary is tiny."""
    return vocab_size // 3, 2 * vocab_size // 3


def dense_normal(vocab_size: int) -> Logits:
    """Normal logits of standard deviation 2."""
    return (2 * _rng("dense-normal").standard_normal(vocab_size)).astype(np.float32)


def masked(vocab_size: int) -> Logits:
    """Every logit -inf."""
    return np.full(vocab_size, -np.inf, dtype=np.float32)


def zipf(vocab_size: int) -> Logits:
    """Probability of rank r proportional to r ** -1.1; rank 1 is the last id, rank 2 before it."""
    ranks = np.arange(vocab_size, 0, -1, dtype=np.float64)
    return (-1.1 * np.log(ranks)).astype(np.float32)


def _log_shares(relative: NDArray[np.float64], mass: float) -> NDArray[np.float64]:
    """Logits that differ as ``relative`` does and whose exponentials sum to ``mass``."""
    return relative + math.log(mass / float(np.exp(relative).sum()))


def peaked(vocab_size: int, *, exponent: int) -> Logits:
    """Head mass ``1 - 10 ** -exponent`` on one id; the rest geometric, in random id order."""
    # The tail falls by 8 nats from end to end at every vocabulary: neighbours differ, and
    # the smallest probability stays far above fp32 underflow.
    tail = _rng("peaked").permutation(np.linspace(0.0, -8.0, vocab_size - 1))
    head = vocab_size // 2
    logits = np.insert(_log_shares(tail, 10.0**-exponent), head, np.log1p(-(10.0**-exponent)))
    return logits.astype(np.float32)


def finite(vocab_size: int, *, count: int, place: Place) -> Logits:
    """``count`` distinct finite logits within one nat, at the ids of ``place``; the rest -inf."""
    # One nat from best to worst: the worst of two to eight tokens holds 7 to 27 %, more than
    # the 1 - p of the usual settings, and every token passes a min_p of 0.2.
    values = _rng(f"finite-{count}").permutation(np.linspace(3.0, 2.0, count))
    ids = {
        "front": np.arange(count),
        "last": np.arange(vocab_size - count, vocab_size),
        "spread": _spread(count, vocab_size),
    }[place]
    logits = masked(vocab_size)
    logits[ids] = values
    return logits


def runner_up(vocab_size: int, *, mass: float) -> Logits:
    """Two finite logits: ``1 - mass``, and ``mass`` at the lower id."""
    logits = masked(vocab_size)
    logits[list(_two_ids(vocab_size))] = np.log([mass, 1 - mass])
    return logits


def constant(vocab_size: int) -> Logits:
    """Every logit 1."""
    return np.ones(vocab_size, dtype=np.float32)


def two_valued(vocab_size: int) -> Logits:
    """Ids 1, 4, 7, ... at 1, the rest at 0."""
    logits = np.zeros(vocab_size, dtype=np.float32)
    logits[1::3] = 1.0
    return logits


def one_high(vocab_size: int) -> Logits:
    """One id at 1, the rest at 0."""
    logits = np.zeros(vocab_size, dtype=np.float32)
    logits[vocab_size // 2] = 1.0
    return logits


def bottom_ties(vocab_size: int) -> Logits:
    """Sixty finite logits, twenty each at 2, 1 and 0, spread over the row; the rest -inf."""
    logits = masked(vocab_size)
    logits[_spread(60, vocab_size)] = np.arange(60) % 3
    return logits


def ties_at_k(vocab_size: int) -> Logits:
    """Fifteen distinct logits, then sixty that tie, then a dense rest below them."""
    ids = _rng("ties-at-k").permutation(vocab_size)
    logits = np.minimum(dense_normal(vocab_size), 9.0)
    logits[ids[:15]] = np.linspace(13.0, 11.0, 15)
    logits[ids[15:75]] = 10.0
    return logits


def ties_at_p(vocab_size: int) -> Logits:
    """A head of .295, forty ties that share .4, forty that share .23, and a tail of .075."""
    # Cumulative mass: head to .295, ties to .695 (p = .5 falls in the middle of a member of
    # the group, so that rounding decides nothing), ties to .925 (.8 and .9 likewise), then a
    # tail of distinct values below both groups.
    ids = _rng("ties-at-p").permutation(vocab_size)
    logits = np.empty(vocab_size, dtype=np.float32)
    logits[ids[0]] = np.log(0.295)
    logits[ids[1:41]] = np.log(0.4 / 40)
    logits[ids[41:81]] = np.log(0.23 / 40)
    logits[ids[81:]] = _log_shares(np.linspace(0.0, -2.0, vocab_size - 81), 0.075)
    return logits


def dyadic(vocab_size: int) -> Logits:
    """Masses .125 .5 .125 .25 at four spread ids; the rest -inf."""
    logits = masked(vocab_size)
    logits[_spread(4, vocab_size)] = np.log([0.125, 0.5, 0.125, 0.25])
    return logits


def tied_maximum(vocab_size: int) -> Logits:
    """The dense row with two equal logits one above its maximum."""
    logits = dense_normal(vocab_size)
    logits[list(_two_ids(vocab_size))] = logits.max() + np.float32(1.0)
    return logits


def bf16_rounded(vocab_size: int) -> Logits:
    """The dense row rounded to bfloat16, to nearest, ties to even."""
    bits = dense_normal(vocab_size).view(np.uint32)
    half_to_even = np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return ((bits + half_to_even) & np.uint32(0xFFFF0000)).view(np.float32)


def signed_zeros(vocab_size: int) -> Logits:
    """Even ids at -0 and +0 in turn, the highest; odd ids distinct and below -1."""
    # -0 comes first, so that code which orders +0 above -0 keeps other ids than the lowest.
    logits = -1 - np.abs(dense_normal(vocab_size))
    logits[0::4] = -0.0
    logits[2::4] = 0.0
    return logits


def with_one(vocab_size: int, *, value: float) -> Logits:
    """The dense row with ``value`` in place of one logit."""
    logits = dense_normal(vocab_size)
    logits[2 * vocab_size // 3] = value
    return logits


def with_share(vocab_size: int, *, value: float, every: int) -> Logits:
    """The dense row with ``value`` in place of ``1 / every`` of the logits, rounded up."""
    ids = _rng("share").permutation(vocab_size)[: -(-vocab_size // every)]
    logits = dense_normal(vocab_size)
    logits[ids] = value
    return logits


def scaled(vocab_size: int, *, scale: float = 1.0, offset: float = 0.0) -> Logits:
    """The dense row times ``scale`` plus ``offset``, rounded once."""
    return (dense_normal(vocab_size).astype(np.float64) * scale + offset).astype(np.float32)


def outside_first_block(vocab_size: int) -> Logits:
    """The dense row with -inf in place of its first 8192 logits."""
    logits = dense_normal(vocab_size)
    logits[:FIRST_BLOCK] = -np.inf
    return logits


def flat_tail(vocab_size: int) -> Logits:
    """Half of the mass on one id; the rest normal logits of standard deviation .05."""
    tail = 0.05 * _rng("flat-tail").standard_normal(vocab_size - 1)
    return np.insert(_log_shares(tail, 0.5), vocab_size // 3, np.log(0.5)).astype(np.float32)
