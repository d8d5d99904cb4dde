"""The fault corpus as data: every entry is whole, and its rows are what the reports describe."""

import re

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import softmax

from sampler_scenarios.cells import parse_cell
from sampler_scenarios.corpus import CORPUS, Entry
from sampler_scenarios.corpus_rows import CORPUS_KINDS
from sampler_scenarios.row_kinds import KINDS
from sampler_scenarios.rows import load_row

EVERY = pytest.mark.parametrize("entry", CORPUS.values(), ids=lambda entry: entry.id)
N_ENTRIES = 64
"""B01 to B82 without the numbers that the corpus left out."""


def probs_of(name: str) -> NDArray[np.float64]:
    """The softmax of the row in float64, [vocab_size]."""
    probs: NDArray[np.float64] = softmax(load_row(name).logits.astype(np.float64))
    return probs


def test_entries_are_all_there_in_order() -> None:
    """By id, each once."""
    assert len(CORPUS) == N_ENTRIES
    assert list(CORPUS) == sorted(CORPUS)


@EVERY
def test_an_entry_says_what_where_and_whence(entry: Entry) -> None:
    """A title, the right answer, and reports of the form owner/name#number."""
    assert entry.title
    assert entry.right
    assert entry.sources
    assert all(re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", source) for source in entry.sources)


@EVERY
def test_an_entry_has_an_input_or_a_reason(entry: Entry) -> None:
    """In process there are cells to look in; elsewhere it says why."""
    assert bool(entry.cells) == (entry.visible == "in process")
    assert bool(entry.reason) == (entry.visible != "in process")
    assert all(parse_cell(cell).id == cell for cell in entry.cells)
    assert len(entry.probs) in (0, len(entry.kept))


@pytest.mark.parametrize("entry", [e for e in CORPUS.values() if e.cells], ids=lambda e: e.id)
def test_an_input_is_fresh_at_each_call(entry: Entry) -> None:
    """So that an engine may work in place."""
    one, other = entry.batch(), entry.batch()
    assert np.array_equal(one.logits, other.logits, equal_nan=True)
    assert not np.shares_memory(one.logits, other.logits)


def test_names_of_rows_are_new() -> None:
    """No row of the corpus hides one of the plans."""
    names = [kind.name for kind in (*KINDS, *CORPUS_KINDS)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("row", "head"),
    [
        ("p8@8", [0.40, 0.22, 0.14, 0.09, 0.06, 0.04, 0.03, 0.02]),
        ("p6@64", [0.40, 0.22, 0.14, 0.09, 0.08, 0.07, 0]),
        ("p4@4", [0.1, 0.2, 0.3, 0.4]),
        ("b03@151936", [0.40, 0.22, 0.14, 0.09, 0.06, 0.04, 0.03, 0.02]),
        ("b09@4", [0.34, 0.22, 0.22, 0.22]),
        ("b11@101", [0.999999, 1e-8, 1e-8]),
        ("b19@4", [0.5, 0.25, 0.125, 0.125]),
        ("b02@4096", [0.9999, 1e-6, 0.99e-6]),
    ],
)
def test_published_probabilities(row: str, head: list[float]) -> None:
    """Of the first ids, as the report gives them."""
    assert probs_of(row)[: len(head)] == pytest.approx(head, rel=1e-5, abs=1e-12)


@pytest.mark.parametrize(
    ("row", "first", "expected", "rel"),
    [
        # 73.3 % on the head, and a tail of 5.40e-4, to three digits.
        ("b01@32768", 1, 1 - 0.733, 2e-3),
        ("b37@262145", 1, 5.40e-4, 1e-3),
    ],
)
def test_published_masses(row: str, first: int, expected: float, rel: float) -> None:
    """From id ``first`` on."""
    assert probs_of(row)[first:].sum() == pytest.approx(expected, rel=rel)


def test_the_last_of_fifty_candidates() -> None:
    """B32: of 50 ids at 6 - .1j the last 18 hold 3.4 %."""
    probs = probs_of("b32@128")[:50]
    assert probs[32:].sum() / probs.sum() == pytest.approx(0.034, abs=5e-4)


def test_ties_of_every_tile_straddle_the_cut() -> None:
    """B08: half of the mass on id 0, and 64 ids of 1/128, one in each 64th of the row."""
    probs = probs_of("b08@131072")
    ids = np.flatnonzero(probs)[1:]
    assert probs[0] == pytest.approx(0.5, abs=1e-6)
    assert probs[ids] == pytest.approx([1 / 128] * 64, abs=1e-8)
    assert (ids // 2048).tolist() == list(range(64))


def test_what_is_empty_and_what_is_not() -> None:
    """B16's equal ids are 16 apart; B49 has no mass after 8192 ids."""
    assert np.flatnonzero(probs_of("b16@1024")).tolist() == list(range(0, 1024, 16))
    assert np.flatnonzero(probs_of("b49@10000")).tolist() == list(range(8192))
