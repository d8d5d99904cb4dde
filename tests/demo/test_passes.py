"""Noise and offset of the forward passes."""

import numpy as np

from sampler_audit.demo.model import DemoModel
from sampler_audit.demo.passes import Passes

MODEL = DemoModel()
CONTEXT = (1, 2, 3)
ROW = MODEL.row(CONTEXT)
ROUNDING = 1e-5  # two float32 sums of numbers below 32


def passes(noise: float = 0.0, offset: float = 0.0, seed: int = 1) -> Passes:
    """Passes of the built-in model."""
    return Passes(MODEL, noise=noise, offset=offset, seed=seed)


def test_without_noise_every_pass_gives_the_models_row() -> None:
    """To the bit."""
    assert np.array_equal(passes().draw_row(CONTEXT), ROW)
    assert np.array_equal(passes().prompt_row(CONTEXT), ROW)


def test_noise_is_another_one_in_each_pass_and_bounded() -> None:
    """Both paths have it; the largest of 4096 uniform errors is near the bound of .3."""
    source = passes(noise=0.3)
    errors = [source.draw_row(CONTEXT) - ROW for _ in range(2)] + [source.prompt_row(CONTEXT) - ROW]
    assert all(0.29 < np.abs(error).max() <= 0.3 + ROUNDING for error in errors)
    assert all(np.abs(errors[i] - errors[i - 1]).max() > 0.3 for i in range(3))


def test_an_offset_is_a_constant_of_the_draws_alone() -> None:
    """The same at every pass and in no pass of a prompt; another one at another context."""
    source = passes(offset=0.1)
    offset = source.draw_row(CONTEXT) - ROW
    assert 0.09 < np.abs(offset).max() <= 0.1 + ROUNDING
    assert np.array_equal(source.draw_row(CONTEXT) - ROW, offset)
    assert np.array_equal(source.prompt_row(CONTEXT), ROW)
    elsewhere = source.draw_row((4,)) - MODEL.row((4,))
    assert np.abs(elsewhere - offset).max() > 0.1
