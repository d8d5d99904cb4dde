"""The filters min_p, top_k and top_p, exactly, in any mix of rows: masked logits out.

What is kept does not depend on batch, row, stride, tile size or device. It knows no request and no
sampling parameters class: values come as one tensor a filter, one value a row.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import torch

from sampler_kernels._arguments import (
    check_choice,
    check_kernel_device,
    check_logits,
    check_vector,
    choose_block_size,
)
from sampler_kernels._compact import decide_compact_rows
from sampler_kernels._fixed_point import target_mass_torch, weight_torch
from sampler_kernels._keys import (
    LOWEST_FINITE_KEY,
    canonical_logits_torch,
    load_logits,
    ordered_key,
    ordered_key_torch,
)
from sampler_kernels._radix import radix_top_k, radix_top_p
from sampler_kernels._rows import (
    CUT_KEY,
    DEFAULT_BLOCK_SIZE,
    FLAG_ALL_MASKED,
    FLAG_NAN,
    FLAG_POSITIVE_INFINITY,
    PATH_SORT,
    ROW_FIELDS,
    TIE_ID,
    Rows,
    is_kept,
    scan_rows,
)
from sampler_kernels._triton import jit, launch, tl

Ties = Literal["by_id", "keep_all"]
Path = Literal["auto", "radix"]
MinPArithmetic = Literal["float64", "float32"]


@dataclass(frozen=True, eq=False)
class FilterResult:
    """Masked logits and what was found on the way.

    Attributes:
        logits: ``[batch, vocab_size]`` of the input's dtype: the input's value where the token is
            kept, -inf elsewhere.
        n_kept: ``[batch]`` int64.
        flags: ``[batch]`` int32, FLAG_* bits: NaN was there (and is masked), +inf was there (and
            counts as FLT_MAX), nothing was there to keep.
        path: ``[batch]`` int32, PATH_*: how the row was decided.
    """

    logits: torch.Tensor
    n_kept: torch.Tensor
    flags: torch.Tensor
    path: torch.Tensor


def apply_filters(
    logits: torch.Tensor,
    *,
    top_k: torch.Tensor | None = None,
    top_p: torch.Tensor | None = None,
    min_p: torch.Tensor | None = None,
    ties: Ties = "by_id",
    min_p_arithmetic: MinPArithmetic = "float64",
    path: Path = "auto",
    block_size: int | None = None,
) -> FilterResult:
    """Mask what min_p, then top_k, then top_p on the renormalised survivors, drop.

    Tokens are ordered by logit descending, then id ascending; each filter keeps a prefix. Logits
    are [batch, vocab_size] fp32, bf16 or fp16 with any row stride, after temperature. NaN is
    masked, +inf is FLT_MAX, both zeros are equal; a row without finite logits keeps nothing.

    Args:
        logits: Not changed.
        top_k: ``[batch]`` int32 or int64. The first k tokens; k <= 0 or k >= vocab_size is off.
        top_p: ``[batch]`` fp32, taken as its exact value. A token is kept iff the mass before it
            is < p, so the token that crosses p is kept and at least one is; p >= 1 and NaN are off.
        min_p: ``[batch]`` fp32. Tokens with z >= z_max + ln(min_p), computed in fp64: 0 is off,
            and 1 keeps the ties of the maximum. So does more than 1; less than 0 and NaN are off.
        ties: ``by_id`` cuts a group of equal logits at the edge by lowest id; ``keep_all`` keeps
            the whole group (its mass then counts for top_p).
        min_p_arithmetic: ``float32`` rounds ln(min_p) to fp32, and z_max + ln(min_p) again, as
            vllm 0.32.0 does (v1/worker/gpu/sample/min_p.py): it may move the edge by one logit.
        path: ``radix`` decides every row by radix selection, ``auto`` only those with more
            unmasked tokens than one tile holds. The result is the same.
        block_size: Tile of the sweeps. The result is the same.

    Raises:
        TypeError, ValueError: shapes, dtypes or devices do not fit together.
        InterpreterUnsupported: there is no GPU, and Triton's interpreter cannot run.
    """
    check_choice("path", path, get_args(Path))
    logits, top_k, top_p, log_min_p = check_filters(
        logits, top_k, top_p, min_p, ties, min_p_arithmetic
    )
    check_kernel_device(logits)
    keep_all = ties == "keep_all"
    block_size = choose_block_size(block_size, DEFAULT_BLOCK_SIZE, logits.shape[1])
    rows = scan_rows(
        logits,
        log_min_p,
        block_size=block_size,
        radix_only=path == "radix",
        fp32_min_p=min_p_arithmetic == "float32",
    )
    decide_compact_rows(rows, top_k, top_p, keep_all=keep_all)
    radix_top_k(logits, rows, top_k, keep_all=keep_all, block_size=block_size)
    radix_top_p(logits, rows, top_p, keep_all=keep_all, block_size=block_size)
    return _mask(logits, rows, block_size)


def apply_filters_torch(
    logits: torch.Tensor,
    *,
    top_k: torch.Tensor | None = None,
    top_p: torch.Tensor | None = None,
    min_p: torch.Tensor | None = None,
    ties: Ties = "by_id",
    min_p_arithmetic: MinPArithmetic = "float64",
) -> FilterResult:
    """The twin of ``apply_filters`` in plain torch: a stable sort and a running integer mass."""
    logits, top_k, top_p, log_min_p = check_filters(
        logits, top_k, top_p, min_p, ties, min_p_arithmetic
    )
    z = canonical_logits_torch(logits)
    keys, token_ids = ordered_key_torch(z).sort(dim=1, descending=True, stable=True)
    z = z.gather(1, token_ids)
    rank = torch.arange(logits.shape[1], device=logits.device)[None, :]

    def widened(prefix: torch.Tensor) -> torch.Tensor:
        if ties == "by_id":
            return prefix
        last = prefix.sum(1, keepdim=True).sub(1).clamp(min=0)
        return prefix | (keys == keys.gather(1, last))

    kept = keys >= _min_p_key_torch(z[:, :1], log_min_p[:, None], min_p_arithmetic)
    k = top_k.long()[:, None]
    kept &= widened(rank < k) | (k <= 0)
    weights = torch.where(kept, weight_torch(z, z[:, :1]), 0)
    before = weights.cumsum(1) - weights
    p = top_p[:, None]
    kept &= widened(before < target_mass_torch(p, weights.sum(1, keepdim=True))) | ~(p < 1)
    mask = torch.zeros_like(kept).scatter(1, token_ids, kept)
    return FilterResult(
        logits=torch.where(mask, logits, -torch.inf),
        n_kept=kept.sum(1),
        flags=_flags_torch(logits, keys[:, 0] < LOWEST_FINITE_KEY),
        path=torch.full_like(top_k, PATH_SORT, dtype=torch.int32),
    )


def check_filters(
    logits: torch.Tensor,
    top_k: torch.Tensor | None,
    top_p: torch.Tensor | None,
    min_p: torch.Tensor | None,
    ties: Ties,
    min_p_arithmetic: MinPArithmetic,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Logits, top_k, top_p and fp64 ln(min_p), with a filter that is off in place of None.

    Raises:
        TypeError, ValueError: as ``apply_filters``.
    """
    check_choice("ties", ties, get_args(Ties))
    check_choice("min_p_arithmetic", min_p_arithmetic, get_args(MinPArithmetic))
    logits = check_logits(logits)
    batch, device = logits.shape[0], logits.device
    if top_k is None:
        top_k = torch.zeros(batch, dtype=torch.int64, device=device)
    if top_p is None:
        top_p = torch.ones(batch, dtype=torch.float32, device=device)
    if min_p is None:
        min_p = torch.zeros(batch, dtype=torch.float32, device=device)
    top_k = check_vector("top_k", top_k, batch, (torch.int64, torch.int32), device)
    top_p = check_vector("top_p", top_p, batch, (torch.float32,), device)
    min_p = check_vector("min_p", min_p, batch, (torch.float32,), device)
    return logits, top_k, top_p, min_p.double().log()


