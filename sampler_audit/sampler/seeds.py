"""The 64-bit seed of every request: its own, or one drawn at admission."""

from dataclasses import replace

import numpy as np

from sampler_scenarios.params import SamplingParams

_MODULUS = 1 << 64
_INT64 = 1 << 63


def seed_of(params: SamplingParams, rng: np.random.Generator) -> int:
    """The seed as int64; values from 2^63 to 2^64 - 1 stand for the same 64 bits.

    A request without one gets 64 bits of ``rng``, which only such requests advance.
    """
    if params.seed is None:
        return int(rng.integers(-_INT64, _INT64))
    return (params.seed + _INT64) % _MODULUS - _INT64


def choices(params: SamplingParams) -> tuple[SamplingParams, ...]:
    """The n requests, of one choice each, that a request of n choices is.

    Unseeded ones draw a seed each. The seed of choice i is ``seed XOR mix(i)``, mix being the
    bijective finalizer of SplitMix64 (Steele et al. 2014): no two choices share one, the first
    keeps the request's, and choice 1 of seed 7 is not choice 0 of seed 8.
    """
    return tuple(
        replace(params, n=1, seed=None if params.seed is None else _child(params.seed, index))
        for index in range(params.n)
    )


def _child(seed: int, index: int) -> int:
    return seed % _MODULUS ^ _mix(index)


def _mix(z: int) -> int:
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % _MODULUS
    z = (z ^ z >> 27) * 0x94D049BB133111EB % _MODULUS
    return z ^ z >> 31
