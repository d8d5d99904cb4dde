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
from sampler_kernels._keys import LOWEST_FINITE, canonical_logits_torch, logit_of_key
from sampler_kernels._noise import Noise, noise_number, row_scores_torch
from sampler_kernels._philox import DRAW_DOMAIN
from sampler_kernels._row_race import race_row
from sampler_kernels._rows import (
    ALL_TIES,
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

CHUNK_ELEMENTS = 1 << 15
"""Scores that the twin computes at once: the working set stays in a core's cache."""

NO_TOKEN = -1


def gumbel_draw(
    logits: torch.Tensor,
    seeds: torch.Tensor,
    positions: torch.Tensor,
    rows: torch.Tensor | None = None,
    *,
    noise: Noise = "philox",
    domain: int = DRAW_DOMAIN,
    block_size: int | None = None,
) -> torch.Tensor:
    """One token id for each (seed, position), ``[n]`` int64; -1 where the row is all masked.

    A row with one unmasked token, such as a greedy one, draws it whatever the noise.

    Args:
        logits: ``[n_rows, vocab_size]`` fp32, bf16 or fp16 with any row stride, after temperature
            and filters. NaN is masked, +inf is FLT_MAX.
        seeds: ``[n]`` int64; all 64 bits count.
        positions: ``[n]`` int64; all 64 bits count, of ``murmur`` the lower 32.
        rows: ``[n]`` int64: draw i is of row ``rows[i]``, or of row i where there is none. A row
            number out of range draws -1.
        noise: ``philox`` has 64 bits a token; ``philox-fp64`` uses the same in float64. ``murmur``
            and ``murmur-fp64`` are vLLM's, with its tie rule (see ``_murmur``).
        domain: One of the ``*_DOMAIN`` constants: which of a seed's independent streams. vLLM has
            two, one of them for drafts.
        block_size: Tile of the sweeps. The result is the same.

    Raises:
        TypeError, ValueError: shapes, dtypes or devices do not fit together, or a name is unknown.
        InterpreterUnsupported: there is no GPU, and Triton's interpreter cannot run.
    """
    number = noise_number(noise, domain)
    logits, seeds, positions, rows = check_draws(logits, seeds, positions, rows)
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
        NOISE=number,
        DOMAIN=domain,
        CAPACITY=scanned.capacity,
        BLOCK_SIZE=choose_block_size(block_size, DRAW_BLOCK_SIZE, vocab_size),
    )
    return token_ids


def gumbel_draw_torch(
    logits: torch.Tensor,
    seeds: torch.Tensor,
    positions: torch.Tensor,
    rows: torch.Tensor | None = None,
    *,
    noise: Noise = "philox",
    domain: int = DRAW_DOMAIN,
) -> torch.Tensor:
    """The twin of ``gumbel_draw`` in plain torch, and the fast way to draw in bulk on a CPU.

    It looks at ``rows`` on the host, so on a GPU it waits for the device.
    """
    noise_number(noise, domain)
    logits, seeds, positions, rows = check_draws(logits, seeds, positions, rows)
    token_ids = torch.full_like(seeds, NO_TOKEN)
    for row in range(logits.shape[0]):
        chosen = (rows == row).nonzero().squeeze(1)
        if len(chosen):
            token_ids[chosen] = _draw_row_torch(
                logits[row], seeds[chosen], positions[chosen], noise, domain
            )
    return token_ids


def check_draws(
    logits: torch.Tensor,
    seeds: torch.Tensor,
    positions: torch.Tensor,
    rows: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """The arguments of a draw, with the rows in order in place of None.

    Raises:
        TypeError, ValueError: shapes, dtypes or devices do not fit together.
    """
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
    logits: torch.Tensor,
    seeds: torch.Tensor,
    positions: torch.Tensor,
    noise: Noise,
    domain: int,
) -> torch.Tensor:
    z = canonical_logits_torch(logits)
    winners = torch.full_like(seeds, NO_TOKEN)
    if not (z > -torch.inf).any():
        return winners
    scores = row_scores_torch(z, noise, domain)
    step = max(1, CHUNK_ELEMENTS // len(scores.token_ids))
    for start in range(0, len(seeds), step):
        chunk = slice(start, start + step)
        of_draws = scores.of_draws(seeds[chunk], positions[chunk])
        winners[chunk] = scores.token_ids[of_draws.argmin(1)]
    return winners


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
    NOISE: tl.constexpr,
    DOMAIN: tl.constexpr,
    CAPACITY: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
) -> None:
    draw = tl.program_id(0).to(tl.int64)
    row = tl.load(rows_ptr + draw)
    winner = tl.full([], -1, tl.int32)
    if (row >= 0) & (row < n_rows):
        state = state_ptr + row * ROW_FIELDS
        compact = tl.load(state + PATH) == COMPACT
        n_finite = tl.load(state + N_FINITE).to(tl.int32)
        winner, _ = race_row(
            logits_ptr + row * row_stride,
            kept_logits_ptr + row * CAPACITY,
            kept_ids_ptr + row * CAPACITY,
            token_ids_ptr,
            compact,
            tl.where(compact, n_finite, vocab_size),
            logit_of_key(tl.load(state + Z_MAX_KEY).to(tl.uint32)),
            tl.full([], LOWEST_FINITE, tl.uint32),
            tl.full([], ALL_TIES, tl.int32),
            tl.load(seeds_ptr + draw),
            tl.load(positions_ptr + draw),
            False,
            NOISE,
            DOMAIN,
            BLOCK_SIZE,
        )
    tl.store(token_ids_ptr + draw, winner.to(tl.int64))
