"""Would the run have found it? Planned defects, replayed on the run's own laws and draw counts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sampler_audit.statistics.box import Box
from sampler_audit.statistics.chi_square import g_pvalues
from sampler_audit.statistics.e_values import Contrast, contrast, contrast_log_e, pooled_log_e
from sampler_audit.statistics.effect import clopper_pearson

REQUIRED_POWER = 0.9
"""A defect counts as covered where the run finds it at least this often, proved at 95 %."""

FACTORS = (2, 4, 8, 16, 32, 64)
"""How many times more draws are tried to find out how many would do."""


@dataclass(frozen=True, eq=False)
class PlannedCell:
    """A cell in which a defect could act.

    Attributes:
        box: ``[k]``, the laws of a healthy sampler.
        q_defect: ``[k]``, the law of the defect, before noise.
        n_draws: How many draws the run makes.
        telling: Share of the draws that ``box`` calls impossible which fail the run by themselves;
            the rest only count as evidence, because a larger error would allow them.
    """

    box: Box
    q_defect: NDArray[np.float64]
    n_draws: int
    telling: float = 1.0


@dataclass(frozen=True)
class Power:
    """How often a planted defect was found.

    Attributes:
        n_runs: Synthetic runs.
        n_found: Runs that found it.
        n_cells: Cells in which the defect leaves the noise box; with none it is not exercised.
        lower95: Lower bound on the power, one-sided 95 % (Clopper-Pearson).
    """

    n_runs: int
    n_found: int
    n_cells: int
    lower95: float

    @property
    def covered(self) -> bool:
        """Whether a run without this finding says that the defect is absent."""
        return self.lower95 >= REQUIRED_POWER


def coverage(
    cells: Sequence[PlannedCell],
    log_threshold: float,
    rng: np.random.Generator,
    *,
    n_runs: int = 200,
) -> Power:
    """Synthetic runs with the defect planted in every cell, and how many of them fail.

    A run fails where the pooled evidence of this defect reaches ``log_threshold``, or where a
    telling token is drawn that the box calls impossible. Every cell's law is moved within the
    noise of its box, by group and afresh in each run. Other pieces of the run's evidence would
    only add.
    """
    everywhere = np.ones((1, len(cells)), dtype=np.bool_)
    return coverage_by_set(cells, everywhere, log_threshold, rng, n_runs=n_runs)[0]


def coverage_by_set(
    cells: Sequence[PlannedCell],
    members: NDArray[np.bool_],
    log_threshold: float,
    rng: np.random.Generator,
    *,
    n_runs: int = 200,
) -> list[Power]:
    """``coverage`` for each of the sets ``members [n_sets, n_cells]``, from the same draws."""
    contrasts = [contrast(cell.q_defect, cell.box) for cell in cells]
    acting = np.array([c.acts for c in contrasts], dtype=np.bool_)
    inside = members[:, acting]
    found = np.zeros((n_runs, len(members)), dtype=np.bool_)
    if acting.any():
        n_draws = np.array([cell.n_draws for cell in cells])[acting]
        telling = np.array([cell.telling for cell in cells])[acting]
        log_es, n_impossible = _replay([c for c in contrasts if c.acts], n_draws, rng, n_runs)
        told = n_impossible > 0
        if (telling < 1).any():
            told = rng.binomial(n_impossible, telling) > 0
        found = (pooled_log_e(log_es, inside) >= log_threshold) | (told @ inside.T)
    n_found = np.where(inside.any(axis=1), found.sum(axis=0), 0)
    lower95 = clopper_pearson(n_found, n_runs, 0.9)[0]
    return [
        Power(n_runs, int(n), int(n_cells), float(low))
        for n, n_cells, low in zip(n_found, inside.sum(axis=1), lower95, strict=True)
    ]


def classical_coverage_by_set(
    cells: Sequence[PlannedCell],
    members: NDArray[np.bool_],
    alpha: float,
    rng: np.random.Generator,
    *,
    n_runs: int = 200,
) -> list[Power]:
    """``coverage_by_set`` for the classical gate: a run fails where one cell's G does.

    A cell fails where its p-value is below ``alpha``, the run's level over its number of cells:
    Holm's first step, which his later ones only add to. Laws are not moved within their box.
    """
    fails = np.zeros((n_runs, len(cells)), dtype=np.bool_)
    acts = np.array([contrast(cell.q_defect, cell.box).acts for cell in cells], dtype=np.bool_)
    for i in np.flatnonzero(acts).tolist():
        cell, possible = cells[i], cells[i].box.center > 0
        counts = rng.multinomial(cell.n_draws, cell.q_defect, size=n_runs)
        fails[:, i] = counts[:, ~possible].any(axis=1)
        whole = ~fails[:, i]
        if whole.any():
            center = cell.box.center[possible] / cell.box.center.sum()
            fails[whole, i] = g_pvalues(counts[whole][:, possible], center) < alpha
    n_found = (fails @ members.T.astype(np.int64) > 0).sum(axis=0)
    lower95 = clopper_pearson(n_found, n_runs, 0.9)[0]
    return [
        Power(n_runs, int(n), int(n_cells), float(low))
        for n, n_cells, low in zip(n_found, (members & acts).sum(axis=1), lower95, strict=True)
    ]


def _replay(
    contrasts: Sequence[Contrast],
    n_draws: NDArray[np.int64],
    rng: np.random.Generator,
    n_runs: int,
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Log e-values of synthetic runs and their impossible draws, ``[n_runs, n_cells]`` twice."""
    probs = np.stack([c.probs for c in contrasts])
    box = Box(
        np.stack([c.box.lower for c in contrasts]), np.stack([c.box.upper for c in contrasts])
    )
    weights = rng.uniform(box.lower, box.upper, size=(n_runs, *probs.shape))
    healthy = weights / weights.sum(axis=-1, keepdims=True)
    # Leaked tokens have no weight under the null and so no noise of their own.
    noise = np.divide(healthy, box.center, out=np.ones_like(weights), where=box.upper > 0)
    moved = probs * noise
    counts = rng.multinomial(n_draws, moved / moved.sum(axis=-1, keepdims=True))
    return contrast_log_e(counts, probs, box), counts[..., 3]


def draws_needed(
    cells: Sequence[PlannedCell],
    log_threshold: float,
    rng: np.random.Generator,
    *,
    n_runs: int = 200,
) -> int | None:
    """The smallest factor in FACTORS by which more draws would cover the defect; None if none."""
    for factor in FACTORS:
        more = [replace(cell, n_draws=factor * cell.n_draws) for cell in cells]
        if coverage(more, log_threshold, rng, n_runs=n_runs).covered:
            return factor
    return None
