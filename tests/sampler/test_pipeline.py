import numpy as np
import pytest
import torch

from sampler_audit.sampler import Sampler
from sampler_reference.conventions import CONVENTIONS
from sampler_reference.distribution import reference_distribution, scaled
from sampler_reference.noise import accepts
from sampler_scenarios.params import SamplingParams

PARAMS = (
    SamplingParams(),
    SamplingParams(temperature=0, top_k=5, top_p=0.01, min_p=1),
    SamplingParams(temperature=1e-50),
    SamplingParams(temperature=0.6, top_k=7),
    SamplingParams(temperature=2, top_p=0.8),
    SamplingParams(min_p=0.2, top_k=1000),
    SamplingParams(temperature=1.5, top_k=12, top_p=0.7, min_p=0.05),
)
ROWS = np.random.default_rng(7).normal(0, 2, (len(PARAMS), 64)).astype(np.float32)
# A tied maximum under greedy, and ties across the edge of top_k=7.
ROWS[1, [9, 30]] = 8
ROWS[3] = np.round(ROWS[3])


def pairs(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """``n`` different (seed, position) pairs, some of them beyond 32 bits."""
    return torch.arange(n) + 2**40, torch.arange(n) * 3 + 2**33


@pytest.mark.parametrize("path", ["kernel", "twin"])
def test_kept_sets_are_those_of_the_reference(path: str) -> None:
    """Every row of a mixed batch, against the sorting float64 reference, greedy rows included."""
    masked = Sampler("kernel" if path == "kernel" else "twin").filter(
        torch.from_numpy(ROWS), PARAMS
    )
    for row, params, got in zip(ROWS, PARAMS, masked, strict=True):
        expected = reference_distribution(row, params, CONVENTIONS["sampler-audit"])
        assert (got > -torch.inf).tolist() == expected.kept.tolist()


def test_greedy_takes_the_lowest_of_tied_maxima() -> None:
    """Token 9 of the tied 9 and 30, at every seed."""
    seeds, positions = pairs(20)
    tokens = Sampler("twin").draw(torch.from_numpy(ROWS), PARAMS, 1, seeds, positions)
    assert tokens.tolist() == [9] * 20


@pytest.mark.parametrize("index", range(len(PARAMS)))
def test_draws_follow_the_noise(index: int) -> None:
    """Each token is one that the float64 race of reference/noise.py allows for its labels.

    The row of the race is the reference's: divided by its temperature, and filtered.
    """
    row, params, (seeds, positions) = ROWS[index], PARAMS[index], pairs(200)
    law = reference_distribution(row, params, CONVENTIONS["sampler-audit"])
    z = np.where(law.kept, scaled(row, params.temperature), -np.inf)
    tokens = Sampler("twin").draw(torch.from_numpy(ROWS), PARAMS, index, seeds, positions)
    assert accepts(tokens.numpy(), z, seeds.numpy(), positions.numpy()).all()


def test_undivided_draws_are_noticed() -> None:
    """The test above rejects the tokens of a sampler that filters at T = 2 but draws at T = 1."""
    row, params, (seeds, positions) = ROWS[4], PARAMS[4], pairs(200)
    law = reference_distribution(row, params, CONVENTIONS["sampler-audit"])
    z = np.where(law.kept, scaled(row, params.temperature), -np.inf)
    undivided = torch.from_numpy(np.where(law.kept, row, np.float32(-np.inf)))
    tokens = Sampler("twin").draw(undivided[None], [SamplingParams()], 0, seeds, positions)
    assert not accepts(tokens.numpy(), z, seeds.numpy(), positions.numpy()).all()


def test_kernel_and_twin_draw_the_same_tokens() -> None:
    """Including the row that is all masked, which draws -1."""
    rows = torch.from_numpy(np.vstack([ROWS[6:], np.full((1, 64), -np.inf, np.float32)]))
    params = (PARAMS[6], SamplingParams(top_k=3))
    seeds, positions = pairs(12)
    for index in (0, 1):
        kernel, twin = (
            Sampler(path).draw(rows, params, index, seeds, positions) for path in ("kernel", "twin")
        )
        assert kernel.tolist() == twin.tolist()
    assert twin.tolist() == [-1] * 12
