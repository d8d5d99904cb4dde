"""Decides a compact row on chip: top_k and top_p from its few unmasked tokens.

The search builds the cut key bit by bit from the top, by exact counts or masses of the tokens at
or above a candidate; 32 steps end on a key that occurs. Rows of the radix path are left alone.
"""

import torch

from sampler_kernels._fixed_point import target_mass, weight
from sampler_kernels._keys import logit_of_key, ordered_key
from sampler_kernels._rows import (
    ALL_TIES,
    COMPACT,
    CUT_KEY,
    N_FINITE,
    PATH,
    ROW_FIELDS,
    TIE_ID,
    Z_MAX_KEY,
    Rows,
    is_kept,
)
from sampler_kernels._triton import ADD, jit, launch, tl


def decide_compact_rows(
    rows: Rows, top_k: torch.Tensor, top_p: torch.Tensor, *, keep_all: bool
) -> None:
    """Narrow the kept prefix of every compact row by top_k, then by top_p."""
    launch(
        _decide_compact_kernel,
        (rows.state.shape[0],),
        rows.kept_logits,
        rows.kept_ids,
        top_k,
        top_p,
        rows.state,
        KEEP_ALL=keep_all,
        CAPACITY=rows.capacity,
    )


@jit
def _largest_reaching(key: tl.tensor, amount: tl.tensor, wanted: tl.tensor) -> tl.tensor:
    """Largest key c such that the amounts of the tokens with key >= c sum to at least wanted."""
    cut_key = tl.full([], 0, tl.uint32)
    bit = tl.full([], 0x80000000, tl.uint32)
    for _ in range(32):
        candidate = cut_key | bit
        reached = tl.reduce(tl.where(key >= candidate, amount, 0), 0, ADD)
        cut_key = tl.where(reached >= wanted, candidate, cut_key)
        bit = bit >> 1
    return cut_key


@jit
def _last_of(token_ids: tl.tensor, ties: tl.tensor, n_wanted: tl.tensor) -> tl.tensor:
    """Token id of the n_wanted-th tie; token ids ascend along the tile."""
    rank = tl.cumsum(ties.to(tl.int32), 0)
    return tl.max(tl.where(ties & (rank <= n_wanted), token_ids, -1), 0)


@jit
def decide_compact(
    kept_logits_ptr: tl.tensor,
    kept_ids_ptr: tl.tensor,
    n_finite: tl.tensor,
    z_max: tl.tensor,
    k: tl.tensor,
    p: tl.tensor,
    cut_key: tl.tensor,
    tie_id: tl.tensor,
    KEEP_ALL: tl.constexpr,
    CAPACITY: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """The prefix (cut_key, tie_id) of one compact row narrowed by top_k, then by top_p."""
    lanes = tl.arange(0, CAPACITY)
    filled = lanes < n_finite
    z = tl.load(kept_logits_ptr + lanes, filled, other=-float("inf"))
    token_ids = tl.load(kept_ids_ptr + lanes, filled, other=ALL_TIES)
    key = ordered_key(z)
    if (k > 0) & (k < n_finite):
        n_wanted = k.to(tl.int32)
        kth_key = _largest_reaching(key, tl.full([CAPACITY], 1, tl.int32), n_wanted)
        if kth_key >= cut_key:
            cut_key = kth_key
            if not KEEP_ALL:
                n_above = tl.sum((key > kth_key).to(tl.int32), 0)
                tie_id = _last_of(token_ids, key == kth_key, n_wanted - n_above)
    if p < 1.0:
        survives = is_kept(key, token_ids, cut_key, tie_id)
        mass = tl.where(survives, weight(z, z_max), 0)
        wanted = target_mass(p, tl.sum(mass, 0))
        cut_key = _largest_reaching(key, mass, wanted)
        if KEEP_ALL:
            tie_id = tl.full([], ALL_TIES, tl.int32)
        else:
            above = tl.sum(tl.where(key > cut_key, mass, 0), 0)
            each = weight(logit_of_key(cut_key), z_max)
            n_wanted = ((wanted - above + each - 1) // each).to(tl.int32)
            # Surviving ties are the lowest ids of their key: its n-th is the n-th of all.
            tie_id = _last_of(token_ids, key == cut_key, n_wanted)
    return cut_key, tie_id


@jit
def _decide_compact_kernel(
    kept_logits_ptr: tl.tensor,
    kept_ids_ptr: tl.tensor,
    top_k_ptr: tl.tensor,
    top_p_ptr: tl.tensor,
    state_ptr: tl.tensor,
    KEEP_ALL: tl.constexpr,
    CAPACITY: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    state = state_ptr + row * ROW_FIELDS
    n_finite = tl.load(state + N_FINITE)
    if (tl.load(state + PATH) == COMPACT) & (n_finite > 0):
        cut_key, tie_id = decide_compact(
            kept_logits_ptr + row * CAPACITY,
            kept_ids_ptr + row * CAPACITY,
            n_finite,
            logit_of_key(tl.load(state + Z_MAX_KEY).to(tl.uint32)),
            tl.load(top_k_ptr + row),
            tl.load(top_p_ptr + row),
            tl.load(state + CUT_KEY).to(tl.uint32),
            tl.load(state + TIE_ID).to(tl.int32),
            KEEP_ALL,
            CAPACITY,
        )
        tl.store(state + CUT_KEY, cut_key.to(tl.int64))
        tl.store(state + TIE_ID, tie_id.to(tl.int64))
