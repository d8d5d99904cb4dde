"""The real rows against the facts recorded beside them when the model was run."""

import json
import re
from importlib.resources import files

import numpy as np
import pytest
from scipy.special import log_softmax

from sampler_scenarios.real_rows import REAL_ROWS, facts_of, prompt_of, real_logits

EVERY_ROW = pytest.mark.parametrize("slug", REAL_ROWS)


@EVERY_ROW
def test_slug_spells_its_prompt(slug: str) -> None:
    """A slug is ``real-`` and its prompt's letters and digits, with + and = as words."""
    prompt = prompt_of(slug).replace("+", "plus").replace("=", "is").lower()
    assert slug == "real-" + re.sub(r"[^a-z0-9]+", "-", prompt).strip("-")


def test_thirty_unique_rows() -> None:
    """Each of the thirty rows has a name of its own and other logits."""
    assert len(set(REAL_ROWS)) == len({real_logits(slug).tobytes() for slug in REAL_ROWS}) == 30


@EVERY_ROW
def test_logits_are_bfloat16(slug: str) -> None:
    """float32 [49152], finite, with nothing below bfloat16's last bit."""
    logits = real_logits(slug)
    assert (logits.dtype.name, logits.shape) == ("float32", (49152,))
    assert np.isfinite(logits).all()
    assert not (logits.view(np.uint32) & 0xFFFF).any()


@EVERY_ROW
def test_min_p_survivors(slug: str) -> None:
    """As many tokens reach 5 % of the likeliest as the record says."""
    logits = real_logits(slug).astype(np.float64)
    survivors = (np.exp(logits - logits.max()) >= 0.05).sum()
    assert survivors == facts_of(slug).survivors_min_p_0_05


@EVERY_ROW
def test_ties_with_the_20th(slug: str) -> None:
    """As many tokens share the 20th largest logit as the record says."""
    logits = real_logits(slug)
    assert (logits == np.sort(logits)[-20]).sum() == facts_of(slug).tied_with_20th


def test_recorded_log_probs() -> None:
    """The five likeliest tokens have the recorded ids' log-probs, which have four decimals."""
    records = json.loads(
        (files("sampler_scenarios") / "data" / "smollm2_135m_rows.json").read_text("utf-8")
    )
    for slug, record in zip(REAL_ROWS, records, strict=True):
        log_probs = log_softmax(real_logits(slug).astype(np.float64))
        ids, recorded = zip(*record["top"], strict=True)
        np.testing.assert_allclose(log_probs[list(ids)], recorded, atol=1e-4)
        np.testing.assert_array_equal(log_probs[list(ids)], np.sort(log_probs)[::-1][:5])


@EVERY_ROW
@pytest.mark.parametrize("vocab_size", [1, 20, 4096])
def test_shortened_rows_keep_the_likeliest(slug: str, vocab_size: int) -> None:
    """A shortened row is the full one without its least likely tokens, in the same order."""
    full, short = real_logits(slug), real_logits(slug, vocab_size)
    # Python's stable sort by (-logit, id) is the second route.
    likeliest = sorted(range(full.size), key=full.__getitem__, reverse=True)[:vocab_size]
    assert short.tolist() == [full[i] for i in sorted(likeliest)]


def test_the_field_reports_rows() -> None:
    """The rows on which the fault was seen have the survivors that it needs."""
    assert facts_of("real-she-opened-the-door-and-saw").survivors_min_p_0_05 == 4
    assert facts_of("real-you-should-never").tied_with_20th == 6
