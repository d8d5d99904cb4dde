"""Slot-level logits processors: their base class, and what the sampler shows them of its state.

Methods and fields are called as in vLLM's Model Runner V2 (v1/worker/gpu/sample/logits_processor,
since 0.31.0), so that a class written for it runs here.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from sampler_audit.sampler.processors.engine_config import EngineConfig
from sampler_scenarios.params import SamplingParams


@dataclass(frozen=True, eq=False)
class SlotBuffer:
    """A tensor of the sampler's with one row a slot: it changes in place, and only the sampler may.

    ``gpu`` is the tensor itself, on the sampler's device whichever that is.
    """

    gpu: torch.Tensor

    @property
    def cpu(self) -> torch.Tensor:
        """Its present content on the host."""
        return self.gpu.cpu()

    @property
    def np(self) -> NDArray[np.generic]:
        """The same as an array."""
        content: NDArray[np.generic] = self.cpu.numpy()
        return content


@dataclass(frozen=True, eq=False)
class RequestStates:
    """What the sampler knows of every slot: read when needed, always current, never written to.

    Attributes:
        device: Where logits and these buffers lie.
        max_num_reqs: How many slots there are.
        vocab_size: Width of a row of logits.
        all_token_ids: int32 ``[max_num_reqs, max_model_len]``, prompt and output of each slot; what
            lies beyond ``total_len`` is undefined.
        prompt_len: int32 ``[max_num_reqs]``.
        prefill_len: int32 ``[max_num_reqs]``, the prompt and what a resumed request had emitted.
        total_len: int32 ``[max_num_reqs]``, prompt and output. Without this step's drafts.
    """

    device: torch.device
    max_num_reqs: int
    vocab_size: int
    all_token_ids: SlotBuffer
    prompt_len: SlotBuffer
    prefill_len: SlotBuffer
    total_len: SlotBuffer


@dataclass(frozen=True, eq=False)
class Context:
    """The layout of one step. A request has one row, and one more for each of its drafts.

    Attributes:
        expanded_idx_mapping: int32 ``[n_rows]``, the slot of each row.
        idx_mapping: int32 ``[n_requests]``, the slot of each request.
        idx_mapping_np: The same on the host.
        expanded_local_pos: int32 ``[n_rows]``, the index of a row among those of its request: how
            many drafts come before it.
        input_ids: int32 ``[n_rows]``, the token that each row follows: the last token of the
            request at local position 0, draft j at local position j.
        pos: int64 ``[n_rows]``, the position of that token; what is drawn next has ``pos + 1``.
        seq_lens_upper_bound_np: int32 ``[n_requests]``, the most tokens that a row of the request
            may look back on; exact without drafts.
    """

    expanded_idx_mapping: torch.Tensor
    idx_mapping: torch.Tensor
    idx_mapping_np: NDArray[np.int32]
    expanded_local_pos: torch.Tensor
    input_ids: torch.Tensor
    pos: torch.Tensor
    seq_lens_upper_bound_np: NDArray[np.int32]


class LogitsProcessor(ABC):
    """A custom stage with state by slot: after bad words, before thinking budget and temperature.

    Slots are used again without notice, so ``add_request`` must overwrite all that a slot held.
    """

    def __init__(self, config: EngineConfig, states: RequestStates) -> None:
        self.config = config
        self.states = states

    @classmethod
    def validate_params(cls, params: SamplingParams) -> None:  # noqa: ARG003 - for subclasses
        """Look at a request before it is admitted; the default accepts all.

        Raises:
            ValueError: the processor cannot work with these parameters; the request is refused.
        """
        return

    def add_request(self, slot: int, params: SamplingParams) -> bool:  # noqa: ARG002 - the same
        """Take a request into a slot; whether its logits are to be changed."""
        return True

    def apply_staged_writes(self) -> None:
        """Bring what ``add_request`` left on the host to the device; once a step, before apply."""
        return

    @abstractmethod
    def apply(self, logits: torch.Tensor, context: Context) -> torch.Tensor:
        """The logits, float32 ``[n_rows, vocab_size]``, changed in place or in a new tensor.

        Called when at least one request of the step said yes, with the rows of all: find one's
        own through ``context.expanded_idx_mapping``. The order of rows differs from step to step.
        """
