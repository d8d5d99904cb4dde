"""The verdict on samplers whose law is known: how often healthy ones fail, and faulty ones too.

Whole synthetic runs of the evidence that gates a run, looked at several times while they draw.
Their cells and defects are made up here; nothing of an engine, a row or a filter enters.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sampler_audit.statistics.box import Box, noise_box
from sampler_audit.statistics.chi_square import g_pvalues
from sampler_audit.statistics.e_values import (
    Contrast,
    cell_log_e,
    contrast,
    contrast_log_e,
    log_mean_exp,
    pooled_log_e,
    run_log_e,
)
from sampler_audit.statistics.effect import clopper_pearson
from sampler_audit.statistics.independence import collision_upper, duplicate_log_e, tie_log_es

Floats = NDArray[np.float64]

LOOKS = (5, 10, 20, 40)
"""Draws per cell after which the evidence is looked at; the run stops at the first failure."""

N_FILTERS = 4
"""Filters a cell may have on; a defect is pooled over the cells that have a given set on."""

N_TEXT = 4
"""Cells whose first draws form the text of a seed, compared between seeds."""

CHUNK = 500
"""Runs that are simulated at once, for memory's sake."""


@dataclass(frozen=True)
class Calibration:
    """How many of ``n_runs`` synthetic runs failed; ``interval`` is Clopper-Pearson's at 95 %."""

    n_runs: int
    n_failed: int
    interval: tuple[float, float]


def healthy_runs(
    n_runs: int, alpha: float, seed: int, *, n_cells: int = 32, eps: float = 0.0
) -> Calibration:
    """Runs of a perfect sampler whose log-probs are known to within ``eps`` nats.

    In each run every cell's true law is moved anew within that error. At most the share
    ``alpha`` fails in the long run; the method is conservative, so expect fewer.
    """
    return _runs(n_runs, alpha, seed, n_cells, eps, lambda law: law)


def faulty_runs(
    defect: str, n_runs: int, alpha: float, seed: int, *, n_cells: int = 32, eps: float = 0.0
) -> Calibration:
    """As ``healthy_runs``, with one of DEFECTS in every cell."""
    return _runs(n_runs, alpha, seed, n_cells, eps, DEFECTS[defect])


def chi_square_runs(
    n_runs: int, alpha: float, seed: int, *, n_cells: int = 200, n_draws: int = 200
) -> Calibration:
    """Runs of a perfect sampler under the classical gate, the smallest Holm-adjusted p-value of G.

    Nothing proves a bound here: chi-square is G's law for many draws only, and far out in its
    tail at the expected counts of an audit the rate can only be measured. Looked at once, and the
    log-probs are exact.
    """
    rng = np.random.default_rng(seed)
    laws = [_make_survivors(rng) for _ in range(n_cells)]
    smallest = np.ones(n_runs)
    for law in laws:
        tables = rng.multinomial(n_draws, law, size=n_runs)
        smallest = np.minimum(smallest, g_pvalues(tables, law))
    # Holm multiplies the smallest p-value by the number of all.
    return _calibration(n_runs, int((n_cells * smallest < alpha).sum()))


def _calibration(n_runs: int, n_failed: int) -> Calibration:
    lower, upper = clopper_pearson(n_failed, n_runs)
    return Calibration(n_runs, n_failed, (float(lower), float(upper)))


def _normalised(weights: Floats) -> Floats:
    return np.asarray(weights / weights.sum())


def _without(law: Floats, ranks: slice) -> Floats:
    left = law.copy()
    left[ranks] = 0
    return _normalised(left)


def _halved(law: Floats, rank: int) -> Floats:
    left = law.copy()
    left[rank] /= 2
    return _normalised(left)


def _power(law: Floats, exponent: float) -> Floats:
    # 0 ** exponent stays 0: nothing leaks.
    return _normalised(law**exponent)


def _one_too_many(law: Floats) -> Floats:
    left = law.copy()
    left[-1] = law[-2]
    return _normalised(left)


