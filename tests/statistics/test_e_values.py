"""E-values: exact proofs by enumeration that they are valid, closed forms that they have power."""

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special, stats

from sampler_audit.statistics.box import Box, noise_box
from sampler_audit.statistics.e_values import (
    cell_log_e,
    contrast,
    defect_log_e,
    e_bonferroni_threshold,
    pooled_log_e,
    pooled_threshold,
    run_log_e,
)

LAWS = [
    np.array([0.7, 0.3]),
    np.array([0.98, 0.02]),
    np.array([0.6, 0.3, 0.1]),
    np.array([0.5, 0.49, 0.01]),
]


def _box(law: NDArray[np.float64], eps: float) -> Box:
    kept = law > 0
    return noise_box(law, kept, kept, eps)


def _all_counts(n: int, k: int) -> NDArray[np.int64]:
    counts = np.array(list(itertools.product(range(n + 1), repeat=k)))
    return np.asarray(counts[counts.sum(axis=1) == n])


def _corner_laws(box: Box) -> NDArray[np.float64]:
    weights = np.array(list(itertools.product(*zip(box.lower, box.upper, strict=True))))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("n", [1, 2, 5, 12])
def test_cell_e_value_has_mean_one_under_a_known_law(law: NDArray[np.float64], n: int) -> None:
    """Summed over every outcome: probability times e-value is exactly 1."""
    counts = _all_counts(n, law.size)
    mean = stats.multinomial.pmf(counts, n, law) @ np.exp(cell_log_e(counts, _box(law, 0)))
    assert mean == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("eps", [0.02, 0.3])
def test_cell_e_value_has_mean_at_most_one_in_the_box(law: NDArray[np.float64], eps: float) -> None:
    """The same sum for every corner of a noise box and for its middle."""
    box, counts = _box(law, eps), _all_counts(8, law.size)
    for truth in [law, *_corner_laws(box)]:
        mean = stats.multinomial.pmf(counts, 8, truth) @ np.exp(cell_log_e(counts, box))
        assert mean <= 1 + 1e-9


def test_cell_e_value_holds_with_a_borderline_token() -> None:
    """A token that may be kept is present, absent or anything between: the mean stays below 1."""
    kept = np.array([True, True, False])
    box, counts = noise_box(np.array([0.6, 0.3, 0.1]), kept, ~kept, 0.05), _all_counts(8, 3)
    for truth in _corner_laws(box):
        assert stats.multinomial.pmf(counts, 8, truth) @ np.exp(cell_log_e(counts, box)) <= 1 + 1e-9


@pytest.mark.parametrize("alpha", [0.5, 0.2, 0.05])
@pytest.mark.parametrize("eps", [0.0, 0.1])
def test_peeking_after_every_draw_keeps_the_false_alarm_rate(alpha: float, eps: float) -> None:
    """Over all 4096 sequences of 12 draws, the chance of ever reaching 1 / alpha is at most it."""
    law = np.array([0.7, 0.3])
    sequences = np.array(list(itertools.product([0, 1], repeat=12)))
    seconds = sequences.cumsum(axis=1)
    counts = np.stack([np.arange(1, 13) - seconds, seconds], axis=-1)
    ever = cell_log_e(counts, _box(law, eps)).max(axis=1) >= np.log(1 / alpha)
    assert law[sequences].prod(axis=1)[ever].sum() <= alpha


@pytest.mark.parametrize("n", [1, 6, 300])
def test_missing_token_closed_form(n: int) -> None:
    """Two tokens, the second never drawn: both sets and the Dirichlet term written out."""
    m = 0.05
    # Beta-binomial of a token seen 0 or n times: B(n + 1/2, 1/2) / B(1/2, 1/2).
    other = special.beta(n + 0.5, 0.5) / special.beta(0.5, 0.5)
    healthy = (1 - m) ** n
    # A set that is never drawn gets 1/2 + 1/2 other, its complement 1/2 other alone.
    sets = ((0.5 + 0.5 * other) + 0.5 * other) / 2
    expected = np.log((0.8 * sets + 0.2 * other) / healthy)
    assert cell_log_e([n, 0], _box(np.array([1 - m, m]), 0)) == pytest.approx(expected)


