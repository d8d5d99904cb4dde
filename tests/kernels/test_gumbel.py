"""Draws, token by token against float64 and in law; what they may depend on."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import stats

from sampler_kernels import (
    NOISES,
    PATH_COMPACT,
    PATH_RADIX,
    SCORE_ERROR,
    UNIFORM_ERROR,
    Noise,
    gumbel_draw,
    gumbel_draw_torch,
)
from sampler_kernels._philox import pair_bits_torch
from sampler_kernels._race import exponential_torch, inverse_weight_torch, uniform_torch
from sampler_kernels._rows import scan_rows
from sampler_reference import noise as reference

Draw = Callable[..., torch.Tensor]
BOTH = pytest.mark.parametrize("draw", [gumbel_draw, gumbel_draw_torch])
SEEDS = (0, 1, -1, 1 << 62, 123456789, -(1 << 63))
MASK = 0xFFFFFFFF


def _philox(key: int, counter: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    """Philox4x32-10 in Python integers, after Salmon et al. 2011, section 4.2."""
    k0, k1 = key & MASK, key >> 32 & MASK
    c0, c1, c2, c3 = counter
    for _ in range(10):
        even, odd = c0 * 0xD2511F53, c2 * 0xCD9E8D57
        c0, c1, c2, c3 = odd >> 32 ^ c1 ^ k0, odd & MASK, even >> 32 ^ c3 ^ k1, even & MASK
        k0, k1 = k0 + 0x9E3779B9 & MASK, k1 + 0xBB67AE85 & MASK
    return c0, c1, c2, c3


def _expected(row: NDArray[np.float64], seed: int, position: int) -> int:
    """The winner in float64, or -1 where the runner-up is within the stated error."""
    scores, errors = np.full(len(row), np.inf), np.zeros(len(row))
    for token in np.flatnonzero(row > -np.inf).tolist():
        words = _philox(seed, (token >> 1, position & MASK, position >> 32 & MASK, 0))
        hi, lo = words[2:] if token & 1 else words[:2]
        u = (hi * 2.0**32 + lo + 0.5) / 2.0**64
        e = -math.log1p(-min(u, 1 - 2.0**-24))
        scores[token] = e * math.exp(row.max() - row[token])
        errors[token] = SCORE_ERROR + UNIFORM_ERROR * u / (max(1 - u, 2.0**-24) * e)
    winner = int(scores.argmin())
    rivals = scores * (1 - errors) <= scores[winner] * (1 + errors[winner])
    return winner if rivals.sum() == 1 else -1


@BOTH
def test_token_by_token(draw: Draw) -> None:
    """Every draw is the float64 race's winner; no draw here is within the error of a tie."""
    rng = np.random.default_rng(17)
    rows = rng.normal(0, 2, (3, 101)).astype(np.float32)
    rows[1, rng.random(101) < 0.8] = -np.inf
    seeds = torch.tensor(SEEDS).repeat_interleave(3)
    positions = torch.tensor([0, 7, (1 << 33) + 1]).repeat(6)
    of_row = torch.arange(18) % 3
    expected = [
        _expected(rows[r].astype(np.float64), s, q)
        for r, s, q in zip(of_row.tolist(), seeds.tolist(), positions.tolist(), strict=True)
    ]
    assert -1 not in expected
    assert draw(torch.tensor(rows), seeds, positions, of_row).tolist() == expected


@pytest.mark.parametrize("kind", ["dense", "bf16", "+inf", "NaN", "half masked", "one far peak"])
@pytest.mark.parametrize("vocab_size", [1, 5, 4096, 4099])
def test_kernel_and_twin_draw_the_same_tokens(
    kind: str,
    vocab_size: int,
    hard_rows: Callable[[int], dict[str, NDArray[np.float32]]],
) -> None:
    """One mechanism: the kernel's tokens are the twin's, on compact and on larger rows."""
    logits = torch.tensor(hard_rows(vocab_size)[kind])[None, :]
    seeds, rows = torch.arange(3) - 1, torch.zeros(3, dtype=torch.int64)
    args = (logits, seeds, seeds + (1 << 32), rows)
    assert torch.equal(gumbel_draw(*args), gumbel_draw_torch(*args))


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("vocab_size", [300, 4099])
def test_kernel_and_twin_draw_the_same_tokens_with_every_noise(
    noise: Noise, vocab_size: int, hard_rows: Callable[[int], dict[str, NDArray[np.float32]]]
) -> None:
    """The same of several kinds of rows at once."""
    kinds = ("dense", "ties at the edge", "half masked", "all masked", "+inf", "one at 1e30")
    logits = torch.tensor(np.stack([hard_rows(vocab_size)[kind] for kind in kinds]))
    seeds = torch.arange(len(logits)) - 5
    args = (logits, seeds, seeds << 30)
    assert torch.equal(gumbel_draw(*args, noise=noise), gumbel_draw_torch(*args, noise=noise))


