import numpy as np

from sampler_audit.checks import check_names, noise
from sampler_reference.noise import race

Z = np.log(np.array([0.4, 0.3, 0.2, 0.1]))
SEEDS = np.arange(64, dtype=np.int64)
POSITIONS = SEEDS + 2**33


def test_the_reference_s_own_tokens_pass() -> None:
    """They are what the noise picks."""
    tokens = race(Z, SEEDS, POSITIONS)
    assert noise.check(tokens, Z, SEEDS, POSITIONS, source="bulk").outcome == "pass"


def test_noise_of_another_position_fails() -> None:
    """Power twin, and the message says which seed and position to look at."""
    tokens = race(Z, SEEDS, POSITIONS + 1)
    result = noise.check(tokens, Z, SEEDS, POSITIONS, source="kernel")
    assert result.outcome == "fail"
    assert "seed" in result.reason


def test_the_ends_of_the_uniform_decide_as_stated() -> None:
    """By hand: 1.76e-9 e^18 = .116 comes before the head's time, 1.76e-9 e^40 does not."""
    winners = {
        name: race(z, np.array([seed]), np.array([position])).item()
        for name, (z, seed, position) in noise.end_values().items()
    }
    assert list(winners.values()) == [12, 0, 69]


def test_checks_are_found_by_listing_the_folder() -> None:
    """A check is one file."""
    first = ("histogram", "kept_set", "log_probs", "logits", "no_effect", "noise")
    assert check_names() == (*first, "seeds", "support")
