"""The same processor twice: a request with a target may draw that token only.

``extra_args={"target_token": 7}`` asks for it. Once for the whole batch, and once as a function of
one request's row behind the adapter.
"""

import torch

from sampler_audit.sampler.processors import (
    AdapterLogitsProcessor,
    BatchLogitsProcessor,
    BatchUpdate,
    EngineConfig,
    RequestLogitsProcessor,
    update_rows,
)
from sampler_scenarios.params import SamplingParams


def read_target(params: SamplingParams) -> int | None:
    """The ``target_token`` of a request, None where it names none.

    Raises:
        ValueError: no token id.
    """
    target = params.extra_args.get("target_token")
    if target is None or (type(target) is int and target >= 0):
        return target
    raise ValueError(f"target_token must be a token id, an integer >= 0, got {target!r}")


class TargetToken(BatchLogitsProcessor):
    """Batch-level: all rows that have a target at once."""

    def __init__(self, config: EngineConfig, device: torch.device, is_pin_memory: bool) -> None:
        super().__init__(config, device, is_pin_memory)
        self._targets: dict[int, int] = {}

    @classmethod
    def validate_params(cls, params: SamplingParams) -> None:
        """See ``read_target``."""
        read_target(params)

    def is_argmax_invariant(self) -> bool:
        """The target need not be the likeliest token."""
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Targets follow their requests from row to row."""
        update_rows(self._targets, batch_update, lambda params, _prompt, _out: read_target(params))

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """-inf everywhere but at the target."""
        if self._targets:
            rows = torch.tensor(list(self._targets.keys()), device=logits.device)
            targets = torch.tensor(list(self._targets.values()), device=logits.device)
            kept = logits[rows, targets]
            logits[rows] = -torch.inf
            logits[rows, targets] = kept
        return logits


class TargetTokenByRequest(AdapterLogitsProcessor):
    """Wrapped: each request with a target gets a function of its own row."""

    @classmethod
    def validate_params(cls, params: SamplingParams) -> None:
        """See ``read_target``."""
        read_target(params)

    def is_argmax_invariant(self) -> bool:
        """The target need not be the likeliest token."""
        return False

    def new_req_logits_processor(self, params: SamplingParams) -> RequestLogitsProcessor | None:
        """A function of the output and the row, which needs only the row."""
        target = read_target(params)
        if target is None:
            return None

        def keep_target(_output_token_ids: list[int], row: torch.Tensor) -> torch.Tensor:
            kept = torch.full_like(row, -torch.inf)
            kept[target] = row[target]
            return kept

        return keep_target
