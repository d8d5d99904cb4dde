"""Philox4x32-10: 64 random bits for every (seed, position, token id), and nothing else.

Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. The key is the
64-bit seed, the counter (token >> 1, position low, position high, domain); token & 1 selects the
first or the second pair of words. Row, batch and rank of a token are not in it, so a request draws
the same tokens wherever it stands.
"""

import torch

from sampler_kernels._triton import jit, tl

DRAW_DOMAIN, ACCEPTANCE_DOMAIN, RESIDUAL_DOMAIN, DRAFT_DOMAIN = range(4)
"""Last counter word, so that what one seed does at one position shares no noise: the draw (and
every plain draw of a verification), the uniform that accepts a draft, the draw that replaces a
rejected one, and the draft's own draw."""

N_ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_MASK = 0xFFFFFFFF


@jit
def token_bits(
    seed: tl.tensor, position: tl.tensor, token_ids: tl.tensor, domain: tl.tensor
) -> tuple[tl.tensor, tl.tensor]:
    """High and low uint32 word of each token's 64 bits; ``domain`` is uint32."""
    pair = (token_ids >> 1).to(tl.uint32)
    position_lo = (position & 0xFFFFFFFF).to(tl.uint32)
    position_hi = ((position >> 32) & 0xFFFFFFFF).to(tl.uint32)
    w0, w1, w2, w3 = tl.philox(seed, pair, position_lo, position_hi, domain)
    first = (token_ids & 1) == 0
    return tl.where(first, w0, w2), tl.where(first, w1, w3)


def philox_torch(
    key: tuple[torch.Tensor, torch.Tensor], counter: tuple[torch.Tensor, ...]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """The four words of each counter; all words are uint32 values in int64 that broadcast."""
    k0, k1 = key
    c0, c1, c2, c3 = counter
    for round_index in range(N_ROUNDS):
        even, odd = c0 * MULTIPLIERS[0], c2 * MULTIPLIERS[1]
        c0 = (odd >> 32 ^ c1 ^ _round_key(k0, KEY_STEPS[0], round_index)) & _MASK
        c2 = (even >> 32 ^ c3 ^ _round_key(k1, KEY_STEPS[1], round_index)) & _MASK
        # The next round's mask removes what is above 32 bits here.
        c1, c3 = odd, even
    return c0, c1 & _MASK, c2, c3 & _MASK


def pair_bits_torch(
    seeds: torch.Tensor,
    positions: torch.Tensor,
    pairs: torch.Tensor,
    domain: torch.Tensor | int = DRAW_DOMAIN,
) -> tuple[torch.Tensor, torch.Tensor]:
    """High and low words of the tokens 2*pair and 2*pair + 1, each [n, n_pairs, 2] int64.

    ``seeds`` and ``positions`` are [n], ``pairs`` [n_pairs], ``domain`` one number or one a draw,
    [n, 1]: a token's twin of ``token_bits`` computed once for both tokens that share a counter.
    """
    seed, position = seeds[:, None], positions[:, None]
    counter = (
        pairs[None, :],
        position & _MASK,
        position >> 32 & _MASK,
        domain + torch.zeros_like(position),
    )
    w0, w1, w2, w3 = philox_torch((seed & _MASK, seed >> 32 & _MASK), counter)
    return torch.stack((w0, w2), dim=2), torch.stack((w1, w3), dim=2)


def _round_key(word: torch.Tensor, step: int, round_index: int) -> torch.Tensor:
    return (word + step * round_index) & _MASK
