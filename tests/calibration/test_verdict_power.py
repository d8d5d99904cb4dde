"""Planted laws are found at the draw counts that the method's tables promise, and not below."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special

from sampler_audit.statistics.box import Box, noise_box
from sampler_audit.statistics.e_values import cell_log_e
from sampler_audit.statistics.power import PlannedCell, coverage

RUN_OF_20 = float(np.log(20 / 1e-4))
"""One alternative of 20, three shares of cells each, at a false-alarm rate of 1e-4 for the run."""


def _box(law: NDArray[np.float64], eps: float) -> Box:
    kept = np.ones(law.size, dtype=np.bool_)
    return noise_box(law, kept, kept, eps)


@pytest.mark.parametrize(
    ("mass", "n_cells", "eps", "n_draws"),
    [
        (0.01, 10, 0.0, 137),
        (0.01, 50, 0.0, 28),
        (0.01, 50, 0.3, 51),
        (0.05, 10, 0.0, 27),
        (0.05, 50, 0.0, 6),
        (0.05, 50, 0.1, 7),
        (0.05, 50, 0.3, 10),
        (0.10, 50, 0.0, 3),
        (0.10, 50, 0.3, 5),
        (0.49, 10, 0.0, 3),
    ],
)
def test_dropped_token_is_found_at_the_tabulated_draws(
    mass: float, n_cells: int, eps: float, n_draws: int
) -> None:
    """Pooled over cells, found at the tabulated number of draws and missed at one less."""
    box = _box(np.array([1 - mass, mass]), eps)
    rng = np.random.default_rng(12)
    enough, fewer = (
        coverage([PlannedCell(box, np.array([1.0, 0.0]), n)] * n_cells, RUN_OF_20, rng)
        for n in (n_draws, n_draws - 1)
    )
    assert (enough.n_found, fewer.n_found) == (200, 0)


@pytest.mark.parametrize("mass", [0.01, 0.05, 0.10, 0.49])
@pytest.mark.parametrize("eps", [0.0, 0.1, 0.3])
def test_one_cell_finds_a_dropped_runner_up(mass: float, eps: float) -> None:
    """Two tokens, the second dropped: the prior costs a factor 5 over the exact p-value."""
    per_draw = -np.log1p(-special.expit(special.logit(mass) - 2 * eps))
    # Weight .8, one of two sets, half on "never drawn": a fifth of the exact p-value's reciprocal.
    enough, too_few = np.ceil(np.log(5e7) / per_draw), np.floor(np.log(1e7) / per_draw)
    log_es = cell_log_e([[enough, 0], [too_few, 0]], _box(np.array([1 - mass, mass]), eps))
    assert log_es[0] >= np.log(1e7) > log_es[1]
