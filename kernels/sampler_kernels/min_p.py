"""min_p alone: tokens of at least min_p times the largest probability."""

import torch

from sampler_kernels.top_k_top_p import FilterResult, apply_filters, apply_filters_torch


def apply_min_p(logits: torch.Tensor, min_p: torch.Tensor) -> FilterResult:
    """Keep tokens with z >= z_max + ln(min_p), as ``apply_filters`` does before its other filters.

    Logits are [batch, vocab_size], min_p [batch] fp32. Ties at the edge are all kept.
    """
    return apply_filters(logits, min_p=min_p)


def apply_min_p_torch(logits: torch.Tensor, min_p: torch.Tensor) -> FilterResult:
    """The twin of ``apply_min_p`` in plain torch."""
    return apply_filters_torch(logits, min_p=min_p)
