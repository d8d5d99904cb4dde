"""Decides a row of any size and any bit pattern: three sweeps of 2048 bins for each filter.

A digit of the keys is histogrammed by count (top_k) or by mass (top_p), the digit of the cut is
read off, and the next sweep looks only at tokens that share it. The digits are bits 31-21, 20-10
and 10-0; the bit that two of them share is known by then and harms nothing. It ends after three
digits for constant, sparse and adversarial rows alike. Compact rows are left alone.
"""

import torch

from sampler_kernels._fixed_point import target_mass, weight
from sampler_kernels._keys import load_logits, logit_of_key, ordered_key
from sampler_kernels._rows import (
    ALL_TIES,
    CUT_KEY,
    N_FINITE,
    PATH,
    RADIX,
    ROW_FIELDS,
    TIE_ID,
    Z_MAX_KEY,
    Rows,
    is_kept,
)
from sampler_kernels._triton import jit, launch, tl

N_BINS = 2048
_N_BINS = tl.constexpr(N_BINS)
_DIGIT = tl.constexpr(N_BINS - 1)


def radix_top_k(
    logits: torch.Tensor, rows: Rows, top_k: torch.Tensor, *, keep_all: bool, block_size: int
) -> None:
    """Narrow the kept prefix of every radix row to its first k tokens."""
    batch, vocab_size = logits.shape
    launch(
        _radix_top_k_kernel,
        (batch,),
        logits,
        logits.stride(0),
        vocab_size,
        top_k,
        rows.state,
        KEEP_ALL=keep_all,
        BLOCK_SIZE=block_size,
    )


def radix_top_p(
    logits: torch.Tensor, rows: Rows, top_p: torch.Tensor, *, keep_all: bool, block_size: int
) -> None:
    """Narrow the kept prefix of every radix row to its nucleus of mass p."""
    batch, vocab_size = logits.shape
    launch(
        _radix_top_p_kernel,
        (batch,),
        logits,
        logits.stride(0),
        vocab_size,
        top_p,
        torch.empty((batch, N_BINS), dtype=torch.int64, device=logits.device),
        rows.state,
        KEEP_ALL=keep_all,
        BLOCK_SIZE=block_size,
    )


