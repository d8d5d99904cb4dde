"""DemoModel: a next-token row for any context, without weights.

After the prompts of the thirty real rows it gives those; after anything else a row that the last
tokens determine, of one of five shapes. Knows no sampler.
"""

from collections.abc import Callable
from functools import lru_cache
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from sampler_audit.demo.tokenizer import Tokenizer
from sampler_scenarios.real_rows import REAL_ROWS, prompt_of
from sampler_scenarios.requests import ModelConfig
from sampler_scenarios.rows import load_row

Logits = NDArray[np.float32]
Floats = NDArray[np.float64]

VOCAB_SIZE = 4096
LEAST_VOCAB_SIZE = 256

MEMORY = 4
"""How many of the last tokens determine a row."""

CACHED_ROWS = 1024


class DemoModel:
    """Rows of float32 ``[vocab_size]``, the same for a context at every call; read-only.

    Raises:
        ValueError: a vocabulary too small for the shapes of the rows.
    """

    def __init__(self, vocab_size: int = VOCAB_SIZE) -> None:
        if vocab_size < LEAST_VOCAB_SIZE:
            raise ValueError(f"vocab_size must be at least {LEAST_VOCAB_SIZE}, got {vocab_size}")
        self.tokenizer = Tokenizer(vocab_size)
        self.config = ModelConfig(
            vocab_size=vocab_size,
            eos_token_ids=(1, 2),
            reasoning_start=(3, 4),
            reasoning_end=(5, 6),
        )
        self._real = {
            self.tokenizer.encode(prompt_of(slug)): f"{slug}@{vocab_size}" for slug in REAL_ROWS
        }

    def row(self, context: tuple[int, ...]) -> Logits:
        """The logits of the token after ``context``."""
        if name := self._real.get(context):
            return load_row(name).logits
        return _made_row(self.config.vocab_size, self.config.eos_token_ids, context[-MEMORY:])

    def draft_row(self, context: tuple[int, ...]) -> Logits:
        """The same row as a smaller model sees it: sharper, and every logit somewhat off."""
        logits = self.row(context)
        off = _rng(context[-MEMORY:], "draft").normal(0, 0.5, logits.size)
        return (1.2 * logits + off).astype(np.float32)


@lru_cache(maxsize=CACHED_ROWS)
def _made_row(vocab_size: int, eos_token_ids: tuple[int, ...], last: tuple[int, ...]) -> Logits:
    rng = _rng(last, "row")
    logits = _SHAPES[rng.integers(len(_SHAPES))](rng, vocab_size)
    logits[list(eos_token_ids)] = -np.inf
    # Never the likeliest: a greedy continuation goes on.
    below = 1.0 if rng.integers(4) == 0 else 12.0
    logits[list(eos_token_ids)] = logits.max() - below - 0.5 * np.arange(len(eos_token_ids))
    row = logits.astype(np.float32)
    row.setflags(write=False)
    return row


def _rng(last: tuple[int, ...], what: str) -> np.random.Generator:
    return np.random.default_rng(crc32(np.array(last, np.int64).tobytes(), crc32(what.encode())))


def _few(rng: np.random.Generator, vocab_size: int) -> Floats:
    """Two to eight likely tokens within two nats; all others together hold less than 1 %."""
    n = int(rng.integers(2, 9))
    logits = rng.normal(-15, 1, vocab_size)
    likely = rng.choice(vocab_size, n, replace=False)
    logits[likely] = np.linspace(0, -2, n) + rng.uniform(-0.1, 0.1, n)
    return logits


def _peaked(rng: np.random.Generator, vocab_size: int) -> Floats:
    """One token with 60 to 95 %, and a tail that falls by eight nats."""
    logits = rng.permutation(np.linspace(0, -8, vocab_size))
    share = rng.uniform(0.6, 0.95)
    best = int(rng.integers(vocab_size))
    rest = np.log(np.exp(logits).sum() - np.exp(logits[best]))
    logits[best] = rest + np.log(share / (1 - share))
    return logits


def _zipf(rng: np.random.Generator, vocab_size: int) -> Floats:
    """Probability of rank r proportional to a power of r between -1.2 and -2."""
    exponent = rng.uniform(1.2, 2.0)
    return rng.permutation(-exponent * np.log(np.arange(1.0, vocab_size + 1)))


def _broad(rng: np.random.Generator, vocab_size: int) -> Floats:
    """Normal logits of standard deviation 2.5: hundreds of tokens have a chance."""
    return rng.normal(0, 2.5, vocab_size)


def _tied(rng: np.random.Generator, vocab_size: int) -> Floats:
    """As ``_broad``, in steps of 1/8, bfloat16's between 16 and 32: tied tokens at most ranks."""
    return np.round(_broad(rng, vocab_size) * 8) / 8


_SHAPES: tuple[Callable[[np.random.Generator, int], Floats], ...] = (
    *(_few, _peaked, _zipf, _broad, _tied),
)
