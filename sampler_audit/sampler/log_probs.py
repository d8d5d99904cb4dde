"""Listings: the sampled token and the likeliest, or chosen, others, with values and ranks.

A listing depends on its own row and request: whoever else asks for more, less or other tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

import sampler_kernels as kernels
from sampler_audit.sampler.launches import Launches
from sampler_audit.sampler.layout import Layout
from sampler_scenarios.params import SamplingParams
from sampler_scenarios.requests import Request

LogProbsMode = Literal["raw_logprobs", "raw_logits", "processed_logprobs", "processed_logits"]
"""Raw: the model's row after the grammar. Processed: after every stage and filter, -inf where
masked, but whole where the request is greedy. Log-probs are normalised over the row itself."""

ALL = -1


@dataclass(frozen=True, eq=False)
class TokenLogProbs:
    """What is listed at one position, ``[n]``; ids are distinct, the sampled token is the first.

    Attributes:
        token_ids: int64; after the sampled one by falling logit, ties by id, or as chosen.
        values: float32 log-probs or logits; -inf where masked.
        ranks: int64, how many logits of the row are at least the token's: 1 is the best, and of
            tied tokens each has the worst of their ranks.
    """

    token_ids: NDArray[np.int64]
    values: NDArray[np.float32]
    ranks: NDArray[np.int64]


@dataclass(frozen=True)
class Wanted:
    """The ``n`` likeliest tokens (ALL: the vocabulary), or the ``chosen`` ones instead."""

    n: int
    chosen: tuple[int, ...] | None = None


def wanted_by(params: SamplingParams) -> Wanted | None:
    """What a request wants listed beside each sampled token, if it wants a listing at all."""
    if params.logprob_token_ids is not None:
        return Wanted(len(params.logprob_token_ids), params.logprob_token_ids)
    return None if params.logprobs is None else Wanted(params.logprobs)


class LogProbs:
    """Lists the tokens of a step for the requests that want it."""

    def __init__(self, launches: Launches, mode: LogProbsMode) -> None:
        self._launches = launches
        kind, scale = mode.split("_")
        self.processed = kind == "processed"
        self._normalised = scale == "logprobs"
        self._wanted: dict[int, Wanted | None] = {}

    def add(self, slot: int, request: Request) -> None:
        """Rewrite all that the slot holds."""
        self._wanted[slot] = wanted_by(request.params)

    def asked(self, layout: Layout) -> bool:
        """Whether some request of the step wants a listing."""
        return any(self._wanted[slot] is not None for slot in layout.slots.tolist())

    def of_step(
        self, logits: torch.Tensor | None, layout: Layout, token_ids: Sequence[Sequence[int]]
    ) -> tuple[tuple[TokenLogProbs, ...] | None, ...]:
        """For each request of the step a listing for each of its ``token_ids``, or None.

        Token i of a request was drawn from its row i; ``logits`` are ``[n_rows, vocab_size]``, or
        None where no request wants a listing.
        """
        wanted = [self._wanted[slot] for slot in layout.slots.tolist()]
        rows = [
            (int(start) + i, token_id, want)
            for start, tokens, want in zip(layout.starts, token_ids, wanted, strict=True)
            for i, token_id in enumerate(tokens)
            if want is not None
        ]
        listings = iter(() if logits is None else self.of_rows(logits, rows))
        return tuple(
            None if want is None else tuple(next(listings) for _ in tokens)
            for tokens, want in zip(token_ids, wanted, strict=True)
        )

    def of_rows(
        self, logits: torch.Tensor, rows: Sequence[tuple[int, int, Wanted]]
    ) -> list[TokenLogProbs]:
        """A listing for each (row, sampled token, wanted), in their order."""
        alike: dict[tuple[int, bool], list[int]] = {}
        for place, (_, _, want) in enumerate(rows):
            alike.setdefault((want.n, want.chosen is None), []).append(place)
        listings: dict[int, TokenLogProbs] = {}
        for places in alike.values():
            members = [rows[place] for place in places]
            listings.update(zip(places, self._list(logits, members), strict=True))
        return [listings[place] for place in range(len(rows))]

    def _list(
        self, logits: torch.Tensor, rows: Sequence[tuple[int, int, Wanted]]
    ) -> list[TokenLogProbs]:
        """Listings of rows that want as many tokens each."""

        def tensor(values: Sequence[Sequence[int]]) -> torch.Tensor:
            return torch.tensor(values, dtype=torch.int64, device=logits.device)

        vocab_size = logits.shape[1]
        x = logits[tensor([[row for row, _, _ in rows]])[0]]
        n, chosen = rows[0][2].n, rows[0][2].chosen
        n = vocab_size if n == ALL else min(n, vocab_size)
        if chosen is None and n:
            others = self._launches.of(kernels.top_token_ids, kernels.top_token_ids_torch)(x, n)
        else:
            others = tensor([want.chosen or () for _, _, want in rows])
        token_ids = torch.cat((tensor([[sampled] for _, sampled, _ in rows]), others), 1)
        columns = token_ids, self._values(x, token_ids), self._ranks(x, token_ids)
        return [_distinct(*row) for row in zip(*(c.cpu().numpy() for c in columns), strict=True)]

    def _values(self, x: torch.Tensor, token_ids: torch.Tensor) -> torch.Tensor:
        if self._normalised:
            return self._launches.of(kernels.log_probs_of, kernels.log_probs_of_torch)(x, token_ids)
        values = x.gather(1, token_ids.clamp(min=0)).float()
        return values.masked_fill(token_ids < 0, -torch.inf)

    def _ranks(self, x: torch.Tensor, token_ids: torch.Tensor) -> torch.Tensor:
        # The kernel reads a row once for each token; all of a vocabulary are ranked by a sort.
        if token_ids.shape[1] > MOST_COUNTED:
            return self._launches.of(kernels.ranks_of_torch, kernels.ranks_of_torch)(x, token_ids)
        return self._launches.of(kernels.ranks_of, kernels.ranks_of_torch)(x, token_ids)


MOST_COUNTED = 1024
"""The most tokens of a row that are ranked by counting."""


def _distinct(
    token_ids: NDArray[np.int64], values: NDArray[np.float32], ranks: NDArray[np.int64]
) -> TokenLogProbs:
    """Each token at its first place."""
    first = np.sort(np.unique(token_ids, return_index=True)[1])
    return TokenLogProbs(token_ids[first], values[first], ranks[first])
