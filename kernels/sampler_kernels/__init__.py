"""Exact sampling kernels in Triton, each with a torch twin that gives the same bits.

It imports nothing else of this project. On a GPU the kernels are compiled; without one they run
under Triton's interpreter, which importing this package first is enough to choose.
"""

from sampler_kernels._fixed_point import MAX_VOCAB_SIZE, mass_error
from sampler_kernels._noise import NOISES, Noise
from sampler_kernels._philox import (
    ACCEPTANCE_DOMAIN,
    DRAFT_DOMAIN,
    DRAW_DOMAIN,
    RESIDUAL_DOMAIN,
)
from sampler_kernels._race import EXPONENTIAL_ERROR, SCORE_ERROR, UNIFORM_ERROR
from sampler_kernels._race_fp64 import SCORE_ERROR_FP64
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
from sampler_kernels.allowed_token_ids import apply_allowed_token_ids, apply_allowed_token_ids_torch
from sampler_kernels.bad_words import apply_bad_words, apply_bad_words_torch
from sampler_kernels.bitmask import apply_bitmask, apply_bitmask_torch
from sampler_kernels.filter_and_draw import (
    DrawResult,
    filter_and_draw,
    filter_and_draw_torch,
)
from sampler_kernels.gumbel import gumbel_draw, gumbel_draw_torch
from sampler_kernels.history import History
from sampler_kernels.log_probs import (
    log_probs_of,
    log_probs_of_torch,
    ranks_of,
    ranks_of_torch,
    row_log_sum,
    row_log_sum_torch,
    top_log_probs,
    top_log_probs_torch,
    top_token_ids,
    top_token_ids_torch,
)
from sampler_kernels.logit_bias import apply_logit_bias, apply_logit_bias_torch
from sampler_kernels.min_p import apply_min_p, apply_min_p_torch
from sampler_kernels.min_tokens import apply_min_tokens, apply_min_tokens_torch
from sampler_kernels.penalties import apply_penalties, apply_penalties_torch
from sampler_kernels.temperature import apply_temperature, apply_temperature_torch
from sampler_kernels.thinking_budget import (
    FORCED_LOGIT,
    apply_thinking_budget,
    apply_thinking_budget_torch,
)
from sampler_kernels.token_counts import (
    add_output_tokens,
    add_output_tokens_torch,
    rebuild_token_counts,
    rebuild_token_counts_torch,
)
from sampler_kernels.top_k_top_p import (
    FilterResult,
    MinPArithmetic,
    Path,
    Ties,
    apply_filters,
    apply_filters_torch,
)
from sampler_kernels.verify import Verified, VerifyMethod, verify_drafts, verify_drafts_torch

__all__ = [
    "ACCEPTANCE_DOMAIN",
    "DRAFT_DOMAIN",
    "DRAW_DOMAIN",
    "EXPONENTIAL_ERROR",
    "FLAG_ALL_MASKED",
    "FLAG_NAN",
    "FLAG_POSITIVE_INFINITY",
    "FORCED_LOGIT",
    "INTERPRETED",
    "MAX_VOCAB_SIZE",
    "NOISES",
    "PATH_COMPACT",
    "PATH_RADIX",
    "PATH_SORT",
    "RESIDUAL_DOMAIN",
    "SCORE_ERROR",
    "SCORE_ERROR_FP64",
    "UNIFORM_ERROR",
    "DrawResult",
    "FilterResult",
    "History",
    "InterpreterUnsupported",
    "MinPArithmetic",
    "Noise",
    "Path",
    "Ties",
    "Verified",
    "VerifyMethod",
    "add_output_tokens",
    "add_output_tokens_torch",
    "apply_allowed_token_ids",
    "apply_allowed_token_ids_torch",
    "apply_bad_words",
    "apply_bad_words_torch",
    "apply_bitmask",
    "apply_bitmask_torch",
    "apply_filters",
    "apply_filters_torch",
    "apply_logit_bias",
    "apply_logit_bias_torch",
    "apply_min_p",
    "apply_min_p_torch",
    "apply_min_tokens",
    "apply_min_tokens_torch",
    "apply_penalties",
    "apply_penalties_torch",
    "apply_temperature",
    "apply_temperature_torch",
    "apply_thinking_budget",
    "apply_thinking_budget_torch",
    "describe_device",
    "filter_and_draw",
    "filter_and_draw_torch",
    "gumbel_draw",
    "gumbel_draw_torch",
    "launch_obstacle",
    "log_probs_of",
    "log_probs_of_torch",
    "mass_error",
    "ranks_of",
    "ranks_of_torch",
    "rebuild_token_counts",
    "rebuild_token_counts_torch",
    "row_log_sum",
    "row_log_sum_torch",
    "top_log_probs",
    "top_log_probs_torch",
    "top_token_ids",
    "top_token_ids_torch",
    "verify_drafts",
    "verify_drafts_torch",
]
