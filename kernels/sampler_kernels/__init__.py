"""Exact sampling kernels in Triton, each with a torch twin that gives the same bits.

It imports nothing else of this project. On a GPU the kernels are compiled; without one they run
under Triton's interpreter, which importing this package first is enough to choose.
"""

from sampler_kernels._fixed_point import MAX_VOCAB_SIZE, mass_error
from sampler_kernels._race import EXPONENTIAL_ERROR, SCORE_ERROR, UNIFORM_ERROR
from sampler_kernels._rows import (
    FLAG_ALL_MASKED,
    FLAG_NAN,
    FLAG_POSITIVE_INFINITY,
    PATH_COMPACT,
    PATH_RADIX,
    PATH_SORT,
)
from sampler_kernels._triton import (
    INTERPRETED,
    InterpreterUnsupported,
    describe_device,
    launch_obstacle,
)
from sampler_kernels.gumbel import gumbel_draw, gumbel_draw_torch
from sampler_kernels.min_p import apply_min_p, apply_min_p_torch
from sampler_kernels.temperature import apply_temperature, apply_temperature_torch
from sampler_kernels.top_k_top_p import FilterResult, Path, Ties, apply_filters, apply_filters_torch

__all__ = [
    "EXPONENTIAL_ERROR",
    "FLAG_ALL_MASKED",
    "FLAG_NAN",
    "FLAG_POSITIVE_INFINITY",
    "INTERPRETED",
    "MAX_VOCAB_SIZE",
    "PATH_COMPACT",
    "PATH_RADIX",
    "PATH_SORT",
    "SCORE_ERROR",
    "UNIFORM_ERROR",
    "FilterResult",
    "InterpreterUnsupported",
    "Path",
    "Ties",
    "apply_filters",
    "apply_filters_torch",
    "apply_min_p",
    "apply_min_p_torch",
    "apply_temperature",
    "apply_temperature_torch",
    "describe_device",
    "gumbel_draw",
    "gumbel_draw_torch",
    "launch_obstacle",
    "mass_error",
]
