"""vLLM's noise against published hashes, float64, and tokens that vLLM itself drew."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from sampler_kernels import DRAFT_DOMAIN, DRAW_DOMAIN, Noise, gumbel_draw, gumbel_draw_torch
from sampler_kernels._murmur import (
    HASH_SEED_HI,
    LOG_ERROR_FP32,
    _token_hash,
    _token_hash_torch,
    log_fp32,
    log_fp32_torch,
)
from sampler_kernels._triton import jit, launch, tl
from sampler_reference import noise as reference

Draw = Callable[..., torch.Tensor]
BOTH = pytest.mark.parametrize("draw", [gumbel_draw, gumbel_draw_torch])

# mmh3 5.3.1 of 16 bytes: seed, position and token id, hash seed, hash.
KNOWN_HASHES = [
    (0, 0, 0, 0, 0x8134CDF8),
    (0x243F6A88_9E3779B9, 7, 151935, 0, 0x41899C8E),
    (0x243F6A88_9E3779B9, (1 << 32) + 7, 151935, 0, 0x41899C8E),
    (0x243F6A88_9E3779B9, 7, 151935, HASH_SEED_HI, 0xC95A07F5),
]

# vllm 0.32.0, v1/worker/gpu/sample/gumbel.py: gumbel_sample of the rows below under Triton's
# interpreter (triton 3.9.0, numpy 2.4), by use_fp64 and is_drafting.
DRAWN_BY_VLLM: dict[tuple[Noise, int], list[int]] = {
    ("murmur", DRAW_DOMAIN): [145, 47, 113, 29, 2, 47, 77, 164, 67, 297, 140, 153],
    ("murmur", DRAFT_DOMAIN): [165, 83, 7, 167, 3, 127, 77, 212, 67, 146, 6, 201],
    ("murmur-fp64", DRAW_DOMAIN): [219, 158, 161, 51, 0, 25, 77, 126, 67, 297, 243, 127],
    ("murmur-fp64", DRAFT_DOMAIN): [166, 99, 92, 121, 0, 2, 77, 101, 12, 234, 50, 238],
}
SEEDS = [0, 1, -1, 1 << 62, 123456789, -(1 << 63), 42, (1 << 63) - 1, -2, 7, 8, 9]
POSITIONS = [0, 7, (1 << 32) + 7, 12345, 1 << 31, 1, 3, -1, 5, 6, (1 << 30) + 6, 99]
GREEDY_BY_VLLM = [165, 87, 7, 58, 0, 0, 77, 92, 67, 297, 6, 127]
"""The same at temperature 0: rows 3, 5 and 7 have several largest logits."""


def _rows() -> torch.Tensor:
    rows = torch.from_numpy(np.random.default_rng(32).normal(0, 2, (12, 300)).astype(np.float32))
    rows[3], rows[5], rows[7] = rows[3].round(), 0, rows[7].round() * 0.5
    rows[4, 10:], rows[6], rows[8] = -torch.inf, -torch.inf, rows[8] * 8
    rows[6, 77] = 1.0
    return rows


@jit
def _hash_kernel(
    seed_ptr: tl.tensor,
    position_ptr: tl.tensor,
    token_id_ptr: tl.tensor,
    hash_ptr: tl.tensor,
    HASH_SEED: tl.constexpr,
) -> None:
    token_ids = tl.load(token_id_ptr + tl.arange(0, 2)).to(tl.int32)
    hashes = _token_hash(tl.load(seed_ptr), tl.load(position_ptr), token_ids, HASH_SEED)
    tl.store(hash_ptr + tl.arange(0, 2), hashes.to(tl.int64))


@jit
def _log_kernel(x_ptr: tl.tensor, log_ptr: tl.tensor, BLOCK_SIZE: tl.constexpr) -> None:
    lanes = tl.arange(0, BLOCK_SIZE)
    tl.store(log_ptr + lanes, log_fp32(tl.load(x_ptr + lanes)))


@pytest.mark.parametrize(("seed", "position", "token_id", "hash_seed", "expected"), KNOWN_HASHES)
def test_known_hashes(
    seed: int, position: int, token_id: int, hash_seed: int, expected: int
) -> None:
    """Kernel and twin hash the four words as the published code does; a position has 32 bits."""
    arguments = torch.tensor([seed]), torch.tensor([position]), torch.tensor([token_id, 0])
    hashes = torch.empty(2, dtype=torch.int64)
    launch(_hash_kernel, (1,), *arguments, hashes, HASH_SEED=hash_seed)
    assert hashes[0].item() == expected
    assert _token_hash_torch(*arguments, hash_seed).flatten().tolist() == hashes.tolist()


def test_log_error() -> None:
    """Logarithms are float64's within LOG_ERROR_FP32, also next to 1; kernel and twin agree."""
    rng = np.random.default_rng(3)
    near = 1 + rng.choice([-1, 1], 1 << 15) * 2.0 ** rng.uniform(-23, -1, 1 << 15)
    x = np.concatenate((near, 2.0 ** rng.uniform(-33, 5, 1 << 15))).astype(np.float32)
    x = x[x != 1]
    x = np.append(x, np.full((1 << 16) - len(x), 2, np.float32))
    log, exact = torch.empty(1 << 16), np.log(x.astype(np.float64))
    launch(_log_kernel, (1,), torch.from_numpy(x), log, BLOCK_SIZE=1 << 16)
    assert (np.abs(log.numpy() / exact - 1) <= LOG_ERROR_FP32).all()
    assert torch.equal(log, log_fp32_torch(torch.from_numpy(x)))


