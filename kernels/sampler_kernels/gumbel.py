"""Draws a token of a row's softmax law, the same one wherever and with whomever the row stands.

A draw depends on the row's logits and on (seed, position, token id) only: never on the batch, the
row's place in it, a token's rank, or a tile. It filters nothing: masked logits are -inf.
"""

import torch

from sampler_kernels._arguments import (
    check_kernel_device,
    check_logits,
    check_vector,
    choose_block_size,
)
from sampler_kernels._keys import canonical_logits_torch, load_logits, logit_of_key
from sampler_kernels._philox import pair_bits_torch, token_bits
from sampler_kernels._race import (
    exponential,
    exponential_torch,
    inverse_weight_torch,
    score,
    uniform,
    uniform_torch,
)
from sampler_kernels._rows import (
    COMPACT,
    DEFAULT_BLOCK_SIZE,
    DEVICE_BLOCK_SIZE,
    N_FINITE,
    PATH,
    ROW_FIELDS,
    Z_MAX_KEY,
    scan_rows,
)
from sampler_kernels._triton import INTERPRETED, jit, launch, tl

DRAW_BLOCK_SIZE = 4096 if INTERPRETED else DEVICE_BLOCK_SIZE

CHUNK_ELEMENTS = 1 << 14
"""Noise pairs that the twin computes at once: the working set stays in a core's cache."""

NO_TOKEN = -1


def gumbel_draw(
    logits: torch.Tensor,
    seeds: torch.Tensor,
    positions: torch.Tensor,
    rows: torch.Tensor | None = None,
    *,
    block_size: int | None = None,
) -> torch.Tensor:
    """One token id for each (seed, position), ``[n]`` int64; -1 where the row is all masked.

    Logits are [n_rows, vocab_size] fp32, bf16 or fp16 with any row stride; NaN is masked, +inf is
    FLT_MAX. ``seeds`` and ``positions`` are [n] int64, all 64 bits of which count. Draw i is of
    row ``rows[i]`` ([n] int64), or of row i; a row number out of range draws -1.

    Raises:
        TypeError, ValueError: shapes, dtypes or devices do not fit together.
        InterpreterUnsupported: there is no GPU, and Triton's interpreter cannot run.
    """
    logits, seeds, positions, rows = _check(logits, seeds, positions, rows)
    check_kernel_device(logits)
    n_rows, vocab_size = logits.shape
    scanned = scan_rows(
        logits,
        torch.full((n_rows,), -torch.inf, dtype=torch.float64, device=logits.device),
        block_size=choose_block_size(block_size, DEFAULT_BLOCK_SIZE, vocab_size),
    )
    token_ids = torch.empty_like(seeds)
    launch(
        _draw_kernel,
        seeds.shape,
        logits,
        logits.stride(0),
        vocab_size,
        n_rows,
        scanned.kept_logits,
        scanned.kept_ids,
        scanned.state,
        rows,
        seeds,
        positions,
        token_ids,
        CAPACITY=scanned.capacity,
        BLOCK_SIZE=choose_block_size(block_size, DRAW_BLOCK_SIZE, vocab_size),
    )
    return token_ids


def gumbel_draw_torch(
    logits: torch.Tensor,
    seeds: torch.Tensor,
    positions: torch.Tensor,
    rows: torch.Tensor | None = None,
) -> torch.Tensor:
    """The twin of ``gumbel_draw`` in plain torch, and the fast way to draw in bulk on a CPU.

    It looks at ``rows`` on the host, so on a GPU it waits for the device.
    """
    logits, seeds, positions, rows = _check(logits, seeds, positions, rows)
    token_ids = torch.full_like(seeds, NO_TOKEN)
    for row in range(logits.shape[0]):
        chosen = (rows == row).nonzero().squeeze(1)
        if len(chosen):
            token_ids[chosen] = _draw_row_torch(logits[row], seeds[chosen], positions[chosen])
    return token_ids


