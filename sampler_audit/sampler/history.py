"""The tokens of every slot, prompt and output, as the stages read them."""

from collections.abc import Sequence

import torch

import sampler_kernels as kernels
from sampler_audit.sampler.launches import Launches
from sampler_audit.sampler.layout import PADDING, Layout
from sampler_audit.sampler.staged import StagedTensor
from sampler_scenarios.requests import Request


class TokenHistory:
    """Committed tokens by slot.

    Attributes:
        token_ids: int32 ``[n_slots, max_model_len]``, -1 after the last.
        prompt_len: int32 ``[n_slots]``.
        prefill_len: int32 ``[n_slots]``, prompt and the output that a resumed request came with.
        total_len: int32 ``[n_slots]``.
    """

    def __init__(
        self, n_slots: int, max_model_len: int, device: torch.device, launches: Launches
    ) -> None:
        def lengths(name: str) -> StagedTensor:
            return StagedTensor(name, (n_slots,), torch.int32, 0, device, launches)

        shape = (n_slots, max_model_len)
        self.token_ids = StagedTensor("token_ids", shape, torch.int32, PADDING, device, launches)
        self.prompt_len = lengths("prompt_len")
        self.prefill_len = lengths("prefill_len")
        self.total_len = lengths("total_len")

    def add(self, slot: int, request: Request) -> None:
        """The slot holds this request's tokens and nothing of its predecessor's."""
        n_tokens = len(request.token_ids)
        self.token_ids.rewrite(slot, request.token_ids)
        self.prompt_len.write(slot, len(request.prompt_token_ids))
        self.prefill_len.write(slot, n_tokens)
        self.total_len.write(slot, n_tokens)

    def commit(self, slot: int, token_ids: Sequence[int]) -> None:
        """The request has emitted these tokens too."""
        total_len = self.length(slot)
        self.token_ids.append(slot, total_len, token_ids)
        self.total_len.write(slot, total_len + len(token_ids))

    def length(self, slot: int) -> int:
        """How many tokens the request of the slot has, prompt and output."""
        return int(self.total_len.host[slot])

    def seen_by(self, layout: Layout) -> kernels.History:
        """What the rows of a step look back on, their drafts as if emitted."""
        return kernels.History(
            token_ids=self.token_ids.current(),
            prompt_len=self.prompt_len.current(),
            total_len=self.total_len.current(),
            drafts=layout.drafts_before_row,
            n_drafts=layout.n_drafts_before_row,
        )