@BOTH
@pytest.mark.parametrize("noise", ["philox", "philox-fp64"])
@pytest.mark.parametrize("domain", range(4))
def test_every_domain_token_by_token(draw: Draw, noise: Noise, domain: int) -> None:
    """In each stream of a seed the draws are the reference's; no two streams draw alike."""
    row = np.random.default_rng(18).normal(0, 1, 90).astype(np.float32)
    seeds = np.array(SEEDS * 2)
    positions = (np.arange(12) << 30) - 7
    tokens = draw(
        torch.from_numpy(row)[None],
        torch.from_numpy(seeds),
        torch.from_numpy(positions),
        torch.zeros(12, dtype=torch.int64),
        noise=noise,
        domain=domain,
    ).numpy()
    z = row.astype(np.float64)
    for other in range(4):
        accepted = reference.accepts(tokens, z, seeds, positions, noise, other)
        assert accepted.all() if other == domain else accepted.sum() < 6


@BOTH
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("vocab_size", [300, 4099])
def test_half_precision(draw: Draw, dtype: torch.dtype, vocab_size: int) -> None:
    """16-bit logits draw what the same values in fp32 draw, on compact and on larger rows."""
    logits = torch.randn(2, vocab_size, generator=torch.Generator().manual_seed(12)).to(dtype)
    labels = torch.arange(2)
    assert torch.equal(draw(logits, labels, labels), draw(logits.float(), labels, labels))


