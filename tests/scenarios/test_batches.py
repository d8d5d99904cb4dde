"""Batches: the audited row is in them as it is alone, among the mates that the pattern names."""

import numpy as np
import pytest

from sampler_scenarios.batches import MIXED_PARAMS, Batch, build_batch
from sampler_scenarios.cells import Cell
from sampler_scenarios.combos import ALL_COMBOS
from sampler_scenarios.params import SamplingParams
from sampler_scenarios.patterns import PATTERNS
from sampler_scenarios.rows import load_row
from sampler_scenarios.settings import typical_params

OWN = SamplingParams(top_k=20, top_p=0.95)
EVERY_PATTERN = pytest.mark.parametrize("pattern", PATTERNS)
MIXED = pytest.mark.parametrize("pattern", ["mixed-7", "mixed-8", "mixed-64"])


def batch_of(pattern: str, row: str = "nan-one@4096") -> Batch:
    """A row that no mate can equal, among the mates of ``pattern``."""
    return build_batch(Cell(row, OWN, pattern))


def mates_of(batch: Batch) -> list[SamplingParams]:
    """The parameters of every row but the audited one."""
    return [*batch.params[: batch.index], *batch.params[batch.index + 1 :]]


@EVERY_PATTERN
@pytest.mark.parametrize("vocab_size", [2, 129, 8193])
def test_audited_row_is_unchanged(pattern: str, vocab_size: int) -> None:
    """Row ``index`` has the cell's logits, bit for bit, and its parameters."""
    batch = batch_of(pattern, f"signed-zeros@{vocab_size + 1}")
    row = load_row(f"signed-zeros@{vocab_size + 1}").logits
    assert batch.logits[batch.index].tobytes() == row.tobytes()
    assert batch.params[batch.index] == OWN


@EVERY_PATTERN
def test_shape_follows_the_pattern(pattern: str) -> None:
    """One row more than there are mates, float32, one set of parameters each."""
    batch, n_rows = batch_of(pattern), PATTERNS[pattern].n_mates + 1
    assert (batch.logits.shape, batch.logits.dtype.name) == ((n_rows, 4096), "float32")
    assert len(batch.params) == n_rows


@EVERY_PATTERN
def test_audited_row_is_never_first_or_last(pattern: str) -> None:
    """Neither the first nor the last row is audited, unless it is alone."""
    batch = batch_of(pattern)
    assert 0 < batch.index < len(batch.params) - 1 or len(batch.params) == 1


@EVERY_PATTERN
def test_mates_are_finite_and_differ(pattern: str) -> None:
    """No mate holds a special value, and no two rows are equal."""
    batch = batch_of(pattern)
    mates = np.delete(batch.logits, batch.index, axis=0)
    assert np.isfinite(mates).all()
    assert len({mate.tobytes() for mate in mates}) == len(mates)


@EVERY_PATTERN
def test_batches_repeat(pattern: str) -> None:
    """The same cell gives the same batch, in memory of its own."""
    first, second = batch_of(pattern), batch_of(pattern)
    np.testing.assert_array_equal(first.logits, second.logits)
    assert first.params == second.params
    assert not np.shares_memory(first.logits, second.logits)


def test_strided_rows_lie_in_a_wider_buffer() -> None:
    """Rows are 37 elements farther apart than they are long, and 99 lies between them."""
    logits = batch_of("strided").logits
    assert logits.strides == ((4096 + 37) * 4, 4)
    assert logits.base is not None
    assert (np.asarray(logits.base)[:, 4096:] == 99).all()


@pytest.mark.parametrize("pattern", sorted(PATTERNS.keys() - {"strided"}))
def test_other_rows_are_contiguous(pattern: str) -> None:
    """Only the strided pattern has padding."""
    assert batch_of(pattern).logits.flags.c_contiguous


@MIXED
def test_mixed_mates(pattern: str) -> None:
    """A greedy mate, a mate with every filter off, and three or more values of each filter."""
    mates = mates_of(batch_of(pattern))
    assert SamplingParams() in mates
    assert any(mate.temperature == 0 for mate in mates)
    for values in zip(*((m.temperature, m.top_k, m.top_p, m.min_p) for m in mates), strict=True):
        assert len(set(values)) >= 3


@pytest.mark.parametrize("mate", MIXED_PARAMS, ids=lambda mate: mate.id)
def test_mates_use_no_typical_value(mate: SamplingParams) -> None:
    """A row that follows a mate's setting of a filter cannot be right by chance."""
    for own in (own for combo in ALL_COMBOS for own in typical_params(combo)):
        for name in set(own.combo) & set(mate.combo):
            assert getattr(own, name) != getattr(mate, name)


@pytest.mark.parametrize("pattern", ["same-64", "strided"])
def test_same_mates_ask_the_same(pattern: str) -> None:
    """Every row has the audited row's parameters."""
    assert set(batch_of(pattern).params) == {OWN}


def test_mixed_params_fit_seven_mates() -> None:
    """The smallest mixed pattern already holds all of the mix."""
    assert set(mates_of(batch_of("mixed-7"))) == set(MIXED_PARAMS)


def test_unknown_pattern() -> None:
    """An unknown pattern is named, with the known ones."""
    with pytest.raises(ValueError, match="unknown batch 'mixed-9'; known: alone, strided,"):
        batch_of("mixed-9")