@BOTH
@pytest.mark.parametrize(("noise", "domain"), DRAWN_BY_VLLM)
def test_draws_are_vllms(draw: Draw, noise: Noise, domain: int) -> None:
    """Every token is the one that vLLM drew, whatever seed, position, ties and masks."""
    tokens = draw(_rows(), torch.tensor(SEEDS), torch.tensor(POSITIONS), noise=noise, domain=domain)
    assert tokens.tolist() == DRAWN_BY_VLLM[noise, domain]


@BOTH
def test_greedy_is_vllms(draw: Draw) -> None:
    """A greedy row is one that its top 1 is left of: vLLM's first largest, whatever the noise."""
    rows = _rows()
    best = rows.argmax(1, keepdim=True)
    masked = torch.full_like(rows, -torch.inf).scatter(1, best, rows.gather(1, best))
    drawn = draw(masked, torch.tensor(SEEDS), torch.tensor(POSITIONS), noise="murmur")
    assert drawn.tolist() == GREEDY_BY_VLLM


@pytest.mark.parametrize("noise", ["murmur", "murmur-fp64"])
@pytest.mark.parametrize("domain", [DRAW_DOMAIN, DRAFT_DOMAIN])
def test_token_by_token(noise: Noise, domain: int) -> None:
    """600 draws are the reference's winners, or rivals within the arithmetic's error of a tie."""
    row = np.random.default_rng(33).normal(0, 1.5, 120).astype(np.float32)
    seeds = np.random.default_rng(34).integers(-(1 << 63), 1 << 63, 600)
    positions = np.random.default_rng(35).integers(0, 1 << 40, 600)
    zeros = torch.zeros(600, dtype=torch.int64)
    tokens = gumbel_draw_torch(
        torch.from_numpy(row)[None],
        torch.from_numpy(seeds),
        torch.from_numpy(positions),
        zeros,
        noise=noise,
        domain=domain,
    ).numpy()
    z = row.astype(np.float64)
    assert reference.accepts(tokens, z, seeds, positions, noise, domain).all()
    # What another stream of the same seeds draws is not accepted: about 1 in 12 agrees by chance.
    other = reference.race(z, seeds, positions + 1, noise, domain)
    assert reference.accepts(other, z, seeds, positions, noise, domain).mean() < 0.3
