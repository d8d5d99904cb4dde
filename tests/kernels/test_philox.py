"""Philox4x32-10 against its authors' vectors, and which word a token gets."""

import pytest
import torch

from sampler_kernels._philox import pair_bits_torch, philox_torch, token_bits
from sampler_kernels._triton import jit, launch, tl

# Random123 1.14, kat_vectors, "philox4x32 10": counter, key, words.
KNOWN_ANSWERS = [
    (
        (0x00000000, 0x00000000, 0x00000000, 0x00000000),
        (0x00000000, 0x00000000),
        (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8),
    ),
    (
        (0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF),
        (0xFFFFFFFF, 0xFFFFFFFF),
        (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
    ),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@jit
def _philox_kernel(seed_ptr: tl.tensor, counter_ptr: tl.tensor, words_ptr: tl.tensor) -> None:
    c0 = tl.load(counter_ptr).to(tl.uint32)
    c1 = tl.load(counter_ptr + 1).to(tl.uint32)
    c2 = tl.load(counter_ptr + 2).to(tl.uint32)
    c3 = tl.load(counter_ptr + 3).to(tl.uint32)
    w0, w1, w2, w3 = tl.philox(tl.load(seed_ptr), c0, c1, c2, c3)
    tl.store(words_ptr, w0.to(tl.int64))
    tl.store(words_ptr + 1, w1.to(tl.int64))
    tl.store(words_ptr + 2, w2.to(tl.int64))
    tl.store(words_ptr + 3, w3.to(tl.int64))


@jit
def _token_bits_kernel(
    seed_ptr: tl.tensor,
    position_ptr: tl.tensor,
    domain_ptr: tl.tensor,
    hi_ptr: tl.tensor,
    lo_ptr: tl.tensor,
    BLOCK_SIZE: tl.constexpr,
) -> None:
    token_ids = tl.arange(0, BLOCK_SIZE)
    domain = tl.load(domain_ptr).to(tl.uint32)
    hi, lo = token_bits(tl.load(seed_ptr), tl.load(position_ptr), token_ids, domain)
    tl.store(hi_ptr + token_ids, hi.to(tl.int64))
    tl.store(lo_ptr + token_ids, lo.to(tl.int64))


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN_ANSWERS)
def test_known_answers(
    counter: tuple[int, ...], key: tuple[int, int], words: tuple[int, ...]
) -> None:
    """Triton's generator and the twin give the published words."""
    got = torch.empty(4, dtype=torch.int64)
    seed = torch.tensor([_signed(key[1] << 32 | key[0])])
    launch(_philox_kernel, (1,), seed, torch.tensor(counter), got)
    assert tuple(got.tolist()) == words
    k0, k1 = map(torch.tensor, key)
    twin = philox_torch((k0, k1), tuple(map(torch.tensor, counter)))
    assert tuple(word.item() for word in twin) == words


@pytest.mark.parametrize("seed", [0, -1, 1 << 62, -(1 << 63)])
@pytest.mark.parametrize("position", [0, (1 << 33) + 5, -3])
@pytest.mark.parametrize("domain", range(4))
def test_token_gets_its_half_of_its_pair(seed: int, position: int, domain: int) -> None:
    """Token 2i has words 0 and 1, token 2i + 1 words 2 and 3 of (i, position, domain)."""
    hi, lo = torch.empty(64, dtype=torch.int64), torch.empty(64, dtype=torch.int64)
    key, where = torch.tensor([seed]), torch.tensor([position])
    launch(
        _token_bits_kernel, (1,), key, where, torch.tensor([domain]), hi, lo, BLOCK_SIZE=64
    )  # fmt: skip
    low, high = (torch.tensor(seed & 0xFFFFFFFF), torch.tensor(seed >> 32 & 0xFFFFFFFF))
    for token in (0, 1, 6, 63):
        counter = (token >> 1, position & 0xFFFFFFFF, position >> 32 & 0xFFFFFFFF, domain)
        words = philox_torch((low, high), tuple(map(torch.tensor, counter)))
        pair = words[2:] if token & 1 else words[:2]
        assert (hi[token].item(), lo[token].item()) == (pair[0].item(), pair[1].item())
    bulk = pair_bits_torch(key, where, torch.arange(32), domain)
    assert torch.equal(bulk[0].flatten(), hi)
    assert torch.equal(bulk[1].flatten(), lo)