def _check(
    logits: torch.Tensor,
    seeds: torch.Tensor,
    positions: torch.Tensor,
    rows: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    logits = check_logits(logits)
    device, int64 = logits.device, (torch.int64,)
    if rows is None:
        rows = torch.arange(logits.shape[0], device=device)
    n = rows.numel() if isinstance(rows, torch.Tensor) else logits.shape[0]
    rows = check_vector("rows", rows, n, int64, device)
    return (
        logits,
        check_vector("seeds", seeds, n, int64, device),
        check_vector("positions", positions, n, int64, device),
        rows,
    )


def _draw_row_torch(
    logits: torch.Tensor, seeds: torch.Tensor, positions: torch.Tensor
) -> torch.Tensor:
    z = canonical_logits_torch(logits)
    z_max = z.max()
    kept = (z > -torch.inf).nonzero().squeeze(1)
    if not len(kept):
        return torch.full_like(seeds, NO_TOKEN)
    pairs = torch.unique(kept >> 1)
    token_ids = (pairs[:, None] * 2 + torch.arange(2, device=pairs.device)).flatten()
    # The partner of a kept token may be masked or beyond the vocabulary: it never wins.
    inverse = torch.full((len(logits) + 1,), torch.inf, device=logits.device)
    inverse[kept] = inverse_weight_torch(z[kept], z_max)
    inverse = inverse[token_ids]
    winners = torch.empty_like(seeds)
    step = max(1, CHUNK_ELEMENTS // len(pairs))
    for start in range(0, len(seeds), step):
        chunk = slice(start, start + step)
        hi, lo = pair_bits_torch(seeds[chunk], positions[chunk], pairs)
        scores = exponential_torch(uniform_torch(hi, lo)).flatten(1) * inverse
        winners[chunk] = token_ids[scores.argmin(1)]
    return winners


@jit
def _race_tile(
    z: tl.tensor,
    token_ids: tl.tensor,
    z_max: tl.tensor,
    seed: tl.tensor,
    position: tl.tensor,
    best: tl.tensor,
    winner: tl.tensor,
) -> tuple[tl.tensor, tl.tensor]:
    """The earlier of the best so far and this tile's best; ties go to the lowest token id."""
    hi, lo = token_bits(seed, position, token_ids)
    scores = score(exponential(uniform(hi, lo)), z, z_max)
    tile_best = tl.min(scores, 0)
    tile_winner = tl.min(tl.where(scores == tile_best, token_ids, 0x7FFFFFFF), 0)
    better = tile_best < best
    return tl.where(better, tile_best, best), tl.where(better, tile_winner, winner)


@jit
def _draw_kernel(
    logits_ptr: tl.tensor,
    row_stride: tl.tensor,
    vocab_size: tl.tensor,
    n_rows: tl.tensor,
    kept_logits_ptr: tl.tensor,
    kept_ids_ptr: tl.tensor,
    state_ptr: tl.tensor,
    rows_ptr: tl.tensor,
    seeds_ptr: tl.tensor,
    positions_ptr: tl.tensor,
    token_ids_ptr: tl.tensor,
    CAPACITY: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
) -> None:
    draw = tl.program_id(0).to(tl.int64)
    row = tl.load(rows_ptr + draw)
    seed = tl.load(seeds_ptr + draw)
    position = tl.load(positions_ptr + draw)
    best = tl.full([], float("inf"), tl.float32)
    winner = tl.full([], -1, tl.int32)
    lanes = tl.arange(0, BLOCK_SIZE)
    if (row >= 0) & (row < n_rows):
        state = state_ptr + row * ROW_FIELDS
        n_finite = tl.load(state + N_FINITE).to(tl.int32)
        z_max = logit_of_key(tl.load(state + Z_MAX_KEY).to(tl.uint32))
        if tl.load(state + PATH) == COMPACT:
            for start in range(0, n_finite, BLOCK_SIZE):
                slots = start + lanes
                filled = slots < n_finite
                z = tl.load(
                    kept_logits_ptr + row * CAPACITY + slots, mask=filled, other=-float("inf")
                )
                token_ids = tl.load(kept_ids_ptr + row * CAPACITY + slots, mask=filled, other=0)
                best, winner = _race_tile(z, token_ids, z_max, seed, position, best, winner)
        else:
            for start in range(0, vocab_size, BLOCK_SIZE):
                token_ids = start + lanes
                z = load_logits(logits_ptr + row * row_stride, token_ids, vocab_size)
                best, winner = _race_tile(z, token_ids, z_max, seed, position, best, winner)
    tl.store(token_ids_ptr + draw, winner.to(tl.int64))
