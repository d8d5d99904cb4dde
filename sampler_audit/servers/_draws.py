"""Draws: tokens as a server drew them, with their labels; and how draws are shared out to requests.

Knows nothing of any engine.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sampler_audit.servers._rows import Row

ENDED = -1
"""Stands where a choice holds no token: it had ended before, or ended with one that is not told."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Draws:
    """Choices in the order in which their requests were made.

    Attributes:
        token_ids: int64 ``[n_draws, max_tokens]``, ENDED where there is no token.
        requests: int64 ``[n_draws]``, the number of the request, counted over the server's life.
        choices: int64 ``[n_draws]``, the index within the request.
        seeds: The seed that was meant for each; None where none was sent.
        rows: The rows beside each token, ``[n_draws]`` of up to ``max_tokens``; empty where none
            were asked for.
    """

    token_ids: NDArray[np.int64]
    requests: NDArray[np.int64]
    choices: NDArray[np.int64]
    seeds: tuple[int | None, ...]
    rows: tuple[tuple[Row, ...], ...] = ()

    def __len__(self) -> int:
        """How many choices there are."""
        return len(self.token_ids)


@dataclass(frozen=True)
class Part:
    """The draws that one request is to make."""

    n: int
    seeds: tuple[int, ...] | None

    @property
    def seed(self) -> int | None:
        """What the request says: the seed of its first choice."""
        return None if self.seeds is None else self.seeds[0]


def share_out(n: int, seeds: Sequence[int] | None, most: int, *, counts_up: bool) -> list[Part]:
    """``n`` draws as requests of at most ``most`` choices.

    With seeds, one a draw, a request holds a run of consecutive ones where choice i of the engine
    has the seed of the request plus i (``counts_up``), and else one draw alone.

    Raises:
        ValueError: not one seed a draw.
    """
    if seeds is None:
        sizes = [most] * (n // most) + [n % most] * (n % most > 0)
        return [Part(size, None) for size in sizes]
    if len(seeds) != n:
        raise ValueError(f"seeds must be one a draw: {n} draws, {len(seeds)} seeds")
    runs: list[list[int]] = []
    for seed in seeds:
        if runs and counts_up and len(runs[-1]) < most and seed == runs[-1][-1] + 1:
            runs[-1].append(seed)
        else:
            runs.append([seed])
    return [Part(len(run), tuple(run)) for run in runs]


def join_draws(parts: Sequence[Draws], max_tokens: int) -> Draws:
    """All draws of several requests."""
    empty = np.empty(0, np.int64)
    return Draws(
        token_ids=np.concatenate(
            [np.empty((0, max_tokens), np.int64), *(part.token_ids for part in parts)]
        ),
        requests=np.concatenate([empty, *(part.requests for part in parts)]),
        choices=np.concatenate([empty, *(part.choices for part in parts)]),
        seeds=tuple(seed for part in parts for seed in part.seeds),
        rows=tuple(rows for part in parts for rows in part.rows),
    )