def _mask(logits: torch.Tensor, rows: Rows, block_size: int) -> FilterResult:
    batch, vocab_size = logits.shape
    masked = torch.empty((batch, vocab_size), dtype=logits.dtype, device=logits.device)
    n_kept = torch.empty(batch, dtype=torch.int64, device=logits.device)
    launch(
        _mask_kernel,
        (batch,),
        logits,
        logits.stride(0),
        vocab_size,
        rows.state,
        masked,
        n_kept,
        BLOCK_SIZE=block_size,
    )
    return FilterResult(masked, n_kept, rows.flags, rows.path)


@jit
def _mask_kernel(
    logits_ptr: tl.tensor,
    row_stride: tl.tensor,
    vocab_size: tl.tensor,
    state_ptr: tl.tensor,
    masked_ptr: tl.tensor,
    n_kept_ptr: tl.tensor,
    BLOCK_SIZE: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    row_ptr = logits_ptr + row * row_stride
    state = state_ptr + row * ROW_FIELDS
    cut_key = tl.load(state + CUT_KEY).to(tl.uint32)
    tie_id = tl.load(state + TIE_ID).to(tl.int32)
    n_kept = tl.full([], 0, tl.int64)
    for start in range(0, vocab_size, BLOCK_SIZE):
        token_ids = start + tl.arange(0, BLOCK_SIZE)
        inside = token_ids < vocab_size
        key = ordered_key(load_logits(row_ptr, token_ids, vocab_size))
        kept = is_kept(key, token_ids, cut_key, tie_id)
        # The input's own value, which for a kept +inf is not the canonical one.
        x = tl.load(row_ptr + token_ids, mask=kept & inside, other=-float("inf"))
        tl.store(masked_ptr + row * vocab_size + token_ids, x, mask=inside)
        n_kept += tl.sum(kept.to(tl.int32), 0)
    tl.store(n_kept_ptr + row, n_kept)


def _min_p_key_torch(
    z_max: torch.Tensor, log_min_p: torch.Tensor, arithmetic: MinPArithmetic
) -> torch.Tensor:
    if arithmetic == "float32":
        threshold = z_max + log_min_p.float()
        key = ordered_key_torch(threshold + 0.0)
    else:
        threshold = z_max.double() + log_min_p
        rounded = threshold.float() + 0.0
        key = ordered_key_torch(rounded) + (rounded.double() < threshold)
    key = torch.where(threshold.isnan(), LOWEST_FINITE_KEY, key)
    return torch.minimum(key, ordered_key_torch(z_max)).clamp(min=LOWEST_FINITE_KEY)


def _flags_torch(logits: torch.Tensor, all_masked: torch.Tensor) -> torch.Tensor:
    return (
        logits.isnan().any(1).int() * FLAG_NAN
        + logits.isposinf().any(1).int() * FLAG_POSITIVE_INFINITY
        + all_masked.int() * FLAG_ALL_MASKED
    )
