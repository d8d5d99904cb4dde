"""The noises by name: what makes every token's score, the least of which is drawn.

``philox`` is this project's race in fp32, ``philox-fp64`` the same 64 bits in fp64; ``murmur`` and
``murmur-fp64`` are vLLM's. A score depends on logit, seed, position, domain and token id only.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import torch

from sampler_kernels._arguments import check_choice
from sampler_kernels._murmur import murmur_scores, murmur_scores_torch
from sampler_kernels._philox import DRAFT_DOMAIN, DRAW_DOMAIN, pair_bits_torch, token_bits
from sampler_kernels._race import (
    exponential,
    exponential_torch,
    inverse_weight_torch,
    score,
    uniform,
    uniform_torch,
)
from sampler_kernels._race_fp64 import (
    exponential_fp64,
    exponential_fp64_torch,
    inverse_weight_fp64_torch,
    score_fp64,
    uniform_fp64,
    uniform_fp64_torch,
)
from sampler_kernels._triton import jit, tl

Noise = Literal["philox", "philox-fp64", "murmur", "murmur-fp64"]
NOISES: tuple[Noise, ...] = get_args(Noise)

_PHILOX, _PHILOX_FP64, _MURMUR, _MURMUR_FP64 = (tl.constexpr(n) for n in range(len(NOISES)))


def noise_number(noise: Noise, domain: int) -> int:
    """The number by which kernels know a noise, if it and the domain exist.

    Raises:
        ValueError: they do not.
    """
    check_choice("noise", noise, NOISES)
    if not DRAW_DOMAIN <= domain <= DRAFT_DOMAIN:
        raise ValueError(
            f"domain is {domain}; {DRAW_DOMAIN} to {DRAFT_DOMAIN} are allowed, one of the "
            "*_DOMAIN constants of sampler_kernels"
        )
    return NOISES.index(noise)


@jit
def token_scores(
    z: tl.tensor,
    token_ids: tl.tensor,
    z_max: tl.tensor,
    seed: tl.tensor,
    position: tl.tensor,
    NOISE: tl.constexpr,
    DOMAIN: tl.constexpr,
) -> tl.tensor:
    """fp32 or, where the noise says so, fp64 scores; +inf for masked tokens."""
    if NOISE == _PHILOX:
        hi, lo = token_bits(seed, position, token_ids, tl.full([], DOMAIN, tl.uint32))
        scores = score(exponential(uniform(hi, lo)), z, z_max)
    elif NOISE == _PHILOX_FP64:
        hi, lo = token_bits(seed, position, token_ids, tl.full([], DOMAIN, tl.uint32))
        scores = score_fp64(exponential_fp64(uniform_fp64(hi, lo)), z, z_max)
    else:
        scores = murmur_scores(z, token_ids, seed, position, DOMAIN, NOISE == _MURMUR_FP64)
    return scores


@jit
def no_score(NOISE: tl.constexpr) -> tl.tensor:
    """The score of nobody, +inf, in the precision of the noise."""
    if (NOISE == _PHILOX) | (NOISE == _MURMUR):
        nobody = tl.full([], float("inf"), tl.float32)
    else:
        nobody = tl.full([], float("inf"), tl.float64)
    return nobody


@dataclass(frozen=True, eq=False)
class RowScores:
    """The twin of ``token_scores`` for many draws of one row.

    Attributes:
        token_ids: ``[m]`` int64, ascending: the unmasked tokens, perhaps with others that never
            win.
        of_draws: The scores ``[n, m]`` of seeds and positions ``[n]``.
    """

    token_ids: torch.Tensor
    of_draws: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def row_scores_torch(z: torch.Tensor, noise: Noise, domain: int) -> RowScores:
    """The scores of canonical logits ``[V]``, not all of them masked."""
    kept = (z > -torch.inf).nonzero().squeeze(1)
    if noise in ("murmur", "murmur-fp64"):
        return RowScores(
            kept,
            lambda seeds, positions: murmur_scores_torch(
                z[kept], kept, seeds, positions, domain=domain, fp64=noise == "murmur-fp64"
            ),
        )
    in_fp64 = noise == "philox-fp64"
    inverse_weight = inverse_weight_fp64_torch if in_fp64 else inverse_weight_torch
    pairs = torch.unique(kept >> 1)
    token_ids = (pairs[:, None] * 2 + torch.arange(2, device=pairs.device)).flatten()
    # The partner of a kept token may be masked or beyond the vocabulary: it never wins.
    weights = inverse_weight(z[kept], z.max())
    inverse = torch.full((len(z) + 1,), torch.inf, dtype=weights.dtype, device=z.device)
    inverse[kept] = weights
    inverse = inverse[token_ids]

    def of_draws(seeds: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        hi, lo = pair_bits_torch(seeds, positions, pairs, domain)
        if in_fp64:
            return exponential_fp64_torch(uniform_fp64_torch(hi, lo)).flatten(1) * inverse
        return exponential_torch(uniform_torch(hi, lo)).flatten(1) * inverse

    return RowScores(token_ids, of_draws)
