"""AdapterLogitsProcessor: runs functions of one request's row as a batch-level logits processor."""

import inspect
from abc import abstractmethod
from collections.abc import Callable
from functools import partial

import torch

from sampler_audit.sampler.processors.batch_level import (
    BatchLogitsProcessor,
    BatchUpdate,
    update_rows,
)
from sampler_audit.sampler.processors.engine_config import EngineConfig
from sampler_audit.sampler.processors.errors import checked_logits
from sampler_scenarios.params import SamplingParams

RequestLogitsProcessor = Callable[..., torch.Tensor]
"""``(output_token_ids, row)`` or ``(prompt_token_ids, output_token_ids, row)`` to the row's logits,
float32 ``[vocab_size]``, changed in place or in a new tensor."""


class AdapterLogitsProcessor(BatchLogitsProcessor):
    """Gives each request that wants one a function of its own, called with its row every step.

    A subclass says which function, and ``is_argmax_invariant``; its ``__init__``, if it has one,
    must call this one.
    """

    def __init__(self, config: EngineConfig, device: torch.device, is_pin_memory: bool) -> None:
        super().__init__(config, device, is_pin_memory)
        self._functions: dict[int, Callable[[torch.Tensor], torch.Tensor]] = {}

    @abstractmethod
    def new_req_logits_processor(self, params: SamplingParams) -> RequestLogitsProcessor | None:
        """The function for a request with these parameters; None leaves its logits alone."""

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Make functions for added requests and move the others with their rows.

        Raises:
            ValueError: a function of three parameters where the prompt is not known, or one of
                neither two nor three.
        """
        update_rows(self._functions, batch_update, self._bind)

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """Every function on its own row, in place.

        Raises:
            ProcessorMisbehaved: a function returned something else than the logits of its row.
        """
        for index, process in self._functions.items():
            row = logits[index]
            processed = process(row)
            if processed is not row:
                logits[index] = checked_logits(
                    processed, row, f"a function of {type(self).__name__}"
                )
        return logits

    def _bind(
        self,
        params: SamplingParams,
        prompt_token_ids: list[int] | None,
        output_token_ids: list[int],
    ) -> Callable[[torch.Tensor], torch.Tensor] | None:
        process = self.new_req_logits_processor(params)
        if process is None:
            return None
        n_parameters = len(inspect.signature(process).parameters)
        if n_parameters == 2:
            return partial(process, output_token_ids)
        if n_parameters != 3:
            raise ValueError(
                f"a function of {type(self).__name__} must take (output_token_ids, row) or "
                f"(prompt_token_ids, output_token_ids, row), got {n_parameters} parameters"
            )
        if prompt_token_ids is None:
            raise ValueError(
                f"a function of {type(self).__name__} takes (prompt_token_ids, output_token_ids, "
                "row), but the token ids of this request's prompt are not known; admit it with "
                "token ids, or return a function of (output_token_ids, row)"
            )
        return partial(process, prompt_token_ids, output_token_ids)
