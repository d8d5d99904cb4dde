"""Planted defects of the fault corpus: the law or the row that each makes of its entry's input."""

import numpy as np
import pytest
from numpy.typing import NDArray

from sampler_reference.conventions import CONVENTIONS
from sampler_reference.corpus_defects import CORPUS_DEFECTS
from sampler_reference.defect_laws import right_law
from sampler_reference.defects import DEFECTS, POOLED
from sampler_reference.processors import process
from sampler_scenarios.params import SamplingParams
from sampler_scenarios.requests import ModelConfig, Request
from sampler_scenarios.rows import load_row

OURS = CONVENTIONS["sampler-audit"]


def law(name: str, row: str, params: SamplingParams) -> NDArray[np.float64]:
    """The defect's law under this project's conventions."""
    yields = CORPUS_DEFECTS[name].law
    assert yields is not None
    return yields(load_row(row).logits, params, OURS)


def wrong(name: str, logits: list[float], request: Request) -> NDArray[np.float32]:
    """What the defect lets through to the filters."""
    processes = CORPUS_DEFECTS[name].process
    assert processes is not None
    return processes(np.array(logits, np.float32), request, ModelConfig(vocab_size=4), OURS)


def test_names_and_entries() -> None:
    """Named as they are looked up, each for an entry; none is pooled, none hides another."""
    assert len(CORPUS_DEFECTS) == 20
    assert all(d.name == name and d.summary and d.source for name, d in CORPUS_DEFECTS.items())
    assert all(defect.entry and not defect.pooled for defect in CORPUS_DEFECTS.values())
    assert not set(POOLED) & set(CORPUS_DEFECTS)
    assert len(DEFECTS) == 55 + len(CORPUS_DEFECTS)
    assert not any(d.process for d in CORPUS_DEFECTS.values() if d.law)


# What is wrong in the reports, by hand; each differs from the right law.
@pytest.mark.parametrize(
    ("name", "row", "params", "ids"),
    [
        ("tail-below-resolution-dropped", "b11@101", SamplingParams(), [0]),
        ("top-p-one-more", "b19@4", SamplingParams(top_p=0.749), [0, 1, 2]),
        ("top-p-keeps-nothing", "p8@8", SamplingParams(top_p=1e-8), []),
        ("top-p-unnormalised", "b21@10", SamplingParams(top_k=1, top_p=0.8), []),
        ("top-p-unnormalised", "b21@10", SamplingParams(top_k=2, top_p=0.8), [0]),
        ("listing-widens-kept", "p8@8", SamplingParams(min_p=1, logprobs=3), [0, 1, 2]),
        ("last-for-first", "b34@64", SamplingParams(top_k=40, top_p=0.95), [39]),
        ("temperature-overflows-half", "b71@3", SamplingParams(temperature=1e-4), []),
        ("top-k-off-is-one", "p8@8", SamplingParams(), [0]),
    ],
)
def test_the_set_that_a_defect_keeps(
    name: str, row: str, params: SamplingParams, ids: list[int]
) -> None:
    """As the report tells it."""
    assert np.flatnonzero(law(name, row, params)).tolist() == ids
    assert np.flatnonzero(right_law(load_row(row).logits, params, OURS)).tolist() != ids


def test_four_tries_that_miss() -> None:
    """B31: k = 100 of 32768 equal ids are missed four times with .988, and id 0 takes 98.8 %."""
    probs = law("four-tries-then-argmax", "b31@32768", SamplingParams(top_k=100))
    assert probs[0] == pytest.approx(0.988, abs=5e-4)
    assert np.count_nonzero(probs) == 100


@pytest.mark.parametrize(
    ("name", "row", "params"),
    [
        ("top-p-keeps-nothing", "p8@8", SamplingParams(top_p=0.001)),
        ("listing-widens-kept", "p8@8", SamplingParams(top_k=4, logprobs=4)),
        ("last-for-first", "b34@64", SamplingParams(top_k=1)),
        ("temperature-overflows-half", "b71@3", SamplingParams(temperature=2e-4)),
        ("four-tries-then-argmax", "p8@8", SamplingParams(temperature=0.5)),
        ("top-k-off-is-one", "p8@8", SamplingParams(top_k=3)),
        ("tail-below-resolution-dropped", "p8@8", SamplingParams()),
    ],
)
def test_where_a_defect_has_nothing_to_act_on(name: str, row: str, params: SamplingParams) -> None:
    """The law is the right one."""
    right = right_law(load_row(row).logits, params, OURS)
    assert law(name, row, params) == pytest.approx(right, abs=1e-12)


def test_penalties_of_a_hidden_window() -> None:
    """Ids 0 and 1 lie more than four tokens back; 2 and 3 are penalised as they should be."""
    request = Request(SamplingParams(presence_penalty=1), output_token_ids=(0, 1, 2, 3, 2, 3))
    assert wrong("penalty-window-hidden", [0, 0, 0, 0], request).tolist() == [0, 0, -1, -1]


def test_masks_of_a_grammar_that_end_early_or_are_skipped() -> None:
    """Of 40 ids only 0 is allowed: the last word of 32 has 8 of them; without a mask all stay."""
    grammar = np.arange(40) == 0
    request = Request(SamplingParams(), grammar=grammar)
    short = wrong("grammar-mask-too-short", [0] * 40, request)
    assert np.flatnonzero(np.isfinite(short)).tolist() == [0, *range(32, 40)]
    assert np.isfinite(wrong("grammar-skipped-at-drafts", [0] * 40, request)).all()
    right = process(np.zeros(40, np.float32), request, ModelConfig(vocab_size=40), OURS)
    assert np.flatnonzero(np.isfinite(right)).tolist() == [0]