@jit
def _find_digit(
    histogram: tl.tensor, wanted: tl.tensor, above: tl.tensor
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """The largest digit that reaches wanted, the amount above it, and the amount in it."""
    digits = tl.arange(0, _N_BINS)
    reached = above + tl.cumsum(histogram, 0, reverse=True)
    digit = tl.max(tl.where(reached >= wanted, digits, 0), 0)
    above += tl.sum(tl.where(digits > digit, histogram, 0), 0)
    inside = tl.sum(tl.where(digits == digit, histogram, 0), 0)
    return digit.to(tl.uint32), above, inside


@jit
def _find_tie(
    row_ptr: tl.tensor,
    vocab_size: tl.tensor,
    cut_key: tl.tensor,
    n_wanted: tl.tensor,
    BLOCK_SIZE: tl.constexpr,
) -> tl.tensor:
    """Token id of the n_wanted-th token, by id, whose key is cut_key."""
    tie_id = tl.full([], -1, tl.int32)
    n_seen = tl.full([], 0, tl.int32)
    start = tl.full([], 0, tl.int32)
    while (start < vocab_size) & (n_seen < n_wanted):
        token_ids = start + tl.arange(0, BLOCK_SIZE)
        ties = ordered_key(load_logits(row_ptr, token_ids, vocab_size)) == cut_key
        rank = n_seen + tl.cumsum(ties.to(tl.int32), 0)
        tie_id = tl.maximum(tie_id, tl.max(tl.where(ties & (rank <= n_wanted), token_ids, -1), 0))
        n_seen += tl.sum(ties.to(tl.int32), 0)
        start += BLOCK_SIZE
    return tie_id


@jit
def _radix_top_k_kernel(
    logits_ptr: tl.tensor,
    row_stride: tl.tensor,
    vocab_size: tl.tensor,
    top_k_ptr: tl.tensor,
    state_ptr: tl.tensor,
    KEEP_ALL: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    row_ptr = logits_ptr + row * row_stride
    state = state_ptr + row * ROW_FIELDS
    k = tl.load(top_k_ptr + row)
    if (tl.load(state + PATH) == RADIX) & (k > 0) & (k < tl.load(state + N_FINITE)):
        n_wanted = k.to(tl.int32)
        above = tl.full([], 0, tl.int32)
        n_ties = tl.full([], 0, tl.int32)
        kth_key = tl.full([], 0, tl.uint32)
        known = tl.full([], 0, tl.uint32)
        shift = tl.full([], 21, tl.uint32)
        for _ in range(3):
            histogram = tl.zeros([_N_BINS], tl.int32)
            for start in range(0, vocab_size, BLOCK_SIZE):
                token_ids = start + tl.arange(0, BLOCK_SIZE)
                key = ordered_key(load_logits(row_ptr, token_ids, vocab_size))
                digit = ((key >> shift) & _DIGIT).to(tl.int32)
                histogram += tl.histogram(digit, _N_BINS, mask=(key & known) == kth_key)
            found, above, n_ties = _find_digit(histogram, n_wanted, above)
            kth_key |= found << shift
            known |= tl.full([], _DIGIT, tl.uint32) << shift
            shift = tl.where(shift > 11, shift - 11, 0).to(tl.uint32)
        if kth_key >= tl.load(state + CUT_KEY).to(tl.uint32):
            tie_id = tl.full([], ALL_TIES, tl.int32)
            if not KEEP_ALL:
                if n_wanted - above < n_ties:
                    tie_id = _find_tie(row_ptr, vocab_size, kth_key, n_wanted - above, BLOCK_SIZE)
            tl.store(state + CUT_KEY, kth_key.to(tl.int64))
            tl.store(state + TIE_ID, tie_id.to(tl.int64))


@jit
def _radix_top_p_kernel(
    logits_ptr: tl.tensor,
    row_stride: tl.tensor,
    vocab_size: tl.tensor,
    top_p_ptr: tl.tensor,
    bins_ptr: tl.tensor,
    state_ptr: tl.tensor,
    KEEP_ALL: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    row_ptr = logits_ptr + row * row_stride
    state = state_ptr + row * ROW_FIELDS
    p = tl.load(top_p_ptr + row)
    if (tl.load(state + PATH) == RADIX) & (p < 1.0) & (tl.load(state + N_FINITE) > 0):
        z_max = logit_of_key(tl.load(state + Z_MAX_KEY).to(tl.uint32))
        old_cut = tl.load(state + CUT_KEY).to(tl.uint32)
        old_tie = tl.load(state + TIE_ID).to(tl.int32)
        total = tl.full([], 0, tl.int64)
        for start in range(0, vocab_size, BLOCK_SIZE):
            token_ids = start + tl.arange(0, BLOCK_SIZE)
            z = load_logits(row_ptr, token_ids, vocab_size)
            survives = is_kept(ordered_key(z), token_ids, old_cut, old_tie)
            total += tl.sum(tl.where(survives, weight(z, z_max), 0), 0)
        wanted = target_mass(p, total)
        bins = bins_ptr + row * _N_BINS + tl.arange(0, _N_BINS)
        above = tl.full([], 0, tl.int64)
        inside = tl.full([], 0, tl.int64)
        cut_key = tl.full([], 0, tl.uint32)
        known = tl.full([], 0, tl.uint32)
        shift = tl.full([], 21, tl.uint32)
        for _ in range(3):
            tl.store(bins, tl.zeros([_N_BINS], tl.int64))
            tl.debug_barrier()
            for start in range(0, vocab_size, BLOCK_SIZE):
                token_ids = start + tl.arange(0, BLOCK_SIZE)
                z = load_logits(row_ptr, token_ids, vocab_size)
                key = ordered_key(z)
                counts = is_kept(key, token_ids, old_cut, old_tie) & ((key & known) == cut_key)
                mass = weight(z, z_max)
                digit = ((key >> shift) & _DIGIT).to(tl.int32)
                tl.atomic_add(
                    bins_ptr + row * _N_BINS + digit, mass, mask=counts & (mass > 0), sem="relaxed"
                )
            tl.debug_barrier()
            histogram = tl.load(bins)
            tl.debug_barrier()
            found, above, inside = _find_digit(histogram, wanted, above)
            cut_key |= found << shift
            known |= tl.full([], _DIGIT, tl.uint32) << shift
            shift = tl.where(shift > 11, shift - 11, 0).to(tl.uint32)
        # Surviving ties are the lowest ids of their key, so the n-th of them is the n-th of all.
        tie_id = tl.where(cut_key == old_cut, old_tie, ALL_TIES)
        if not KEEP_ALL:
            each = weight(logit_of_key(cut_key), z_max)
            n_wanted = (wanted - above + each - 1) // each
            if n_wanted * each < inside:
                tie_id = _find_tie(row_ptr, vocab_size, cut_key, n_wanted.to(tl.int32), BLOCK_SIZE)
        tl.store(state + CUT_KEY, cut_key.to(tl.int64))
        tl.store(state + TIE_ID, tie_id.to(tl.int64))
