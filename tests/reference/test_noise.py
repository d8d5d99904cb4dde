"""The counter-based noise against published vectors, exact integers and its law."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from sampler_reference import murmur, noise

Int = NDArray[np.int64]


def ints(*values: int) -> Int:
    """Int64 array."""
    return np.array(values, dtype=np.int64)


def exponentials(seeds: Int, positions: Int, token_ids: Int) -> NDArray[np.float64]:
    """The race's clocks: Exp(1) of every (draw, token)."""
    return -np.log1p(-noise.uniforms(seeds, positions, token_ids))


def hex_words(text: str) -> NDArray[np.uint32]:
    """``[1, n]`` uint32 words from their hexadecimal form."""
    return np.array([[int(word, 16) for word in text.split()]], dtype=np.uint32)


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    # Random123 1.14, tests/kat_vectors, philox 4x32 10.
    [
        ("0 0 0 0", "0 0", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        (
            "ffffffff ffffffff ffffffff ffffffff",
            "ffffffff ffffffff",
            "408f276d 41c83b0e a20bc7c6 6d5451fd",
        ),
        (
            "243f6a88 85a308d3 13198a2e 03707344",
            "a4093822 299f31d0",
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_philox_known_answers(counter: str, key: str, expected: str) -> None:
    """The published vectors of Philox4x32-10."""
    words = noise.philox4x32(hex_words(counter), hex_words(key))
    assert words.dtype == np.uint32
    assert np.array_equal(words, hex_words(expected))


def test_uniform_of_the_zero_key_by_exact_integers() -> None:
    """Words of the first known answer: even token high and low, odd token the other two."""
    u = noise.uniforms(ints(0), ints(0), ints(0, 1))[0]
    even = (0x6627E8D5 * 2**32 + 0xE169C58D + 0.5) / 2**64
    odd = (0xBC57AC4C * 2**32 + 0x9B00DBD8 + 0.5) / 2**64
    # One rounding of float64.
    assert u == pytest.approx([even, odd], rel=2**-52)


def test_key_and_counter_hold_all_64_bits_of_seed_and_position() -> None:
    """Words in the order (token >> 1, position low, position high, 0) and (seed low, seed high)."""
    seed, position, token = -2, 2**40 + 3, 11
    counter = np.array([[5, 3, 2**8, 0]], dtype=np.uint32)
    key = np.array([[0xFFFFFFFE, 0xFFFFFFFF]], dtype=np.uint32)
    high, low = noise.philox4x32(counter, key)[0, 2:].tolist()
    expected = (high + (low + 0.5) / 2**32) / 2**32
    assert noise.uniforms(ints(seed), ints(position), ints(token))[0, 0] == expected


def test_uniforms_depend_on_seed_position_and_token_alone() -> None:
    """Any selection and order of draws and tokens gives the same numbers."""
    seeds, positions, tokens = ints(1, 2**62, -5), ints(0, 7, 2**33), np.arange(100)
    whole = noise.uniforms(seeds, positions, tokens)
    some = noise.uniforms(seeds[[2, 0]], positions[[2, 0]], ints(99, 4, 5))
    assert np.array_equal(some, whole[np.ix_([2, 0], [99, 4, 5])])


def test_uniforms_stay_inside_the_unit_interval_at_both_ends() -> None:
    """Of all words the smallest give 2^-65, the largest 1 - 2^-65, which float64 cannot hold."""
    ends = np.array([[0, 0, 2**32 - 1, 2**32 - 1]], dtype=np.uint32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noise, "philox4x32", lambda *_: ends)
        u = noise.uniforms(ints(0), ints(0), ints(0, 1))[0]
    assert u.tolist() == [2.0**-65, 1 - 2.0**-53]


def test_exponentials_are_exponential() -> None:
    """Kolmogorov-Smirnov at false-alarm rate 1e-6, 40,000 draws, literal seeds."""
    sample = exponentials(np.arange(100), np.arange(100) + 2**32, np.arange(400)).ravel()
    assert stats.kstest(sample, "expon").pvalue > 1e-6
    # Twin: noise whose mean is 5 % too large is found by the same test.
    assert stats.kstest(1.05 * sample, "expon").pvalue < 1e-6


def test_race_draws_from_the_softmax() -> None:
    """Pearson chi-square of 20,000 draws at false-alarm rate 1e-6; the wrong law is found."""
    z = np.log(np.array([0.4, 0.3, 0.2, 0.1]))
    n = 20_000
    tokens = noise.race(z, np.arange(n), np.full(n, 5))
    counts = np.bincount(tokens, minlength=4)
    assert stats.chisquare(counts, n * np.exp(z)).pvalue > 1e-6
    wrong = np.array([0.41, 0.32, 0.19, 0.08])
    assert stats.chisquare(counts, n * wrong).pvalue < 1e-6


def test_race_never_draws_a_masked_token() -> None:
    """And a row without any token draws -1."""
    z = np.array([-np.inf, 0.0, -np.inf, 0.0])
    seeds = np.arange(64)
    assert set(noise.race(z, seeds, seeds).tolist()) == {1, 3}
    nothing = noise.race(np.full(4, -np.inf), seeds, seeds)
    assert nothing.tolist() == [-1] * 64


def test_race_of_filtered_row_uses_the_noise_of_the_token_ids() -> None:
    """Masking losers changes no draw: noise is keyed by id, not by rank among the kept."""
    z = np.linspace(0, 3, 50)
    seeds, positions = np.arange(200), np.arange(200)
    tokens = noise.race(z, seeds, positions)
    masked = np.where(np.isin(np.arange(50), tokens), z, -np.inf)
    assert np.array_equal(noise.race(masked, seeds, positions), tokens)


def test_race_is_won_by_the_first_arrival() -> None:
    """Times E / exp(z), on a row longer than one chunk of memory holds for all draws."""
    z = np.sin(np.arange(3000.0))
    seeds, positions = np.arange(400) - 200, np.arange(400) * 2**31
    times = exponentials(seeds, positions, np.arange(3000)) / np.exp(z)
    assert np.array_equal(noise.race(z, seeds, positions), times.argmin(axis=1))


def test_race_over_huge_logits_is_the_argmax() -> None:
    """The largest float32 against 1e30: no overflow, no warning."""
    z = np.array([1e30, float(np.finfo(np.float32).max), -1e30])
    assert noise.race(z, ints(1, 2), ints(3, 4)).tolist() == [1, 1]


def test_no_draws_are_no_tokens() -> None:
    """Empty in, empty out."""
    assert noise.race(np.zeros(3), ints(), ints()).tolist() == []


def test_accepts_the_winner_and_no_other() -> None:
    """Of ten equal tokens exactly one is accepted in each of 500 races."""
    z, seeds, positions = np.zeros(10), np.arange(500), np.full(500, 9)
    accepted = np.array(
        [noise.accepts(np.full(500, token), z, seeds, positions) for token in range(10)]
    )
    assert accepted.sum(axis=0).tolist() == [1] * 500
    assert np.array_equal(accepted.argmax(axis=0), noise.race(z, seeds, positions))


@pytest.mark.parametrize(("relative_gap", "accepted"), [(1e-6, True), (1e-5, False)])
def test_a_near_tie_is_accepted_within_the_bound(relative_gap: float, accepted: bool) -> None:
    """The loser is brought to a stated relative distance behind the winner by its logit.

    Each score may be off by 2e-6 and by what an error of 2^-23 of u does to E, about as much.
    """
    seeds, positions = ints(12), ints(34)
    e = exponentials(seeds, positions, ints(0, 1))[0]
    z = np.array([0.0, math.log(e[1] / e[0]) - relative_gap])
    assert noise.race(z, seeds, positions).tolist() == [0]
    assert noise.accepts(ints(1), z, seeds, positions).tolist() == [accepted]


def test_float32_races_are_accepted() -> None:
    """A float32 sampler of its own, exact noise rounded once: all 2,000 draws are accepted."""
    z = np.sin(np.arange(300.0)) * 4
    seeds, positions = np.arange(2000), np.arange(2000)
    e = exponentials(seeds, positions, np.arange(300)).astype(np.float32)
    tokens = (e * np.exp((z.max() - z).astype(np.float32))).argmin(axis=1)
    assert noise.accepts(tokens, z, seeds, positions).all()
    other = (tokens + 1) % 300
    assert not noise.accepts(other, z, seeds, positions).any()


def test_accepts_only_minus_one_where_nothing_can_be_drawn() -> None:
    """A masked row has no token."""
    masked = np.full(3, -np.inf)
    assert noise.accepts(ints(-1, 0), masked, ints(1, 2), ints(0, 0)).tolist() == [True, False]
    assert noise.accepts(ints(-1), np.zeros(3), ints(1), ints(0)).tolist() == [False]


def test_ends_of_the_uniform_are_as_stated() -> None:
    """The low end is lost in 24 bits; the high end, before the clamp, rounds to 1 in float32."""
    (seed, position, token), high = noise.ENDS["philox"]
    (low,) = noise.uniforms(np.array([seed]), np.array([position]), np.array([token]))[0]
    assert 0 < low < 2.0**-25
    seed, position, token = high
    counter = np.array([[token >> 1, position, 0, 0]], dtype=np.uint32)
    words = noise.philox4x32(counter, np.array([[seed, 0]], dtype=np.uint32))[0]
    # An odd token takes words 2 and 3; the lower half adds less than 2^-32.
    assert np.float32(int(words[2]) / 2**32) == 1


def test_ends_of_murmur_are_as_stated() -> None:
    """The same of vLLM's noise."""
    at = [[np.array([number]) for number in end] for end in noise.ENDS["murmur"]]
    low, high = (murmur.uniforms32(*end).item() for end in at)
    assert 0 < low < 2.0**-25
    assert high == 1


def test_streams_of_one_seed_share_nothing() -> None:
    """The domain is the fourth word of Philox's counter."""
    seed, position, token = 7, 9, 4
    counter = np.array([[2, 9, 0, noise.RESIDUAL]], dtype=np.uint32)
    high, low = noise.philox4x32(counter, np.array([[7, 0]], dtype=np.uint32))[0, :2].tolist()
    u = noise.uniforms(ints(seed), ints(position), ints(token), noise.RESIDUAL)
    assert u[0, 0] == (high + (low + 0.5) / 2**32) / 2**32
    drawn = {
        noise.uniforms(ints(seed), ints(position), ints(token), domain)[0, 0]
        for domain in (noise.DRAW, noise.ACCEPTANCE, noise.RESIDUAL, noise.DRAFT)
    }
    assert len(drawn) == 4


# vllm 0.32.0 v1/worker/gpu/sample/gumbel.py, gumbel_sample on this row with these labels at
# temperature 1, in Triton 3.9's interpreter.
VLLM_ROW = (37 * np.arange(300) % 101) / 64
VLLM_SEEDS = (0, -1, 1, 2**40 + 5, -(2**63), 42, 42, 42)
VLLM_POSITIONS = (0, 1, 2, 3, 2**31, 5, 6, 7)
VLLM_TOKENS = {
    ("murmur", noise.DRAW): [265, 160, 129, 286, 144, 157, 150, 81],
    ("murmur", noise.DRAFT): [212, 43, 250, 93, 228, 209, 277, 267],
    ("murmur-fp64", noise.DRAW): [219, 212, 29, 262, 281, 57, 289, 214],
    ("murmur-fp64", noise.DRAFT): [155, 299, 117, 48, 197, 291, 161, 274],
}


@pytest.mark.parametrize(("name", "domain"), VLLM_TOKENS)
def test_vllm_draws_are_predicted(name: str, domain: int) -> None:
    """Its own kernel's tokens, none of which is a near tie."""
    labels = zip(VLLM_SEEDS, VLLM_POSITIONS, strict=True)
    predicted = [noise.predict(name, VLLM_ROW, *label, domain) for label in labels]
    assert [token for token, _ in predicted] == VLLM_TOKENS[name, domain]
    assert min(margin for _, margin in predicted) > 0


@pytest.mark.parametrize("name", noise.NOISES)
def test_race_of_every_noise_draws_from_the_softmax(name: str) -> None:
    """Pearson chi-square of 20,000 draws at false-alarm rate 1e-6; the wrong law is found."""
    z = np.log(np.array([0.4, 0.3, 0.2, 0.1]))
    n = 20_000
    tokens = noise.race(z, np.arange(n), np.full(n, 5), name)
    counts = np.bincount(tokens, minlength=4)
    assert stats.chisquare(counts, n * np.exp(z)).pvalue > 1e-6
    assert stats.chisquare(counts, n * np.array([0.41, 0.32, 0.19, 0.08])).pvalue < 1e-6


@pytest.mark.parametrize("name", noise.NOISES)
def test_prediction_is_the_race_and_the_only_token_accepted(name: str) -> None:
    """Wherever the margin is positive."""
    z, seeds, positions = np.sin(np.arange(50.0)), np.arange(40) - 20, np.arange(40)
    tokens = noise.race(z, seeds, positions, name)
    labels = zip(seeds.tolist(), positions.tolist(), strict=True)
    predicted = [noise.predict(name, z, *label) for label in labels]
    assert [token for token, _ in predicted] == tokens.tolist()
    assert min(margin for _, margin in predicted) > 0
    accepted = [noise.accepts(np.full(40, token), z, seeds, positions, name) for token in range(50)]
    assert np.array_equal(np.sum(accepted, axis=0), np.ones(40))


@pytest.mark.parametrize(
    ("name", "near", "far"),
    # Relative errors: float32 about 1e-6 of a score; float64 1e-15, but vLLM's row is divided in
    # float32 before, to 2 ulps of a logit around 1.
    [
        ("philox", 1e-6, 1e-5),
        ("philox-fp64", 1e-15, 1e-13),
        ("murmur", 1e-6, 1e-5),
        ("murmur-fp64", 1e-7, 1e-6),
    ],
)
def test_a_near_tie_has_no_positive_margin(name: str, near: float, far: float) -> None:
    """The loser is brought to ``near``, then to ``far`` nats behind the winner."""
    labels = ints(12), ints(34), noise.DRAW
    (first, second), _ = (x[0] for x in noise.NOISES[name](np.zeros(2), ints(0, 1), *labels))
    for gap in (near, far):
        token, margin = noise.predict(name, np.array([0, second - first - gap]), 12, 34)
        assert token == 0
        assert (margin > 0) == (gap == far)


def test_prediction_without_rival_or_without_token() -> None:
    """One token wins by any margin; a masked row has none."""
    alone = np.array([-np.inf, 3.0, -np.inf])
    assert noise.predict("murmur", alone, 1, 2) == (1, np.inf)
    assert noise.predict("philox", np.full(3, -np.inf), 1, 2) == (-1, np.inf)


def test_unknown_noise_is_refused() -> None:
    """The message lists what is known."""
    with pytest.raises(ValueError, match="unknown noise 'mt19937'; known: philox, philox-"):
        noise.predict("mt19937", np.zeros(2), 1, 2)
