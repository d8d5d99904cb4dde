"""The rows of the built-in model."""

import numpy as np
import pytest
from numpy.typing import NDArray

from sampler_audit.demo.model import DemoModel
from sampler_scenarios.real_rows import REAL_ROWS, prompt_of
from sampler_scenarios.rows import load_row

MODEL = DemoModel()
ROWS = [MODEL.row((7, i, 3 * i)) for i in range(200)]


def probs(row: NDArray[np.float32]) -> NDArray[np.float64]:
    """Likeliest first."""
    weights = np.exp(row.astype(np.float64) - row.max())
    ordered: NDArray[np.float64] = np.sort(weights / weights.sum())[::-1]
    return ordered


@pytest.mark.parametrize("slug", REAL_ROWS)
def test_real_prompts_give_the_real_rows(slug: str) -> None:
    """Their likeliest 4096 tokens, as scenarios cut them."""
    row = MODEL.row(MODEL.tokenizer.encode(prompt_of(slug)))
    assert np.array_equal(row, load_row(f"{slug}@4096").logits)


def test_the_last_four_tokens_determine_a_row() -> None:
    """And a fifth does not."""
    assert np.array_equal(MODEL.row((9, 1, 2, 3, 4)), DemoModel().row((8, 1, 2, 3, 4)))
    assert not np.array_equal(MODEL.row((9, 1, 2, 3, 4)), MODEL.row((9, 2, 2, 3, 4)))


def test_rows_are_finite_and_read_only() -> None:
    """float32 of the vocabulary's size."""
    assert all(row.dtype == np.float32 and row.shape == (4096,) for row in ROWS)
    assert all(np.isfinite(row).all() and not row.flags.writeable for row in ROWS)


def test_rows_are_of_many_shapes() -> None:
    """Of 200 rows at least 15 each: one token above .6; two to eight tokens hold .95; hundreds
    matter; the 20th is tied. Each shape has a share of .2, so fewer than 15 have chance 1e-6.
    """  # noqa: D205 - one sentence
    laws = [probs(row) for row in ROWS]
    assert sum(law[0] > 0.6 for law in laws) >= 15
    assert sum(law[0] < 0.6 and law[:8].sum() > 0.95 for law in laws) >= 15
    assert sum(law[:100].sum() < 0.95 for law in laws) >= 15
    assert sum(law[19] == law[20] for law in laws) >= 15


def test_ends_are_likely_in_a_quarter_of_the_rows_and_never_the_likeliest() -> None:
    """A quarter of 200 is 50; outside 25 to 80 with chance 1e-5."""
    ends = list(MODEL.config.eos_token_ids)
    likely = sum(bool((row.max() - row[ends] < 2).all()) for row in ROWS)
    assert 25 <= likely <= 80
    assert not any(int(row.argmax()) in ends for row in ROWS)


def test_a_vocabulary_has_a_least_size() -> None:
    """Below it the shapes do not fit."""
    assert DemoModel(256).row((1,)).shape == (256,)
    with pytest.raises(ValueError, match="vocab_size must be at least 256, got 255"):
        DemoModel(255)


def test_a_draft_row_is_near_the_row_and_not_equal() -> None:
    """Total variation .02 to .6: it errs, and most of its drafts are accepted."""
    drafts = [MODEL.draft_row((7, i, 3 * i)).astype(np.float64) for i in range(20)]
    for row, draft in zip(ROWS, drafts, strict=False):
        p, q = (np.exp(z - np.logaddexp.reduce(z)) for z in (row.astype(np.float64), draft))
        assert 0.02 < np.abs(p - q).sum() / 2 < 0.6
