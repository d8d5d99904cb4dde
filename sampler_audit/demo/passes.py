"""Passes: the model's rows as its forward passes give them, with the numeric noise asked for.

A draw's pass and a prompt's pass are different code in an engine; here they differ by what the
options say, so that an audit can be shown how far its yardstick may be off.
"""

import itertools

import numpy as np
from numpy.typing import NDArray

from sampler_audit.demo.model import DemoModel

Logits = NDArray[np.float32]


class Passes:
    """Rows of float32 ``[vocab_size]``; every call is a forward pass. Threads may share one.

    ``noise`` is the largest error that a logit has in a pass, another one in each; ``offset`` the
    largest by which a draw's pass always differs from a prompt's, a constant for each token of a
    context. Both are uniform, in nats.
    """

    def __init__(self, model: DemoModel, *, noise: float, offset: float, seed: int) -> None:
        self._model = model
        self._noise = noise
        self._offset = offset
        self._seed = seed
        self._count = itertools.count()

    def prompt_row(self, context: tuple[int, ...]) -> Logits:
        """The row after ``context`` in a pass that lists a prompt."""
        return self._with_noise(self._model.row(context))

    def draw_row(self, context: tuple[int, ...]) -> Logits:
        """The row after ``context`` in a pass from which a token is drawn."""
        row = self._model.row(context)
        if self._offset:
            fixed = np.random.default_rng([self._seed, *context])
            row = row + _uniform(fixed, self._offset, row.size)
        return self._with_noise(row)

    def _with_noise(self, row: Logits) -> Logits:
        if not self._noise:
            return row
        fresh = np.random.default_rng([self._seed, next(self._count)])
        return row + _uniform(fresh, self._noise, row.size)


def _uniform(rng: np.random.Generator, most: float, n: int) -> Logits:
    return rng.uniform(-most, most, n).astype(np.float32)
