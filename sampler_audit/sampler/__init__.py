"""The built-in sampler: from logits to a token, on the kernels or on their torch twins."""

from sampler_audit.sampler.batched import BatchedSampler
from sampler_audit.sampler.pipeline import Sampler
from sampler_audit.sampler.planted import PlantedSampler
from sampler_audit.sampler.planted_player import PlantedPlayer
from sampler_audit.sampler.player import Player

__all__ = ["BatchedSampler", "PlantedPlayer", "PlantedSampler", "Player", "Sampler"]
