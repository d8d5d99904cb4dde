"""The built-in sampler: from logits to a token, on the kernels or on their torch twins."""

from sampler_audit.sampler.pipeline import Sampler
from sampler_audit.sampler.planted import PlantedSampler

__all__ = ["PlantedSampler", "Sampler"]
