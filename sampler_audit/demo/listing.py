"""Listing: the log-probs beside drawn tokens, and those of a prompt's own tokens."""

from collections.abc import Sequence

import numpy as np
import torch

from sampler_audit.demo.generation import Emitted, Logits
from sampler_audit.demo.passes import Passes
from sampler_audit.sampler.launches import Launches
from sampler_audit.sampler.log_probs import LogProbs, TokenLogProbs, Wanted
from sampler_audit.sampler.prompt_log_probs import PromptLogProbs

_NOBODY = -1

PROMPT_CHUNK = 64
"""Rows of a prompt that are scored at once."""


class Listing:
    """Lists raw log-probs, by the built-in sampler on the torch twins."""

    def __init__(self, passes: Passes) -> None:
        self._passes = passes
        self._log_probs = LogProbs(Launches("twin"), "raw_logprobs")

    def of_tokens(self, asked: Sequence[tuple[Wanted, Emitted]]) -> list[TokenLogProbs]:
        """What is listed beside each token that was emitted."""
        alike: dict[tuple[int, Wanted], list[int]] = {}
        for place, (want, emitted) in enumerate(asked):
            alike.setdefault((id(emitted.row), want), []).append(place)
        listings: dict[int, TokenLogProbs] = {}
        for (_, want), places in alike.items():
            tokens = [asked[place][1].token_id for place in places]
            of_token = self._of_row(asked[places[0]][1].row, tokens, want)
            listings.update((place, of_token[t]) for place, t in zip(places, tokens, strict=True))
        return [listings[place] for place in range(len(asked))]

    def _of_row(
        self, row: Logits, token_ids: Sequence[int], want: Wanted
    ) -> dict[int, TokenLogProbs]:
        """The listing of each token, by two looks at the row however many there are."""
        drawn = tuple(dict.fromkeys(token_ids))
        own, others = self._log_probs.of_rows(
            torch.tensor(row)[None],
            [(0, _NOBODY, Wanted(len(drawn), drawn)), (0, _NOBODY, want)],
        )
        return {
            token_id: _joined(own, place, others)
            for place, token_id in enumerate(own.token_ids.tolist())
            if token_id != _NOBODY
        }

    def of_prompt(self, prompt: tuple[int, ...], n: int) -> Sequence[TokenLogProbs | None]:
        """For each token of the prompt itself and the ``n`` likeliest in its place; the first has
        none.
        """  # noqa: D205 - one sentence
        listing = PromptLogProbs(prompt, n, mode="raw_logprobs", path="twin")
        for start in range(0, len(prompt) - 1, PROMPT_CHUNK):
            ends = range(start + 1, min(start + 1 + PROMPT_CHUNK, len(prompt)))
            rows = np.stack([self._passes.prompt_row(prompt[:end]) for end in ends])
            listing.add(torch.from_numpy(rows))
        return listing.listings


def _joined(own: TokenLogProbs, place: int, others: TokenLogProbs) -> TokenLogProbs:
    """The token at ``place``, then the others but for it and for nobody."""
    rest = ~np.isin(others.token_ids, (own.token_ids[place], _NOBODY))
    at = slice(place, place + 1)
    return TokenLogProbs(
        np.concatenate((own.token_ids[at], others.token_ids[rest])),
        np.concatenate((own.values[at], others.values[rest])),
        np.concatenate((own.ranks[at], others.ranks[rest])),
    )
