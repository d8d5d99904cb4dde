from itertools import combinations

import numpy as np
import pytest

from sampler_audit.errors import UsageError
from sampler_audit.plan import (
    EVEN,
    PATTERN_KINDS,
    PROBE_PATTERN,
    SLOW,
    STATEFUL_KINDS,
    build_plan,
    draw_seeds,
    project,
)
from sampler_scenarios.batches import PATTERNS
from sampler_scenarios.combos import ALL_COMBOS
from sampler_scenarios.params import FILTERS, STAGES, SamplingParams
from sampler_scenarios.rows import KINDS, VOCAB_SIZES, kind_of, vocab_size_of


def test_every_combination_meets_every_kind_vocabulary_and_pattern() -> None:
    """The promise of the plan: each of them at least once for each of the 16 combinations."""
    cells = build_plan(combos="all", seed=1).cells
    for combo in ALL_COMBOS:
        mine = [c for c in cells if c.combo == combo]
        assert {k.name for k in KINDS} <= {kind_of(c.row) for c in mine}
        assert set(VOCAB_SIZES) <= {vocab_size_of(c.row) for c in mine}
        assert set(PATTERN_KINDS) == {c.batch for c in mine}


@pytest.mark.parametrize("rows", ["quick", "core"])
def test_every_stage_meets_every_past_and_every_way_of_drafts(rows: str) -> None:
    """Beside some set of filters; and each pair of stages is tried."""
    cells = build_plan(
        combos="all", rows=rows, seed=1, stages=STAGES, stateful=True, verifies_drafts=True
    ).cells
    for stage in STAGES:
        assert {PROBE_PATTERN, *STATEFUL_KINDS} <= {c.batch for c in cells if c.stages == (stage,)}
    assert {c.stages for c in cells if len(c.stages) == 2} == {*combinations(STAGES, 2)}


def test_a_plan_says_what_it_holds() -> None:
    """Not what was asked for: core combinations have few rows, and one cell has its own."""
    assert build_plan(seed=1).rows == "quick"
    one = build_plan(only="constant@64/top_k=3/batch=alone", seed=1)
    assert (one.combos, one.rows) == ("top_k", "constant@64")


def test_slow_plans_keep_every_kind_on_shorter_rows() -> None:
    """Short rows lose no kind of fault."""
    cells = build_plan(combos="all", seed=1, slow=True).cells
    assert {k.name for k in KINDS} <= {kind_of(c.row) for c in cells}
    assert max(SLOW.vocab_sizes) < 131072
    long = {c.row for c in cells if vocab_size_of(c.row) > max(SLOW.vocab_sizes)}
    assert long == {f"constant@{EVEN}"}


def test_plan_is_deterministic_and_holds_no_cell_twice() -> None:
    """The seed moves draws, not cells."""
    one, other = build_plan(combos="all", seed=1), build_plan(combos="all", seed=2)
    assert one.cells == other.cells
    assert len(set(one.cells)) == len(one.cells)


def test_only_is_a_plan_of_that_cell() -> None:
    """The id of a report line reads back."""
    name = "finite-3-front@4096/top_k=50,top_p=0.9/batch=mixed-8"
    (cell,) = build_plan(only=name, seed=1).cells
    assert cell.id == name


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"combos": "top_z"}, "top_z"),
        ({"rows": "no-such-row"}, "no-such-row"),
        ({"only": "x"}, "a cell id is"),
        ({"n_draws": 0}, "at least 1, got 0"),
        ({"alpha": 2.0}, "between 0 and 1, got 2"),
        ({"seed": -1}, ">= 0, got -1"),
    ],
)
def test_bad_settings_say_what_is_allowed(arguments: dict[str, str], message: str) -> None:
    """Each is a usage error that names the value."""
    with pytest.raises(UsageError, match=message):
        build_plan(**{"seed": 1, **arguments})  # type: ignore[arg-type]  # wrong on purpose


def test_seeds_of_a_longer_sequence_begin_with_the_shorter_one() -> None:
    """So that a cell can be drawn on; other cells and other runs get other seeds."""
    long = draw_seeds(5, "a", 100)
    np.testing.assert_array_equal(draw_seeds(5, "a", 10), long[:10])
    assert np.unique(long).size == 100
    assert not np.intersect1d(long, draw_seeds(5, "b", 100)).size
    assert not np.intersect1d(long, draw_seeds(6, "a", 100)).size


def test_project_keeps_the_named_filters_only() -> None:
    """Everything else becomes neutral."""
    params = SamplingParams(temperature=0.5, top_k=3, top_p=0.5, min_p=0.1)
    assert project(params, ("top_k",)) == SamplingParams(top_k=3)
    assert project(params, FILTERS) == params


def patterns_of(*, stateful: bool = False, verifies_drafts: bool = False) -> set[str]:
    """The batch patterns in the plan of a target."""
    plan = build_plan(seed=1, stateful=stateful, verifies_drafts=verifies_drafts)
    return {cell.batch for cell in plan.cells}


def test_a_past_and_drafts_are_for_those_that_have_them() -> None:
    """Each alone, and none without."""
    past = {name for name, p in PATTERNS.items() if p.past}
    drafts = {name for name, p in PATTERNS.items() if p.n_drafts}
    assert not patterns_of() & (past | drafts)
    assert patterns_of(stateful=True) == patterns_of() | past
    assert patterns_of(verifies_drafts=True) == patterns_of() | drafts


def test_every_batch_pattern_has_its_row() -> None:
    """A new pattern is not forgotten; filters alone have no use for a past or for drafts.

    A poisoned batch is for who states a policy for NaN, and is in no plan.
    """
    stateless = {n for n, p in PATTERNS.items() if not p.past and not p.n_drafts and not p.poisoned}
    assert set(PATTERN_KINDS) == stateless
