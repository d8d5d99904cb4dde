"""Step: what one step of the batched sampler returns."""

from collections import Counter
from dataclasses import dataclass

import torch

from sampler_audit.sampler.log_probs import TokenLogProbs


@dataclass(frozen=True, eq=False)
class Step:
    """What one step drew, request by request in the order of its slots.

    Attributes:
        token_ids: The tokens that each request may emit: one, and up to one more for each of its
            drafts; -1 where all of a row is masked.
        log_probs: For each of these tokens a listing; None for a request that asked for none.
        mask: bool ``[n_rows, vocab_size]``, the tokens that could be drawn; None unless asked for.
        fused_obstacle: Why the fused path did not draw; None where it did.
        launches: How often each kernel and each copy ran, by name.
    """

    token_ids: tuple[tuple[int, ...], ...]
    log_probs: tuple[tuple[TokenLogProbs, ...] | None, ...]
    mask: torch.Tensor | None
    fused_obstacle: str | None
    launches: Counter[str]
