"""What is known of each row, and the first sweep that finds it.

A filter keeps a prefix of the row's total order (logit descending, token id ascending), so every
filter and every combination of filters is one pair: the lowest key that is kept, and the highest
token id kept among the tokens of that key. The sweep here starts the pair from min_p, and copies
the unmasked tokens of a row that has few of them.
"""

from dataclasses import dataclass

import torch

from sampler_kernels._arguments import next_power_of_2
from sampler_kernels._keys import LOWEST_FINITE, canonical_logits, ordered_key
from sampler_kernels._triton import INTERPRETED, jit, launch, tl

FLAG_NAN = 1
FLAG_POSITIVE_INFINITY = 2
FLAG_ALL_MASKED = 4

PATH_COMPACT = 0
"""The unmasked tokens fit one tile: they were copied and decided on chip."""

PATH_RADIX = 1
"""Counted and weighed digit by digit over the whole row."""

PATH_SORT = 2
"""The torch twins: a stable sort."""

CAPACITY_LIMIT = 4096
"""The most unmasked tokens that a compact row may have."""

DEVICE_BLOCK_SIZE = 1024
"""The widest tile at which no kernel spills under Triton 3.6 to 3.9 (ahead_of_time)."""

DEFAULT_BLOCK_SIZE = 32768 if INTERPRETED else DEVICE_BLOCK_SIZE
"""The interpreter's cost is a call, not a lane."""

N_FIELDS = 8
_PATH, _FLAGS, _N_FINITE, _Z_MAX_KEY, _CUT_KEY, _TIE_ID = range(6)

ROW_FIELDS = tl.constexpr(N_FIELDS)
PATH = tl.constexpr(_PATH)
FLAGS = tl.constexpr(_FLAGS)
N_FINITE = tl.constexpr(_N_FINITE)
Z_MAX_KEY = tl.constexpr(_Z_MAX_KEY)
CUT_KEY = tl.constexpr(_CUT_KEY)
TIE_ID = tl.constexpr(_TIE_ID)
COMPACT = tl.constexpr(PATH_COMPACT)
RADIX = tl.constexpr(PATH_RADIX)
ALL_TIES = tl.constexpr(0x7FFFFFFF)


@dataclass(frozen=True, eq=False)
class Rows:
    """Result of the first sweep.

    Attributes:
        state: ``[batch, N_FIELDS]`` int64.
        kept_logits: ``[batch, capacity]`` fp32 canonical logits of a compact row's unmasked tokens
            by ascending token id; undefined beyond their number and for radix rows.
        kept_ids: ``[batch, capacity]`` int32, their token ids.
    """

    state: torch.Tensor
    kept_logits: torch.Tensor
    kept_ids: torch.Tensor

    @property
    def flags(self) -> torch.Tensor:
        """FLAG_* bits, ``[batch]`` int32."""
        return self.state[:, _FLAGS].int()

    @property
    def path(self) -> torch.Tensor:
        """PATH_COMPACT or PATH_RADIX, ``[batch]`` int32."""
        return self.state[:, _PATH].int()

    @property
    def capacity(self) -> int:
        """How many unmasked tokens a compact row may have."""
        return self.kept_ids.shape[1]


def scan_rows(
    logits: torch.Tensor,
    log_min_p: torch.Tensor,
    *,
    block_size: int,
    radix_only: bool = False,
    fp32_min_p: bool = False,
) -> Rows:
    """Sweep each row once; with ``radix_only`` no row takes the compact path.

    ``log_min_p`` is fp64 ``[batch]``; with ``fp32_min_p`` it and the threshold are rounded to fp32.
    """
    batch, vocab_size = logits.shape
    capacity = min(CAPACITY_LIMIT, next_power_of_2(vocab_size))
    rows = Rows(
        state=torch.empty((batch, N_FIELDS), dtype=torch.int64, device=logits.device),
        kept_logits=torch.empty((batch, capacity), dtype=torch.float32, device=logits.device),
        kept_ids=torch.empty((batch, capacity), dtype=torch.int32, device=logits.device),
    )
    launch(
        _scan_kernel,
        (batch,),
        logits,
        logits.stride(0),
        vocab_size,
        log_min_p,
        rows.kept_logits,
        rows.kept_ids,
        rows.state,
        CAPACITY=capacity,
        RADIX_ONLY=radix_only,
        FP32_MIN_P=fp32_min_p,
        BLOCK_SIZE=block_size,
    )
    return rows