DEFECTS: dict[str, Callable[[Floats], Floats]] = {
    "weakest missing": lambda law: _without(law, slice(-2, -1)),
    "runner-up missing": lambda law: _without(law, slice(1, 2)),
    "first missing": lambda law: _without(law, slice(0, 1)),
    "tail half missing": lambda law: _without(law, slice(law.size // 2, None)),
    "all but the first missing": lambda law: _without(law, slice(1, None)),
    "one too many": _one_too_many,
    "weakest halved": lambda law: _halved(law, -2),
    "runner-up halved": lambda law: _halved(law, 1),
    "temperature 0.7 twice": lambda law: _power(law, 1 / 0.7),
    "temperature 0.7 ignored": lambda law: _power(law, 0.7),
    "temperature 0.5 twice": lambda law: _power(law, 2.0),
    "temperature 0.5 ignored": lambda law: _power(law, 0.5),
}
"""Make laws ``[k + 1]`` wrong: survivors in descending order, then one token to be dropped."""


@dataclass(frozen=True, eq=False)
class _Cell:
    law: Floats
    box: Box
    wide_box: Box
    filters: int
    contrasts: list[Contrast]


def _make_survivors(rng: np.random.Generator) -> Floats:
    """2 to 20 survivors in descending order, whose weakest has at least 1 %."""
    k = int(rng.integers(2, 21))
    return _normalised(np.sort(rng.dirichlet(np.ones(k)) + 0.25 / k)[::-1])


def _make_cell(rng: np.random.Generator, index: int, eps: float) -> _Cell:
    """Survivors and a token to be dropped, under combination ``index`` mod 16."""
    law = np.append(_make_survivors(rng), 0.0)
    kept = law > 0
    box, wide_box = (noise_box(law, kept, kept, error) for error in (eps, 3 * eps))
    contrasts = [contrast(defect(law), box) for defect in DEFECTS.values()]
    return _Cell(law, box, wide_box, index % 2**N_FILTERS, contrasts)


def _runs(
    n_runs: int,
    alpha: float,
    seed: int,
    n_cells: int,
    eps: float,
    planted: Callable[[Floats], Floats],
) -> Calibration:
    rng = np.random.default_rng(seed)
    cells = [_make_cell(rng, index, eps) for index in range(n_cells)]
    n_failed = 0
    for start in range(0, n_runs, CHUNK):
        evidence = _evidence(cells, rng, min(CHUNK, n_runs - start), eps, planted)
        n_failed += int((evidence >= np.log(1 / alpha)).any(axis=0).sum())
    return _calibration(n_runs, n_failed)


def _evidence(
    cells: list[_Cell],
    rng: np.random.Generator,
    n_runs: int,
    eps: float,
    planted: Callable[[Floats], Floats],
) -> Floats:
    """The run's log e-value at every look, ``[n_looks, n_runs]``."""
    tokens = [_draw(planted(cell.law), rng, n_runs, eps) for cell in cells]
    counts = [_counts(t, c.law.size) for t, c in zip(tokens, cells, strict=True)]
    pairs = list(zip(cells, counts, strict=True))
    sets = np.arange(2**N_FILTERS)[:, None]
    members = np.array([cell.filters for cell in cells]) & sets == sets
    defects = np.stack([_defect_log_es(cell, x) for cell, x in pairs], axis=-1)
    pooled = pooled_log_e(defects, members).reshape(len(LOOKS), n_runs, -1)
    single = np.stack([cell_log_e(x, cell.wide_box) for cell, x in pairs], axis=-1)
    ties = sum((_tie_log_es(t) for t in tokens), np.zeros(()))
    return run_log_e(pooled, single, log_mean_exp(ties), _duplicates(cells, tokens))


def _draw(law: Floats, rng: np.random.Generator, n_runs: int, eps: float) -> NDArray[np.int64]:
    """Tokens in order, ``[n_runs, n_draws]``, from the law moved within ``eps`` nats per run."""
    weights = law * np.exp(rng.uniform(-eps, eps, size=(n_runs, law.size)))
    edges = np.cumsum(weights, axis=-1)[:, None, :]
    uniform = rng.random((n_runs, LOOKS[-1], 1)) * edges[..., -1:]
    return np.asarray((uniform >= edges).sum(axis=-1))


def _counts(tokens: NDArray[np.int64], k: int) -> Floats:
    """Counts at every look, ``[n_looks, n_runs, k]``."""
    hits = tokens[..., None] == np.arange(k)
    return np.stack([hits[:, :n].sum(axis=1) for n in LOOKS]).astype(np.float64)


def _defect_log_es(cell: _Cell, counts: Floats) -> Floats:
    """Log e-value of every defect, ``[n_looks, n_runs, n_defects]``."""
    groups = np.stack([np.eye(4)[c.labels] for c in cell.contrasts], axis=1)
    group_counts = np.einsum("lrk,kdg->lrdg", counts, groups)
    probs = np.stack([c.probs for c in cell.contrasts])
    lower = np.stack([c.box.lower for c in cell.contrasts])
    upper = np.stack([c.box.upper for c in cell.contrasts])
    acts = np.array([c.acts for c in cell.contrasts])
    return np.where(acts, contrast_log_e(group_counts, probs, Box(lower, upper)), 0.0)


def _tie_log_es(tokens: NDArray[np.int64]) -> Floats:
    """Bets on ties at every look, each round by itself, ``[n_looks, n_runs, n_bets]``."""
    rounds = np.split(tokens, LOOKS[:-1], axis=-1)
    return np.cumsum([tie_log_es(round_tokens) for round_tokens in rounds], axis=0)


def _duplicates(cells: list[_Cell], tokens: list[NDArray[np.int64]]) -> Floats:
    """Copies among the texts of the first round, draw by draw a seed, ``[n_runs]``."""
    texts = np.stack([t[:, : LOOKS[0]] for t in tokens[:N_TEXT]], axis=-1)
    bounds = np.array([collision_upper(cell.box) for cell in cells[:N_TEXT]])
    return np.array([duplicate_log_e(text, bounds) for text in texts])
