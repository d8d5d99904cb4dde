from collections.abc import Iterator

import numpy as np
import pytest

from sampler_audit.draws import Target
from sampler_audit.targets import open_target
from sampler_scenarios.batches import plain_batch
from sampler_scenarios.params import SamplingParams

ROW = np.log(np.array([0.4, 0.3, 0.2, 0.1], np.float32))
BATCH = plain_batch(
    np.stack([ROW, ROW[::-1], ROW]),
    (
        SamplingParams(temperature=0),
        SamplingParams(top_k=3, top_p=0.5),
        SamplingParams(min_p=0.6),
    ),
    1,
)
# By hand: greedy; of .4 .3 .2 renormalised the second crosses .5; ratios .5 and .25 are below .6.
KEPT = [[1, 0, 0, 0], [0, 0, 1, 1], [1, 1, 0, 0]]
SEEDS, POSITIONS = np.arange(64), np.full(64, 5)


@pytest.fixture(scope="module", params=["builtin", "torch"])
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    """Kernels and twins."""
    opened = open_target(request.param, device="cpu", workers=1)
    yield opened
    opened.close()


def test_kept_sets(target: Target) -> None:
    """Of every row of a batch with mixed parameters."""
    assert target.kept(BATCH).astype(int).tolist() == KEPT


def test_draws_are_of_the_audited_row(target: Target) -> None:
    """Both tokens of the nucleus of row 1 appear and no other; the kernel draws the same ones."""
    tokens = target.draw(BATCH, SEEDS, POSITIONS)
    assert set(tokens.tolist()) == {2, 3}
    kernel = target.draw(BATCH, SEEDS[:8], POSITIONS[:8], kernel=True)
    assert kernel.tolist() == tokens[:8].tolist()


def test_info_declares_the_policies(target: Target) -> None:
    """Conventions of our own, special values included, and that it draws."""
    assert target.info.convention == "sampler-audit"
    assert target.info.draws
    assert target.info.special_values
    # At least the fixed-point floor of the largest vocabulary, 2^18 * 2^-40.
    assert 2**-22 <= target.info.mass_error < 1e-6


def test_a_defect_is_planted_where_its_filters_are_on() -> None:
    """Row 1 loses its weakest token; rows without both filters do not."""
    options = {"defect": "weakest-dropped", "when": "top_k+top_p"}
    opened = open_target("torch", options=options, device="cpu", workers=1)
    assert opened.kept(BATCH).astype(int).tolist() == [KEPT[0], [0, 0, 0, 1], KEPT[2]]
    opened.close()