def test_missing_token_in_noise_uses_its_smallest_mass() -> None:
    """In the box the missing token's evidence is that of mass expit(logit(m) - 2 eps)."""
    n, lo = 1000, special.expit(special.logit(0.05) - 2 * 0.1)
    log_e = cell_log_e([n, 0], _box(np.array([0.95, 0.05]), 0.1))
    # Leading term: weight 0.8, one of two sets, half on "never drawn"; the rest adds little.
    leading = np.log(0.8 / 2 / 2) - n * np.log1p(-lo)
    assert leading <= log_e <= leading + 0.1


def test_tails_gain_from_a_cut_of_several_bins() -> None:
    """Five of ten tokens missing give more evidence than the heaviest of them alone explains."""
    law = np.array([0.3, 0.2, 0.16, 0.12, 0.1, 0.04, 0.03, 0.02, 0.02, 0.01])
    counts = [40, 22, 17, 12, 9, 0, 0, 0, 0, 0]
    # 10 bins alone and tails of 2 to 9 bins; the tail of five has mass 0.12.
    leading = np.log(0.8 / 18 / 2) - 100 * np.log(1 - 0.12)
    assert leading <= cell_log_e(counts, _box(law, 0)) <= leading + 1


def test_cells_without_evidence() -> None:
    """No draws, or one possible token, say nothing; an impossible token says everything."""
    law = np.array([0.6, 0.4, 0.0])
    assert cell_log_e([0, 0, 0], _box(law, 0.1)) == pytest.approx(0, abs=1e-12)
    assert cell_log_e([7], _box(np.array([1.0]), 0)) == 0
    assert cell_log_e([7, 0], _box(np.array([1.0, 0.0]), 0)) == 0
    assert cell_log_e([60, 40, 1], _box(law, 0.1)) == np.inf
    assert cell_log_e([7, 1], _box(np.array([1.0, 0.0]), 0)) == np.inf


@pytest.mark.parametrize("eps", [0.0, 0.05])
@pytest.mark.parametrize(
    "defect", [np.array([0.7, 0.3, 0.0]), np.array([0.8, 0.15, 0.05]), np.array([0.3, 0.3, 0.4])]
)
def test_defect_e_value_has_mean_at_most_one(defect: NDArray[np.float64], eps: float) -> None:
    """Over every outcome and every corner of the box; exactly 1 where the law is known."""
    law = np.array([0.6, 0.3, 0.1])
    box, counts = _box(law, eps), _all_counts(10, 3)
    e = np.exp(defect_log_e(counts, defect, box))
    means = [stats.multinomial.pmf(counts, 10, truth) @ e for truth in [law, *_corner_laws(box)]]
    assert max(means) <= 1 + 1e-9
    if eps == 0:
        assert means[0] == pytest.approx(1, abs=1e-9)


def test_defect_closed_forms() -> None:
    """Dropped token: (1 - m)^-n. A seen one refutes the defect. Inside the box: no evidence."""
    law, dropped = np.array([0.6, 0.3, 0.1, 0.0]), np.array([0.6, 0.3, 0.0, 0.0]) / 0.9
    assert defect_log_e([6, 4, 0, 0], dropped, _box(law, 0)) == pytest.approx(-10 * np.log(0.9))
    assert defect_log_e([6, 4, 1, 0], dropped, _box(law, 0)) == -np.inf
    assert defect_log_e([6, 4, 0, 1], dropped, _box(law, 0)) == np.inf
    assert defect_log_e([6, 4, 0, 0], law, _box(law, 0)) == 0
    assert defect_log_e([60, 0, 0, 0], np.array([0.61, 0.3, 0.09, 0]), _box(law, 0.1)) == 0


