import numpy as np

from sampler_audit.sampler.seeds import choices, seed_of
from sampler_scenarios.params import SamplingParams


def test_seeds_are_64_bits() -> None:
    """2^64 - 1 and -1 are the same bits, and so are 2^63 and -2^63."""
    rng = np.random.default_rng(0)
    given = (0, 5, -1, 2**63 - 1, 2**63, 2**64 - 1, -(2**63))
    seeds = [seed_of(SamplingParams(seed=seed), rng) for seed in given]
    assert seeds == [0, 5, -1, 2**63 - 1, -(2**63), -1, -(2**63)]


def test_unseeded_requests_take_the_next_of_the_generator() -> None:
    """Seeded ones in between take none, and all 64 bits vary."""
    drawn = np.random.default_rng(3).integers(-(2**63), 2**63, 2).tolist()
    rng = np.random.default_rng(3)
    seeds = [seed_of(SamplingParams(seed=s), rng) for s in (None, 8, None)]
    assert seeds == [drawn[0], 8, drawn[1]]
    spread = [seed_of(SamplingParams(), rng) for _ in range(64)]
    # A bit that is stuck in 64 fair draws has a chance of 2^-63.
    assert [np.bitwise_or.reduce(spread), np.bitwise_and.reduce(spread)] == [-1, 0]


def test_choices_of_a_seeded_request() -> None:
    """As many requests of one choice with distinct seeds, the first of which is the request's own.

    The seeds of choice 1 are 7 and 8 XOR SplitMix64's finalizer of 1, 0x5692161D100B05E5 (its
    published constants, in Python's integers).
    """
    sevens, eights = (choices(SamplingParams(seed=s, n=100)) for s in (7, 8))
    assert [p.n for p in sevens] == [1] * 100
    assert [sevens[0].seed, eights[0].seed] == [7, 8]
    assert [sevens[1].seed, eights[1].seed] == [0x5692161D100B05E2, 0x5692161D100B05ED]
    assert len({p.seed for p in (*sevens, *eights)}) == 200


def test_choices_of_an_unseeded_request() -> None:
    """Each draws a seed of its own at admission."""
    assert [p.seed for p in choices(SamplingParams(n=3, top_k=4))] == [None] * 3
