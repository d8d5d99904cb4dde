"""Batches: the audited row is in them as it is alone, among the mates that the pattern names."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from sampler_scenarios.batches import MIXED_PARAMS, Batch, build_batch, plain_batch
from sampler_scenarios.cells import Cell
from sampler_scenarios.combos import ALL_COMBOS
from sampler_scenarios.params import STAGES, SamplingParams
from sampler_scenarios.patterns import PATTERNS
from sampler_scenarios.requests import Request
from sampler_scenarios.rows import load_row
from sampler_scenarios.settings import typical_params

OWN = SamplingParams(top_k=20, top_p=0.95)
WITHOUT_DRAFTS = [name for name, pattern in PATTERNS.items() if not pattern.n_drafts]
EVERY_PATTERN = pytest.mark.parametrize("pattern", WITHOUT_DRAFTS)
MIXED = pytest.mark.parametrize("pattern", ["mixed-7", "mixed-8", "mixed-64"])
STATEFUL = pytest.mark.parametrize("pattern", ["recycled", "swapped", "staggered"])


def batch_of(pattern: str, row: str = "nan-one@4096") -> Batch:
    """A row that no mate can equal, among the mates of ``pattern``."""
    return build_batch(Cell(row, OWN, pattern))


def mates_of(batch: Batch) -> list[SamplingParams]:
    """The parameters of every row but the audited one."""
    return [*batch.params[: batch.index], *batch.params[batch.index + 1 :]]


def unlisted(params: SamplingParams) -> SamplingParams:
    """Without the listing that requests with a past ask for, each another one."""
    return replace(params, logprobs=None, logprob_token_ids=None)


@EVERY_PATTERN
@pytest.mark.parametrize("vocab_size", [2, 129, 8193])
def test_audited_row_is_unchanged(pattern: str, vocab_size: int) -> None:
    """Row ``index`` has the cell's logits, bit for bit, and its parameters."""
    batch = batch_of(pattern, f"signed-zeros@{vocab_size + 1}")
    row = load_row(f"signed-zeros@{vocab_size + 1}").logits
    assert batch.logits[batch.index].tobytes() == row.tobytes()
    assert unlisted(batch.params[batch.index]) == OWN


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
    """No mate holds a special value but a poisoned one, and no two rows are equal."""
    batch = batch_of(pattern)
    mates = np.delete(batch.logits, batch.index, axis=0)
    assert np.isnan(mates).all(1).tolist() == [
        PATTERNS[pattern].poisoned and i == 0 for i in range(len(mates))
    ]
    assert np.isfinite(mates[PATTERNS[pattern].poisoned :]).all()
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


def stages_on(request: Request) -> set[str]:
    """Of the request's parameters, its grammar and its extra arguments."""
    more = {"grammar": request.grammar is not None, "processor": bool(request.params.extra_args)}
    return {*request.params.stages, *(name for name, on in more.items() if on)}


@EVERY_PATTERN
def test_audited_row_has_the_stages_of_its_cell(pattern: str) -> None:
    """Whoever its mates are; the same request as alone."""
    cell = Cell("zipf@129", OWN, pattern, ("grammar", "logit_bias", "processor"))
    batch = build_batch(cell)
    assert stages_on(batch.requests[batch.index]) == set(cell.stages)
    alone = build_batch(Cell("zipf@129", OWN, "alone", cell.stages)).requests[0]
    assert batch.requests[batch.index].token_ids == alone.token_ids
    assert unlisted(batch.params[batch.index]) == alone.params


def test_mates_have_stages_where_the_cell_has_some_or_a_past() -> None:
    """One has none and one has all; the same mates have the same ones, from their own rows."""
    mixed = build_batch(Cell("zipf@129", OWN, "mixed-7", ("bad_words",)))
    of_mates = [stages_on(r) for i, r in enumerate(mixed.requests) if i != mixed.index]
    assert set() in of_mates
    assert set(STAGES) in of_mates
    same = build_batch(Cell("zipf@129", OWN, "strided", ("bad_words",)))
    assert [stages_on(request) for request in same.requests] == [{"bad_words"}] * 3
    assert len({request.token_ids for request in same.requests}) == 3
    assert not any(map(stages_on, batch_of("mixed-64").requests))
    assert any(map(stages_on, batch_of("recycled").requests))


def test_a_plain_batch_has_parameters_only() -> None:
    """No prompt, output, leaver or past."""
    batch = plain_batch(np.zeros((2, 3), np.float32), [OWN, SamplingParams()], 1)
    assert batch.params == (OWN, SamplingParams())
    assert [request.token_ids for request in batch.requests] == [(), ()]
    assert (batch.index, batch.leavers, batch.past) == (1, (), ())


def test_the_model_of_a_batch_ends_with_likely_tokens() -> None:
    """Of the audited row."""
    batch = build_batch(Cell("zipf@129", OWN, "mixed-7"))
    assert batch.model.vocab_size == 129
    # In zipf, rank 1 is the last id, rank 2 the one before it.
    assert batch.model.eos_token_ids == (124, 120)


@STATEFUL
def test_a_past_step_has_no_request_twice_and_all_outputs_are_long_enough(pattern: str) -> None:
    """Every leaver was there, every step emitted one token of each, and rows now are not then."""
    batch = build_batch(Cell("zipf@129", OWN, pattern))
    everyone = (*batch.requests, *batch.leavers)
    assert all(len(set(order)) == len(order) for order in batch.past)
    gone = range(len(batch.requests), len(everyone))
    assert {i for order in batch.past for i in order} >= set(gone)
    assert all(len(request.output_token_ids) >= len(batch.past) for request in everyone)
    assert batch.past[-1] != tuple(range(len(batch.requests)))


def test_recycled_row_takes_the_place_of_a_leaver_with_every_stage() -> None:
    """The audited request was not there; the leaver had its row, and other stages' tokens."""
    batch = build_batch(Cell("zipf@129", OWN, "recycled", STAGES))
    leaver = len(batch.requests)
    for order in batch.past:
        assert batch.index not in order
        assert order[batch.index] == leaver
    assert stages_on(batch.leavers[0]) == set(STAGES)
    own, left = batch.params[batch.index], batch.leavers[0].params
    assert own.logit_bias.keys() != left.logit_bias.keys()
    assert own.allowed_token_ids != left.allowed_token_ids


def test_swapped_rows_change_places() -> None:
    """The same requests; last, the audited one changed places with another alone."""
    batch = build_batch(Cell("zipf@129", OWN, "swapped"))
    now = tuple(range(len(batch.requests)))
    assert all(sorted(order) == list(now) for order in batch.past)
    moved = [i for i in now if batch.past[-1][i] != i]
    assert batch.index in moved
    assert len(moved) == 2


def test_staggered_ends_move_the_last_row_into_the_gap() -> None:
    """As V1's InputBatch.condense does: one leaver goes after each step, the last row follows."""
    batch = build_batch(Cell("zipf@129", OWN, "staggered"))
    steps = [*batch.past, tuple(range(len(batch.requests)))]
    for before, after in pairwise(steps):
        gone = set(before) - set(after)
        assert len(gone) == 1
        *rest, last = before
        condensed = [last if i in gone else i for i in rest]
        assert tuple(condensed) == after
    assert steps[0].index(batch.index) != batch.index


def test_unknown_pattern() -> None:
    """An unknown pattern is named, with the known ones."""
    with pytest.raises(ValueError, match="unknown batch 'mixed-9'; known: alone, strided,"):
        batch_of("mixed-9")
