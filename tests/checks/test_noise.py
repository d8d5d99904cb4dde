import numpy as np
import pytest
from numpy.typing import NDArray

from sampler_audit.checks import check_names, noise
from sampler_audit.results import CheckResult
from sampler_reference.noise import NOISES, race

Z = np.log(np.array([0.4, 0.3, 0.2, 0.1]))
SEEDS = np.arange(64, dtype=np.int64)
POSITIONS = SEEDS + 2**33


def check(tokens: NDArray[np.int64], name: str) -> CheckResult:
    """The tokens of all seeds and positions."""
    return noise.check(tokens, Z, SEEDS, POSITIONS, noise_name=name, source="kernel")


@pytest.mark.parametrize("name", NOISES)
def test_the_reference_s_own_tokens_pass(name: str) -> None:
    """They are what the noise picks."""
    assert check(race(Z, SEEDS, POSITIONS, name), name).outcome == "pass"


def test_another_noise_fails() -> None:
    """The same seeds and positions pick other tokens."""
    assert check(race(Z, SEEDS, POSITIONS, "philox"), "murmur").outcome == "fail"


def test_noise_of_another_position_fails() -> None:
    """Power twin, and the message says which seed and position to look at."""
    tokens = race(Z, SEEDS, POSITIONS + 1)
    result = check(tokens, "philox")
    assert result.outcome == "fail"
    assert "seed" in result.reason


@pytest.mark.parametrize(("name", "winners"), [("philox", [12, 0, 69]), ("murmur", [2, 0, 75])])
def test_the_ends_of_the_uniform_decide_as_stated(name: str, winners: list[int]) -> None:
    """By hand: 1.76e-9 e^18 = .116 comes before the head's time, 1.76e-9 e^40 does not."""
    found = [
        race(z, np.array([seed]), np.array([position]), name).item()
        for z, seed, position in noise.end_values(name).values()
    ]
    assert found == winners


def test_a_noise_of_unknown_ends_has_none() -> None:
    """Float64 tells them from 0 and 1 anyway."""
    assert noise.end_values("philox-fp64") == {}


def test_checks_are_found_by_listing_the_folder() -> None:
    """A check is one file."""
    first = ("histogram", "kept_set", "log_probs", "logits", "no_effect", "noise")
    assert check_names() == (*first, "seeds", "support")
