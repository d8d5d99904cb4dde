"""Verification of drafts on rows that all went through every stage and filter.

Row j of a request saw its drafts 1..j as emitted, so what is accepted has the law that the same
request without drafts would have.
"""

import numpy as np
import torch

import sampler_kernels as kernels
from sampler_audit.sampler.draw import Draw, Drawn, kept_mask
from sampler_audit.sampler.launches import Launches
from sampler_audit.sampler.layout import Layout


class Verifier:
    """Accepts drafts by one of the two exact methods, with noise of each request's seed.

    The noise is this project's, whatever the conventions of plain draws; a request without drafts
    draws plainly, so that its token does not depend on whether others have some.
    """

    def __init__(self, launches: Launches, draw: Draw, method: kernels.VerifyMethod) -> None:
        self._launches = launches
        self._draw = draw
        self._method = method

    def verify(
        self,
        logits: torch.Tensor,
        layout: Layout,
        draft_logits: torch.Tensor | None,
        *,
        want_mask: bool,
    ) -> Drawn:
        """The accepted drafts of each request and one token more.

        ``logits`` are masked; ``draft_logits`` float32 ``[n_requests, most drafts, vocab_size]``
        are what each draft was drawn from, or None where drafts count as certain.

        Raises:
            ValueError: draft_logits of another shape.
        """
        bounds = layout.on_device("row starts", np.append(layout.starts, layout.n_rows))
        first_rows = bounds[:-1]
        verify = self._launches.of(kernels.verify_drafts, kernels.verify_drafts_torch)
        verified = verify(
            logits,
            layout.on_device("draft_token_ids", layout.draft_token_ids),
            draft_logits,
            bounds,
            self._draw.seeds(layout)[first_rows],
            layout.positions_on_device[first_rows],
            method=self._method,
        )
        rows = zip(verified.token_ids.tolist(), verified.n_accepted.tolist(), strict=True)
        plain = self._draw.without_drafts(logits, layout)
        token_ids = tuple(
            plain.get(i, tuple(tokens[: n_accepted + 1]))
            for i, (tokens, n_accepted) in enumerate(rows)
        )
        return Drawn(token_ids, kept_mask(logits) if want_mask else None)