@jit
def is_kept(
    key: tl.tensor, token_ids: tl.tensor, cut_key: tl.tensor, tie_id: tl.tensor
) -> tl.tensor:
    """Whether a token is in the prefix that (cut_key, tie_id) ends."""
    return (key > cut_key) | ((key == cut_key) & (token_ids <= tie_id))


@jit
def _min_p_key(z_max: tl.tensor, log_min_p: tl.tensor, FP32: tl.constexpr) -> tl.tensor:
    """Key of the least fp32 that is >= z_max + log_min_p, within the row's finite keys."""
    if FP32:
        threshold = z_max + log_min_p.to(tl.float32)
        key = ordered_key(threshold + 0.0)
    else:
        threshold = z_max.to(tl.float64) + log_min_p
        rounded = threshold.to(tl.float32) + 0.0
        key = ordered_key(rounded) + (rounded.to(tl.float64) < threshold).to(tl.uint32)
    key = tl.minimum(tl.where(threshold == threshold, key, LOWEST_FINITE), ordered_key(z_max))
    return tl.maximum(key, LOWEST_FINITE)


@jit
def _scan_kernel(
    logits_ptr: tl.tensor,
    row_stride: tl.tensor,
    vocab_size: tl.tensor,
    log_min_p_ptr: tl.tensor,
    kept_logits_ptr: tl.tensor,
    kept_ids_ptr: tl.tensor,
    state_ptr: tl.tensor,
    CAPACITY: tl.constexpr,
    RADIX_ONLY: tl.constexpr,
    FP32_MIN_P: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, BLOCK_SIZE)
    z_max_lanes = tl.full([BLOCK_SIZE], -float("inf"), tl.float32)
    has_nan = tl.zeros([BLOCK_SIZE], tl.int32)
    has_inf = tl.zeros([BLOCK_SIZE], tl.int32)
    n_finite = tl.full([], 0, tl.int32)
    for start in range(0, vocab_size, BLOCK_SIZE):
        token_ids = start + lanes
        x = tl.load(
            logits_ptr + row * row_stride + token_ids,
            mask=token_ids < vocab_size,
            other=-float("inf"),
        ).to(tl.float32)
        has_nan |= (x != x).to(tl.int32)
        has_inf |= (x == float("inf")).to(tl.int32)
        z = canonical_logits(x)
        z_max_lanes = tl.maximum(z_max_lanes, z)
        finite = (z > -float("inf")).to(tl.int32)
        n_in_tile = tl.sum(finite, 0)
        if not RADIX_ONLY:
            # A row that has overflowed is not compact; its later tiles need no ranks.
            if (n_in_tile > 0) & (n_finite <= CAPACITY):
                rank = n_finite + tl.cumsum(finite, 0) - 1
                fits = (finite > 0) & (rank < CAPACITY)
                tl.store(kept_logits_ptr + row * CAPACITY + rank, z, mask=fits)
                tl.store(kept_ids_ptr + row * CAPACITY + rank, token_ids, mask=fits)
        n_finite += n_in_tile
    z_max = tl.max(z_max_lanes, 0)
    all_masked = (n_finite == 0).to(tl.int32)
    flags = tl.max(has_nan, 0) + 2 * tl.max(has_inf, 0) + 4 * all_masked
    compact = n_finite <= CAPACITY
    if RADIX_ONLY:
        compact = n_finite < 0
    state = state_ptr + row * ROW_FIELDS
    tl.store(state + PATH, tl.where(compact, COMPACT, RADIX))
    tl.store(state + FLAGS, flags)
    tl.store(state + N_FINITE, n_finite)
    tl.store(state + Z_MAX_KEY, ordered_key(z_max).to(tl.int64))
    cut_key = _min_p_key(z_max, tl.load(log_min_p_ptr + row), FP32_MIN_P)
    tl.store(state + CUT_KEY, cut_key.to(tl.int64))
    tl.store(state + TIE_ID, tl.full([], ALL_TIES, tl.int64))
