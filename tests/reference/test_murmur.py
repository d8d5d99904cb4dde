"""vLLM's noise against published hashes, its own kernel's tokens, and a float32 route."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from sampler_reference import murmur

Int = NDArray[np.int64]


def ints(*values: int) -> Int:
    """Int64 array."""
    return np.array(values, dtype=np.int64)


@pytest.mark.parametrize(
    ("words", "seed", "expected"),
    [
        # stackoverflow.com/a/31929528, made with SMHasher's own code; bytes as little-endian words.
        ((), 0, 0x00000000),
        ((), 1, 0x514E28B7),
        ((), 0xFFFFFFFF, 0x81F16F39),
        ((0xFFFFFFFF,), 0, 0x76293B50),
        ((0x87654321,), 0, 0xF55B516B),
        ((0x87654321,), 0x5082EDEE, 0x2362F9DE),
        ((0x00000000,), 0, 0x2362F9DE),
        ((0x61616161,), 0x9747B28C, 0x5A97808A),
        # mmh3 5.3.1 of the same 16 bytes.
        ((0, 0, 0, 0), 0, 0x8134CDF8),
        ((0xFFFFFFFF,) * 4, 0, 0xE519346E),
        ((0x9E3779B9, 0x243F6A88, 7, 151935), 0, 0x41899C8E),
        ((0x9E3779B9, 0x243F6A88, 7, 151935), 0x9E3779B9, 0xC95A07F5),
    ],
)
def test_murmur3_known_answers(words: tuple[int, ...], seed: int, expected: int) -> None:
    """Published values of MurmurHash3_x86_32."""
    key = [np.array([word], dtype=np.uint64) for word in words]
    assert murmur.murmur3_x86_32(key, seed).tolist() == ([expected] if words else expected)


def test_key_is_seed_position_token_in_32_bit_words() -> None:
    """Seed low, seed high, low word of the position, token; negative seeds wrap."""
    words = murmur.key_words(ints(-2), ints(2**40 + 3), ints(11, 12))
    assert [word.tolist() for word in words] == [[[2**32 - 2]], [[2**32 - 1]], [[3]], [11, 12]]


def test_uniform_is_the_hash_rounded_once_to_float32() -> None:
    """Hash 0x41899c8e of mmh3 5.3.1; the largest hash rounds to 1."""
    seed = 0x243F6A88 << 32 | 0x9E3779B9
    u = murmur.uniforms32(ints(seed), ints(7), ints(151935))
    assert u.dtype == np.float32
    assert u[0, 0] == np.float32((0x41899C8E + 0.5) / 2**32)
    assert np.float32((2**32 - 0.5) / 2**32) == 1


def test_uniform_of_two_hashes_by_exact_integers() -> None:
    """Upper half: hash 0xc95a07f5 of the second seed, lower half 0x41899c8e; mmh3 5.3.1."""
    seed = 0x243F6A88 << 32 | 0x9E3779B9
    u = murmur.uniforms64(ints(seed), ints(7), ints(151935))
    # The sum rounds to even: r + 1/2 needs 54 bits.
    assert u[0, 0] == float((0xC95A07F541899C8E >> 11) + 0.5) / 2**53


@pytest.mark.parametrize(
    ("u", "gumbel"),
    # -ln(-ln(1 - u)) by hand: u = 2^-33 is hash 0; at 1 the float32 difference is held at 2^-24.
    [(2.0**-33, 33 * math.log(2)), (0.5, -math.log(math.log(2))), (1, -math.log(24 * math.log(2)))],
)
def test_gumbel_at_the_ends_and_the_median(u: float, gumbel: float) -> None:
    """Finite everywhere, largest where u is smallest."""
    assert murmur.gumbels32(np.array([u], dtype=np.float32))[0] == pytest.approx(gumbel, rel=1e-9)


def test_series_is_two_millionths_from_the_logarithm() -> None:
    """Just below 1/4 the terms from u^9/9 on are missing: 1.9e-6 of it; above, nothing."""
    u = np.array([0.25 - 2.0**-26, 0.25], dtype=np.float32)
    right = -np.log(-np.log1p(-u.astype(np.float64)))
    short = murmur.gumbels32(u) - right
    missing = sum(0.25**n / n for n in range(9, 40)) / -math.log(0.75)
    assert short == pytest.approx([missing, 0], abs=1e-9)


def test_noise_is_gumbel_distributed() -> None:
    """Kolmogorov-Smirnov of 40,000 values at false-alarm rate 1e-6, both precisions."""
    labels = np.arange(100), np.arange(100) + 2**20, np.arange(400)
    for fp64 in (False, True):
        sample = murmur.gumbels(*labels, fp64=fp64).ravel()
        assert stats.kstest(sample, "gumbel_r").pvalue > 1e-6
        # Twin: noise that is 10 % too wide is found by the same test.
        assert stats.kstest(1.1 * sample, "gumbel_r").pvalue < 1e-6


@pytest.mark.parametrize("fp64", [False, True])
def test_drafts_have_the_noise_of_a_far_position(fp64: bool) -> None:
    """Position + 2^30, vllm 0.32.0."""
    seeds, positions, tokens = ints(5, -5), ints(0, 7), np.arange(9)
    drafting = murmur.gumbels(seeds, positions, tokens, fp64=fp64, drafting=True)
    assert np.array_equal(drafting, murmur.gumbels(seeds, positions + 2**30, tokens, fp64=fp64))
    assert not np.isin(drafting, murmur.gumbels(seeds, positions, tokens, fp64=fp64)).any()


def float32_gumbels(u: NDArray[np.float32]) -> NDArray[np.float32]:
    """The engine's formula, every operation rounded to float32."""
    tail = np.full_like(u, 1 / 8)
    for n in range(7, 0, -1):
        tail = np.float32(1 / n) + u * tail
    left = np.log(np.maximum(np.float32(1) - u, np.float32(2**-24)))
    return -np.log(-np.where(u < np.float32(0.25), -u * tail, left))


def test_float32_noise_is_within_its_bound() -> None:
    """Over both ends, the seam at 1/4 and 200,000 hashes; at most 0.3 of the bound is used."""
    edges = np.concatenate([base + np.arange(-9999, 9999) for base in (9999, 2**30, 2**32 - 9999)])
    hashes = np.concatenate([edges, np.random.default_rng(1).integers(0, 2**32, 200_000)])
    u = ((hashes + 0.5) / 2**32).astype(np.float32)
    rounded = float32_gumbels(u)
    assert rounded.dtype == np.float32
    gumbel = murmur.gumbels32(u)
    bound = murmur.score_errors(np.zeros_like(gumbel), gumbel, fp64=False)
    used = np.abs(rounded - gumbel) / bound
    # A bound hundreds of times too wide would call every draw a near tie.
    assert 0.05 < used.max() < 0.7


def test_bound_grows_with_the_logit() -> None:
    """A logit of 64: half an ulp of the sum is 2^-18, and 2 ulps of the logit itself 2^-16."""
    (error,) = murmur.score_errors(np.array([64.0]), np.array([1.0]), fp64=False)
    assert 2**-18 + 2**-16 < error < 2**-15
