"""A wrapped processor that reads the engine's configuration: requests end after so many tokens.

``extra_args={"end_after": 3}``: once the output has three tokens, only the model's end-of-sequence
tokens are left.
"""

import torch

from sampler_audit.sampler.processors import (
    AdapterLogitsProcessor,
    EngineConfig,
    RequestLogitsProcessor,
)
from sampler_scenarios.params import SamplingParams


def read_end_after(params: SamplingParams) -> int | None:
    """The ``end_after`` of a request, None where it names none.

    Raises:
        ValueError: no integer of at least 0.
    """
    end_after = params.extra_args.get("end_after")
    if end_after is None or (type(end_after) is int and end_after >= 0):
        return end_after
    raise ValueError(f"end_after must be an integer >= 0, got {end_after!r}")


class EndAfter(AdapterLogitsProcessor):
    """Takes the end-of-sequence tokens from the configuration; without any it does nothing."""

    def __init__(self, config: EngineConfig, device: torch.device, is_pin_memory: bool) -> None:
        super().__init__(config, device, is_pin_memory)
        self._eos_token_ids = list(config.model.eos_token_ids)

    @classmethod
    def validate_params(cls, params: SamplingParams) -> None:
        """See ``read_end_after``."""
        read_end_after(params)

    def is_argmax_invariant(self) -> bool:
        """The likeliest token seldom is an end of sequence."""
        return False

    def new_req_logits_processor(self, params: SamplingParams) -> RequestLogitsProcessor | None:
        """A function that looks at the output, which grows from step to step."""
        end_after = read_end_after(params)
        if end_after is None or not self._eos_token_ids:
            return None

        def end(output_token_ids: list[int], row: torch.Tensor) -> torch.Tensor:
            if len(output_token_ids) >= end_after:
                kept = row[self._eos_token_ids]
                row.fill_(-torch.inf)
                row[self._eos_token_ids] = kept
            return row

        return end
