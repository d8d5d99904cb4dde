"""The auditor audited: healthy synthetic runs do not fail, faulty ones do."""

import pytest
from scipy import stats

from sampler_audit.statistics.calibration import (
    DEFECTS,
    chi_square_runs,
    faulty_runs,
    healthy_runs,
)


@pytest.mark.parametrize("eps", [0.0, 0.02])
def test_healthy_runs_do_not_fail_at_the_default_rate(eps: float) -> None:
    """2,000 runs looked at four times each; 20,000 are in the closing figures."""
    # At 1e-4 a failure has a chance of at most 18 %, three of 0.1 %: two are let pass.
    assert healthy_runs(2000, 1e-4, seed=2024, eps=eps).n_failed <= 2


@pytest.mark.parametrize("eps", [0.0, 0.02])
def test_healthy_runs_fail_less_often_than_stated(eps: float) -> None:
    """At alpha 5 %, where failures can be counted, their interval lies below 5 %."""
    calibration = healthy_runs(1000, 0.05, seed=7, eps=eps)
    assert calibration.interval[1] < 0.05


def test_interval_is_exact() -> None:
    """The interval of a calibration is scipy's Clopper-Pearson interval of its count."""
    found = faulty_runs("weakest halved", 100, 1e-4, seed=3)
    exact = stats.binomtest(found.n_failed, 100).proportion_ci(0.95)
    assert found.interval == pytest.approx((exact.low, exact.high))


@pytest.mark.parametrize("defect", [name for name in DEFECTS if name != "weakest halved"])
def test_faulty_runs_fail(defect: str) -> None:
    """Every planted law but the faintest fails more than a quarter of runs at 40 draws a cell."""
    assert faulty_runs(defect, 100, 1e-4, seed=1).interval[0] > 0.25


def test_faintest_defect_is_beyond_these_runs() -> None:
    """The weakest token drawn half as often moves too little mass for 40 draws a cell."""
    assert faulty_runs("weakest halved", 100, 1e-4, seed=1).interval[1] < 0.25


def test_chi_square_gate_is_near_its_rate() -> None:
    """At alpha 5 %, 2,000 runs of 200 cells: Holm's adjustment is neither missing nor doubled."""
    # Measured 6.3 % (1,252 of 20,000, seed 1): a count outside these has chance 1e-4. Twin:
    # without the adjustment nearly every run fails, twice adjusted hardly any.
    assert 84 <= chi_square_runs(2000, 0.05, seed=3).n_failed <= 170
