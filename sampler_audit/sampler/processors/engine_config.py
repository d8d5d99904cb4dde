"""EngineConfig: what a custom logits processor is told, at construction, of the engine around it.

Its first fields are ours; the properties answer what classes written for vLLM ask of a VllmConfig.
"""

from dataclasses import dataclass

import torch

from sampler_scenarios.requests import ModelConfig


@dataclass(frozen=True)
class EngineModelConfig:
    """The model, as vLLM's ``model_config`` tells it."""

    max_model_len: int
    vocab_size: int

    def get_vocab_size(self) -> int:
        """Width of a row of logits."""
        return self.vocab_size


@dataclass(frozen=True)
class SchedulerConfig:
    """The batch, as vLLM's ``scheduler_config`` tells it."""

    max_num_seqs: int


@dataclass(frozen=True)
class SpeculativeConfig:
    """Speculative decoding, as vLLM's ``speculative_config`` tells it."""

    num_speculative_tokens: int


@dataclass(frozen=True)
class DeviceConfig:
    """The device, as vLLM's ``device_config`` tells it."""

    device: torch.device


@dataclass(frozen=True, kw_only=True)
class EngineConfig:
    """What stays the same for the life of a sampler.

    Attributes:
        model: The facts about the model.
        max_requests: How many slots there are.
        max_drafts: The most draft tokens of a request in a step; 0 without speculative decoding.
        device: Where logits lie.
    """

    model: ModelConfig
    max_requests: int
    max_drafts: int
    device: torch.device

    @property
    def model_config(self) -> EngineModelConfig:
        """``model`` in vLLM's words."""
        return EngineModelConfig(self.model.max_model_len, self.model.vocab_size)

    @property
    def scheduler_config(self) -> SchedulerConfig:
        """``max_requests`` in vLLM's words."""
        return SchedulerConfig(self.max_requests)

    @property
    def speculative_config(self) -> SpeculativeConfig | None:
        """``max_drafts`` in vLLM's words: None without speculative decoding."""
        return SpeculativeConfig(self.max_drafts) if self.max_drafts else None

    @property
    def device_config(self) -> DeviceConfig:
        """``device`` in vLLM's words."""
        return DeviceConfig(self.device)