def test_defect_compares_groups_of_tokens() -> None:
    """Killed, pushed down, the rest and leaked tokens are each one group."""
    law = np.array([0.4, 0.3, 0.2, 0.1, 0.0])
    groups = contrast(np.array([0.7, 0.15, 0.1, 0.0, 0.05]), _box(law, 0))
    assert groups.labels.tolist() == [2, 1, 1, 0, 3]
    np.testing.assert_allclose(groups.probs, [0, 0.25, 0.7, 0.05])
    np.testing.assert_allclose(groups.box.upper, [0.1, 0.5, 0.4, 0])


def test_pooled_closed_form() -> None:
    """Mean over shares of the product of softened, capped factors; -inf only softens."""
    log_es = np.array([1.0, 5.0, -np.inf])
    e1, e2 = np.exp(1.0), np.exp(3.0)
    products = [(1 - r + r * e1) * (1 - r + r * e2) * (1 - r) for r in (0.1, 0.5, 0.95)]
    assert pooled_log_e(log_es) == pytest.approx(np.log(np.mean(products)))


def test_pooled_by_sets_of_cells() -> None:
    """Each set pools its own cells; an empty one is no evidence."""
    log_es = np.random.default_rng(2).normal(size=(4, 3))
    members = np.array([[True, True, True], [True, False, True], [False, False, False]])
    pooled = pooled_log_e(log_es, members)
    np.testing.assert_allclose(pooled[:, 0], pooled_log_e(log_es))
    np.testing.assert_allclose(pooled[:, 1], pooled_log_e(log_es[:, [0, 2]]))
    np.testing.assert_allclose(pooled[:, 2], 0, atol=1e-15)


def test_pooled_e_value_has_mean_at_most_one() -> None:
    """Two independent cells, every pair of outcomes, capped where evidence is high."""
    law, defect, counts = np.array([0.6, 0.4]), np.array([1.0, 0.0]), _all_counts(8, 2)
    pmf, one = stats.multinomial.pmf(counts, 8, law), defect_log_e(counts, defect, _box(law, 0))
    assert one.max() > 3
    both = np.stack(np.broadcast_arrays(one[:, None], one), axis=-1)
    assert pmf @ np.exp(pooled_log_e(both)) @ pmf <= 1


def test_run_is_a_weighted_mean() -> None:
    """Weights .4, .3, .2, .1; a piece that was not measured counts as 1."""
    assert run_log_e(None, None) == pytest.approx(0)
    assert run_log_e(np.array([]), np.array([])) == pytest.approx(0)
    run = run_log_e(np.log([1.0, 3.0]), np.log([10.0]), np.log(5.0), -np.inf)
    assert run == pytest.approx(np.log(0.4 * 2 + 0.3 * 10 + 0.2 * 5))
    assert run_log_e(None, np.array([0.0, np.inf])) == np.inf
    assert run_log_e(np.zeros((7, 3)), np.zeros((7, 2)), np.zeros(7)).shape == (7,)


def test_threshold_of_one_alternative() -> None:
    """One alternative of 50 carries .4 / 50 of the run."""
    log_es = np.append(np.full(49, -np.inf), pooled_threshold(1e-4, 50))
    assert run_log_e(log_es, np.array([-np.inf]), -np.inf, -np.inf) == pytest.approx(np.log(1e4))


def test_a_cell_is_named_exactly_where_it_fails_the_run_alone() -> None:
    """One cell of 1,000 carries .3 / 1000: e-values of 3.3e7, and whatever else there is, gate."""
    threshold = e_bonferroni_threshold(1e-4, 1000)
    assert threshold == pytest.approx(np.log(1e7 / 0.3))
    alone = np.append(np.full(999, -np.inf), threshold)
    assert run_log_e(np.array([-np.inf]), alone, -np.inf, -np.inf) == pytest.approx(np.log(1e4))
    # The plain bound m / alpha lets a cell be named in a run that passes its gate.
    named = np.append(np.full(999, -np.inf), np.log(1e7))
    assert run_log_e(np.array([-np.inf]), named, -np.inf, -np.inf) < np.log(1e4)
