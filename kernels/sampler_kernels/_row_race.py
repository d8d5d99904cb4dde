"""One race over the kept tokens of one row, from its compact copy or swept whole.

Shared by the kernels that draw. The winner does not depend on the tile or on the way it is read.
"""

from sampler_kernels._keys import load_logits, ordered_key
from sampler_kernels._noise import no_score, token_scores
from sampler_kernels._rows import is_kept
from sampler_kernels._triton import jit, tl


@jit
def earlier(
    scores: tl.tensor, token_ids: tl.tensor, best: tl.tensor, winner: tl.tensor
) -> tuple[tl.tensor, tl.tensor]:
    """The earlier of the best so far and this tile's best; ties go to the lowest token id."""
    tile_best = tl.min(scores, 0)
    tile_winner = tl.min(tl.where(scores == tile_best, token_ids, 0x7FFFFFFF), 0)
    better = tile_best < best
    return tl.where(better, tile_best, best), tl.where(better, tile_winner, winner)


@jit
def race_row(
    row_ptr: tl.tensor,
    kept_logits_ptr: tl.tensor,
    kept_ids_ptr: tl.tensor,
    mask_ptr: tl.tensor,
    compact: tl.tensor,
    n_tokens: tl.tensor,
    z_max: tl.tensor,
    cut_key: tl.tensor,
    tie_id: tl.tensor,
    seed: tl.tensor,
    position: tl.tensor,
    WANT_MASK: tl.constexpr,
    NOISE: tl.constexpr,
    DOMAIN: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """The winner among the tokens that (cut_key, tie_id) keeps, -1 if none, and their number.

    ``n_tokens`` are in the compact copy, or in the vocabulary. With WANT_MASK a 1 is written for
    every kept token; the others must be 0 already.
    """
    best = no_score(NOISE)
    winner = tl.full([], -1, tl.int32)
    n_kept = tl.full([], 0, tl.int32)
    for start in range(0, n_tokens, BLOCK_SIZE):
        token_ids = start + tl.arange(0, BLOCK_SIZE)
        if compact:
            filled = token_ids < n_tokens
            z = tl.load(kept_logits_ptr + token_ids, mask=filled, other=-float("inf"))
            token_ids = tl.load(kept_ids_ptr + token_ids, mask=filled, other=0)
        else:
            z = load_logits(row_ptr, token_ids, n_tokens)
        kept = is_kept(ordered_key(z), token_ids, cut_key, tie_id)
        n_in_tile = tl.sum(kept.to(tl.int32), 0)
        # Noise costs more than reading: a tile without a kept token has none.
        if n_in_tile > 0:
            z = tl.where(kept, z, -float("inf"))
            scores = token_scores(z, token_ids, z_max, seed, position, NOISE, DOMAIN)
            best, winner = earlier(scores, token_ids, best, winner)
            if WANT_MASK:
                tl.store(mask_ptr + token_ids, tl.full([BLOCK_SIZE], 1, tl.int8), mask=kept)
        n_kept += n_in_tile
    return winner, n_kept
