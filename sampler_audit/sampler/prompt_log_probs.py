"""Log-probs of a prompt's own tokens, from logits that arrive in chunks of any size."""

from collections.abc import Sequence

import torch

from sampler_audit.sampler.launches import Launches
from sampler_audit.sampler.log_probs import LogProbs, LogProbsMode, TokenLogProbs, Wanted
from sampler_audit.sampler.pipeline import Path
from sampler_scenarios.requests import Request


class PromptLogProbs:
    """Listings of prompt tokens, the same bits however the prompt is cut.

    Row i of the prompt's logits scores token i + 1. Prompts are neither processed, scaled nor
    filtered: the mode only chooses between logits and log-probs. ``n`` is ``prompt_logprobs``;
    ``chosen``, from row ``start`` on, lists these tokens instead, and nothing elsewhere.
    """

    def __init__(
        self,
        prompt_token_ids: Sequence[int],
        n: int,
        *,
        mode: LogProbsMode,
        path: Path,
        chosen: Sequence[tuple[int, ...]] | None = None,
        start: int = 0,
    ) -> None:
        self._token_ids = tuple(prompt_token_ids)
        self._n = n
        self._chosen = chosen
        self._start = start
        self._log_probs = LogProbs(Launches(path), mode)
        self._listings: list[TokenLogProbs | None] = []
        self._n_rows = 0

    def add(self, logits: torch.Tensor) -> None:
        """The logits of the next rows, ``[n, vocab_size]``; the prompt's last row scores nothing.

        Raises:
            ValueError: more rows than the prompt has tokens.
        """
        start, stop = self._n_rows, self._n_rows + len(logits)
        if stop > len(self._token_ids):
            raise ValueError(
                f"a prompt of {len(self._token_ids)} tokens has as many rows of logits, got {stop}"
            )
        self._n_rows = stop
        scored = self._token_ids[start + 1 : stop + 1]
        wanted = [self._wanted(start + row) for row in range(len(scored))]
        rows = [
            (row, token_id, want)
            for row, (token_id, want) in enumerate(zip(scored, wanted, strict=True))
            if want is not None
        ]
        listed = iter(self._log_probs.of_rows(logits, rows) if rows else ())
        self._listings += [None if want is None else next(listed) for want in wanted]

    @property
    def listings(self) -> tuple[TokenLogProbs | None, ...]:
        """One for each token so far; the first has none, nor has one that nothing is wanted of."""
        return (None, *self._listings)

    def _wanted(self, row: int) -> Wanted | None:
        if self._chosen is None:
            return Wanted(self._n)
        at = row - self._start
        ids = self._chosen[at] if 0 <= at < len(self._chosen) else None
        return None if ids is None else Wanted(len(ids), ids)


class Prompts:
    """The prompts of a sampler's requests, by slot."""

    def __init__(self, mode: LogProbsMode, path: Path) -> None:
        self._mode = mode
        self._path = path
        self._by_slot: dict[int, PromptLogProbs | None] = {}

    def add(self, slot: int, request: Request) -> None:
        """Rewrite all that the slot holds."""
        params = request.params
        asked = params.prompt_logprobs is not None or params.prompt_logprob_token_ids is not None
        self._by_slot[slot] = (
            PromptLogProbs(
                request.prompt_token_ids,
                params.prompt_logprobs or 0,
                mode=self._mode,
                path=self._path,
                chosen=params.prompt_logprob_token_ids,
                start=params.prompt_logprob_start,
            )
            if asked
            else None
        )

    def take(self, slot: int, logits: torch.Tensor) -> tuple[TokenLogProbs | None, ...]:
        """Take the logits of the next rows; the listings so far.

        Raises:
            ValueError: the request asked for none, or more rows than the prompt has tokens.
        """
        prompt = self._by_slot[slot]
        if prompt is None:
            raise ValueError(
                "prompt_logprobs must be set where prompt tokens are to be listed, got None"
            )
        prompt.add(logits)
        return prompt.listings
