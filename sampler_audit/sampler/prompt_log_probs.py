"""Log-probs of a prompt's own tokens, from logits that arrive in chunks of any size."""

from collections.abc import Sequence

import torch

from sampler_audit.sampler.launches import Launches
from sampler_audit.sampler.log_probs import LogProbs, LogProbsMode, TokenLogProbs, Wanted
from sampler_audit.sampler.pipeline import Path


class PromptLogProbs:
    """Listings of prompt tokens, the same bits however the prompt is cut.

    Row i of the prompt's logits scores token i + 1. Prompts are neither processed, scaled nor
    filtered: the mode only chooses between logits and log-probs. ``n`` is ``prompt_logprobs``.
    """

    def __init__(
        self, prompt_token_ids: Sequence[int], n: int, *, mode: LogProbsMode, path: Path
    ) -> None:
        self._token_ids = tuple(prompt_token_ids)
        self._wanted = Wanted(n)
        self._log_probs = LogProbs(Launches(path), mode)
        self._listings: list[TokenLogProbs] = []
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
        rows = [(row, token_id, self._wanted) for row, token_id in enumerate(scored)]
        if rows:
            self._listings += self._log_probs.of_rows(logits, rows)

    @property
    def listings(self) -> tuple[TokenLogProbs | None, ...]:
        """One for each token so far; the first has none."""
        return (None, *self._listings)
