"""The requests of a sequence and the logits that a model would give them, all from one seed.

Nothing here depends on who else is there: a request gets the same logits and tokens in any batch.
"""

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from sampler_scenarios.params import SamplingParams
from sampler_scenarios.requests import ModelConfig, Request

EOS_TOKEN_IDS = (0, 1)
_MOST_WORDS = 8
"""Prompts and outputs are made of so few tokens that they repeat themselves."""
_SPREAD = 3.0


def scene_model(vocab_size: int, max_model_len: int = 256) -> ModelConfig:
    """The model that all sequences are of."""
    return ModelConfig(
        vocab_size=vocab_size, max_model_len=max_model_len, eos_token_ids=EOS_TOKEN_IDS
    )


@dataclass(eq=False)
class Guest:
    """A request that is in the batch, from its admission on.

    Attributes:
        number: How many were admitted before it.
        request: As it is now, with the tokens that it has emitted.
        row: Its row in the last step; None before its first.
    """

    number: int
    request: Request
    row: int | None = field(default=None)


class Scene:
    """Makes what a sequence needs, of rows ``vocab_size`` wide."""

    def __init__(self, seed: int, vocab_size: int) -> None:
        self._seed = seed
        self._vocab_size = vocab_size
        self._words = (len(EOS_TOKEN_IDS), min(vocab_size, len(EOS_TOKEN_IDS) + _MOST_WORDS))

    def new_guest(self, number: int, params: SamplingParams) -> Guest:
        """With a prompt of one to three tokens."""
        rng = self._rng("prompt", number, 0)
        prompt = rng.integers(*self._words, size=1 + number % 3).tolist()
        return Guest(number, Request(params, tuple(prompt)))

    def next_tokens(self, guest: Guest, n_tokens: int) -> list[int]:
        """Those that follow the tokens it has."""
        n_before = len(guest.request.output_token_ids)
        return [
            int(self._rng("token", guest.number, n_before + i).integers(*self._words))
            for i in range(n_tokens)
        ]

    def logits(self, guest: Guest, n_rows: int, *, masked: bool) -> torch.Tensor:
        """float32 ``[n_rows, vocab_size]``, no two alike in a row; half -inf where ``masked``."""
        n_before = len(guest.request.output_token_ids)
        rows = [self._row(guest.number, n_before + i, masked=masked) for i in range(n_rows)]
        return torch.from_numpy(np.stack(rows))

    def _row(self, number: int, position: int, *, masked: bool) -> NDArray[np.float32]:
        rng = self._rng("logits", number, position)
        row = (_SPREAD * rng.normal(size=self._vocab_size)).astype(np.float32)
        if masked:
            row[rng.permutation(self._vocab_size)[: self._vocab_size // 2]] = -np.inf
        return row

    def _rng(self, what: str, number: int, position: int) -> np.random.Generator:
        return np.random.default_rng([self._seed, *what.encode(), number, position])