@pytest.mark.parametrize("capacity", [1, 16, 64, 4096])
def test_tokens_do_not_depend_on_the_path(capacity: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """12 to 300 kept tokens, as compact rows or swept whole: the tokens are the twin's."""
    logits = torch.randn(4, 300, generator=torch.Generator().manual_seed(6))
    kept = (12, 50, 200, 300)
    for row, n_kept in enumerate(kept):
        order = torch.randperm(300, generator=torch.Generator().manual_seed(row))
        logits[row, order[n_kept:]] = -torch.inf
    monkeypatch.setattr("sampler_kernels._rows.CAPACITY_LIMIT", capacity)
    scanned = scan_rows(logits, torch.full((4,), -torch.inf).double(), block_size=128)
    assert scanned.path.tolist() == [PATH_COMPACT if n <= capacity else PATH_RADIX for n in kept]
    labels, rows = torch.arange(16), torch.arange(16) % 4
    args = (logits, labels, labels, rows)
    assert torch.equal(gumbel_draw(*args), gumbel_draw_torch(*args))


@pytest.mark.parametrize("seed", [0, -1, (1 << 62) + 7])
def test_draws_follow_softmax(seed: int) -> None:
    """20,000 positions of one seed give softmax frequencies: chi-square, false alarm 1e-6 each."""
    logits = torch.randn(40, generator=torch.Generator().manual_seed(1)) * 1.5
    counts = _counts(logits, seed)
    law = torch.softmax(logits.double(), 0).numpy()
    assert stats.chisquare(counts, law * counts.sum()).pvalue > 1e-6


def test_draws_of_another_law_are_noticed() -> None:
    """The test above rejects a law whose largest token is 4 % too likely."""
    logits = torch.randn(40, generator=torch.Generator().manual_seed(1)) * 1.5
    counts = _counts(logits, 0)
    logits[logits.argmax()] += math.log(1.25)
    law = torch.softmax(logits.double(), 0).numpy()
    assert stats.chisquare(counts, law * counts.sum()).pvalue < 1e-6


def _counts(logits: torch.Tensor, seed: int, n: int = 20_000) -> NDArray[np.int64]:
    positions = torch.arange(n) + (1 << 32) - n // 2
    zeros = torch.zeros(n, dtype=torch.int64)
    tokens = gumbel_draw_torch(logits[None, :], zeros + seed, positions, zeros)
    return np.bincount(tokens.numpy(), minlength=len(logits))


@pytest.mark.parametrize(("position", "winner"), [(2647, 255156), (3023, 39988)])
def test_heavy_tail_is_reached(position: int, winner: int) -> None:
    """One of 262,143 tokens 20 below the largest wins where float64 says so.

    Their share is 5.4e-4. Noise of 24 bits never reaches it: the least E must be below e^-20 of
    the largest token's. The two positions are those among the first 4,200 of seed 5.
    """
    logits = torch.full((1, 262_144), -20.0)
    logits[0, 1000] = 0.0
    rivals = np.full(262_144, -np.inf)
    rivals[[1000, winner]] = 0.0, -20.0
    assert _expected(rivals, 5, position) == winner
    for draw in (gumbel_draw, gumbel_draw_torch):
        assert draw(logits, torch.tensor([5]), torch.tensor([position])).item() == winner


def test_winning_end_of_the_uniform_is_resolved() -> None:
    """The least E of 262,144 tokens is a number of its own: 24-bit noise would repeat values."""
    hi, lo = pair_bits_torch(torch.tensor([3]), torch.tensor([0]), torch.arange(131_072))
    e = exponential_torch(uniform_torch(hi, lo)).flatten().sort().values[:1000]
    assert (e.diff() > 0).all()
    assert e[0] < 4e-5  # P(least of 262144 > 4e-5) = exp(-10.5)


def _tied_with_token_0(token: int, seed: int) -> float:
    """The logit at which ``token`` has the fp32 score of token 0, whose logit is 0."""
    hi, lo = pair_bits_torch(torch.tensor([seed]), torch.tensor([0]), torch.arange(2501))
    e = exponential_torch(uniform_torch(hi, lo)).flatten()
    near = (e[token] / e[0]).log().numpy()
    z = torch.from_numpy(near + np.arange(-200, 200, dtype=np.float32) * np.spacing(near))
    tied = e[token] * inverse_weight_torch(z, torch.tensor(0.0)) == e[0]
    return float(z[tied][0])


@BOTH
@pytest.mark.parametrize("token", [5, 5000])
def test_equal_scores_go_to_the_lowest_token_id(
    draw: Draw, token: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within a tile and across tiles; with a little more logit the other token wins."""
    seed = 1  # any at which ``token`` has the smaller E, so that token 0 has the larger logit
    monkeypatch.setattr("sampler_kernels._rows.CAPACITY_LIMIT", 1)  # swept, not compacted
    logits = torch.full((2, 5001), -torch.inf)
    logits[:, 0] = 0.0
    logits[:, token] = _tied_with_token_0(token, seed) + torch.tensor([0.0, 1e-5])
    seeds, zeros = torch.full((2,), seed), torch.zeros(2, dtype=torch.int64)
    assert draw(logits, seeds, zeros).tolist() == [0, token]


@BOTH
def test_same_request_anywhere(draw: Draw) -> None:
    """A token depends on logits, seed and position: not on row, batch, rank or neighbours."""
    logits = torch.randn(4, 50, generator=torch.Generator().manual_seed(8))
    seeds, positions = torch.tensor([5, -6, 7, 8]), torch.tensor([0, 1, 2, 3])
    whole = draw(logits, seeds, positions)
    order = torch.tensor([2, 0, 3, 1])
    assert torch.equal(draw(logits[order], seeds[order], positions[order]), whole[order])
    assert torch.equal(draw(logits, seeds[order], positions[order], order), whole[order])
    alone = [draw(logits[i : i + 1], seeds[i : i + 1], positions[i : i + 1]) for i in range(4)]
    assert torch.equal(torch.cat(alone), whole)


@BOTH
def test_noise_belongs_to_the_token_id(draw: Draw) -> None:
    """Masking losers never changes the winner, and equal rows differ by seed and by position."""
    logits = torch.zeros(1, 300)
    zero = torch.zeros(1, dtype=torch.int64)
    for seed in (zero, zero + 9):
        winner = draw(logits, seed, zero)
        fewer = torch.full((1, 300), -torch.inf)
        fewer[0, winner.item() - 3 : winner.item() + 4] = 0.0
        assert torch.equal(draw(fewer, seed, zero), winner)
    many = torch.arange(30)
    assert len(set(draw(logits, many, many * 0, many * 0).tolist())) > 20
    assert len(set(draw(logits, many * 0, many << 32, many * 0).tolist())) > 20


@BOTH
def test_nothing_to_draw(draw: Draw) -> None:
    """All-masked rows and row numbers out of range draw -1; no draws are no tokens."""
    logits = torch.tensor([[-torch.inf, torch.nan], [-torch.inf, 1.0]])
    zeros = torch.zeros(5, dtype=torch.int64)
    rows = torch.tensor([0, 1, -1, 2, 1 << 40])
    assert draw(logits, zeros, zeros, rows).tolist() == [-1, 1, -1, -1, -1]
    assert draw(logits, zeros[:0], zeros[:0], rows[:0]).shape == (0,)


@BOTH
def test_infinite_logits_share_the_draw(draw: Draw) -> None:
    """+inf counts as FLT_MAX: several share the law, finite logits get nothing."""
    logits = torch.tensor([[torch.inf, 3e38, torch.inf, 0.0]])
    many = torch.arange(40)
    assert set(draw(logits, many, many, many * 0).tolist()) == {0, 2}
