"""Order and copies: exact validity by enumeration, and faults that are found."""

import itertools

import numpy as np
import pytest

from sampler_audit.statistics.box import noise_box
from sampler_audit.statistics.independence import (
    collision_upper,
    copies_log_e,
    duplicate_log_e,
    echo_log_es,
    exchangeability_log_e,
)


@pytest.mark.parametrize(
    "tokens", [[0, 0, 1], [0, 0, 0, 1, 1, 2], [5, 5, 5, 5], [1, 2, 3, 4], [0, 1] * 3, [7]]
)
def test_mean_over_all_orders_is_one(tokens: list[int]) -> None:
    """Under exchangeability every order of the same tokens is equally likely: the mean is 1."""
    orders = itertools.permutations(tokens)
    mean = np.mean([np.exp(exchangeability_log_e(np.array(order))) for order in orders])
    assert mean == pytest.approx(1, abs=1e-12)


def test_bets_by_hand() -> None:
    """Order a a b b: a repeats at chance 1/3, b then comes for sure; a b a b at 1/3 and 1/2."""
    shares = np.array([0.02, 0.05, 0.1, 0.3])
    # Ties: r = 1/3 on a a; then a has no copies left (nothing open), then b is sure.
    tied = np.mean((1 / 3 + shares * 2 / 3) / (1 / 3))
    assert exchangeability_log_e(np.array([3, 3, 8, 8])) == pytest.approx(np.log(tied))
    # No ties: each miss pays 1 - share, at r = 1/3, then 1 of 2; the last draw is settled.
    assert exchangeability_log_e(np.array([3, 8, 3, 8])) == pytest.approx(
        np.log(np.mean((1 - shares) ** 2))
    )


def test_rounds_share_one_bet() -> None:
    """Evidence of independent rounds multiplies within each bet before bets are averaged."""
    a, b = np.array([3, 3, 8, 8]), np.array([3, 8, 3, 8])
    shares = np.array([0.02, 0.05, 0.1, 0.3])
    both = np.mean((1 / 3 + shares * 2 / 3) / (1 / 3) * (1 - shares) ** 2)
    assert exchangeability_log_e(a, b) == pytest.approx(np.log(both))
    assert exchangeability_log_e() == 0
    assert exchangeability_log_e(np.array([], dtype=np.int64), np.array([4])) == 0


def test_tied_neighbours_are_found() -> None:
    """Half the draws copied from their predecessor, 100 draws of six tokens: 99.7 % are found."""
    rng = np.random.default_rng(17)

    def tied() -> float:
        tokens = rng.integers(0, 6, 100)
        for i in np.flatnonzero(rng.random(99) < 0.5):
            tokens[i + 1] = tokens[i]
        return exchangeability_log_e(tokens)

    # 200 runs at 99.7 %: fewer than 190 found has a chance below 1e-7.
    assert sum(tied() >= np.log(1e4) for _ in range(200)) >= 190


def test_healthy_order_is_not_accused() -> None:
    """2,000 healthy sequences reach 20 in at most 5 % (more than 150 has a chance below 1e-6)."""
    rows = np.random.default_rng(18).integers(0, 6, size=(2000, 100))
    assert sum(exchangeability_log_e(row) >= np.log(20) for row in rows) <= 150


def test_duplicate_e_value_has_mean_one() -> None:
    """Three seeds, two positions, every outcome of fair coins: collisions are 1/2 each."""
    outcomes = itertools.product([0, 1], repeat=6)
    texts = [np.array(outcome).reshape(3, 2) for outcome in outcomes]
    bounds = np.array([0.5, 0.5])
    e = [np.exp(duplicate_log_e(text, bounds)) for text in texts]
    assert np.mean(e) == pytest.approx(1, abs=1e-12)


def test_one_copy_of_a_long_text_is_proof() -> None:
    """One pair of 28 alike over 32 positions of collision 1/2: odds 2^32 / 28."""
    texts = np.random.default_rng(4).integers(0, 2, size=(8, 32))
    assert duplicate_log_e(texts, np.full(32, 0.5)) == -np.inf
    texts[5] = texts[2]
    assert duplicate_log_e(texts, np.full(32, 0.5)) == pytest.approx(np.log(2**32 / 28))


def test_one_seed_has_no_copies() -> None:
    """Without a pair there is nothing to compare."""
    assert duplicate_log_e(np.zeros((1, 4), dtype=np.int64), np.full(4, 0.5)) == 0


def test_collision_bound() -> None:
    """Sum of squares for one law; above it for every law of a box; never above 1."""
    law, kept = np.array([0.5, 0.3, 0.2]), np.ones(3, dtype=np.bool_)
    assert collision_upper(noise_box(law, kept, kept, 0)) == pytest.approx(0.38)
    moved = law * np.exp([0.2, -0.2, -0.2])
    assert collision_upper(noise_box(law, kept, kept, 0.2)) >= ((moved / moved.sum()) ** 2).sum()
    assert collision_upper(noise_box(law, kept, kept, 9.0)) == 1


@pytest.mark.parametrize(
    ("tokens", "earlier"), [([0, 0, 1, 2], [0, 1, 1, 2]), ([3, 3, 3], [3, 4, 4]), ([1], [1])]
)
def test_echoes_have_mean_one_over_all_orders(tokens: list[int], earlier: list[int]) -> None:
    """Whatever stands beside them, each bet is fair where the order is independent of it."""
    orders = itertools.permutations(tokens)
    means = np.mean([np.exp(echo_log_es(np.array(o), np.array(earlier))) for o in orders], axis=0)
    np.testing.assert_allclose(means, 1, atol=1e-12)


def test_an_echo_is_found_where_no_draw_repeats_the_one_before() -> None:
    """Forty draws repeated one by one by the next request."""
    tokens = np.random.default_rng(3).integers(0, 6, 40)
    assert echo_log_es(tokens, tokens).max() > np.log(1e4)


def test_copies_have_mean_at_most_one() -> None:
    """Over all pairs of texts of one token: E is 1 / (p of the text) where both agree."""
    probs = np.array([0.6, 0.3, 0.1])
    mean = 0.0
    for pair in itertools.product(range(3), repeat=2):
        texts = np.array(pair)[:, None]
        mean += probs[list(pair)].prod() * np.exp(copies_log_e(texts, np.log(probs[list(pair)])))
    assert mean == pytest.approx(1)


def test_a_copied_text_is_found() -> None:
    """Two of eight texts of 16 tokens agree, each with a chance below e^-20: 28 pairs."""
    texts = np.random.default_rng(5).integers(0, 50, (8, 16))
    assert copies_log_e(texts, np.full(8, -20.0)) == -np.inf
    texts[6] = texts[1]
    assert copies_log_e(texts, np.full(8, -20.0)) == pytest.approx(20 - np.log(28))
    assert copies_log_e(texts[:1], np.full(1, -20.0)) == 0
