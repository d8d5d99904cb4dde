"""bad_words against the reference, row by row."""

from collections.abc import Callable
from itertools import accumulate, chain

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from sampler_kernels import History, apply_bad_words, apply_bad_words_torch
from sampler_kernels import bad_words as stage
from sampler_scenarios.params import SamplingParams

Scene = tuple[NDArray[np.float32], torch.Tensor, History, Callable[..., NDArray[np.float32]]]
Words = tuple[tuple[int, ...], ...]

MAX_WORDS = 140


def _words(vocab_size: int, n_words: int, rng: np.random.Generator) -> Words:
    """Of one to four of the few tokens that the scenes' outputs hold, so that many match."""
    alphabet = [*range(min(vocab_size, 4)), vocab_size - 1, vocab_size, -2, -1]
    return tuple(tuple(rng.choice(alphabet, rng.integers(1, 5)).tolist()) for _ in range(n_words))


@pytest.mark.parametrize("block_size", [128, 4096])
@pytest.mark.parametrize("vocab_size", [1, 127, 128, 129, 4097])
def test_words_that_would_be_completed_are_masked(
    vocab_size: int,
    block_size: int,
    make_scene: Callable[..., Scene],
    make_table: Callable[..., torch.Tensor],
    assert_edits: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After output and drafts, never after the prompt; one tile of words or two."""
    rng = np.random.default_rng(vocab_size)
    words = [_words(vocab_size, n, rng) for n in (MAX_WORDS, 12, 12, 12, 0)]
    params = [SamplingParams(bad_words=asked) for asked in words]
    logits, slots, history, processed = make_scene(vocab_size, vocab_size, params)
    table = make_table([[*chain(*asked)] for asked in words], torch.int32, 4 * MAX_WORDS)
    offsets = [[*accumulate(map(len, asked), initial=0)] for asked in words]
    given = (slots, history, table, make_table(offsets, torch.int32, MAX_WORDS + 1))
    n_words = torch.tensor([len(asked) for asked in words], dtype=torch.int32)
    monkeypatch.setattr(stage, "DEFAULT_BLOCK_SIZE", block_size)
    assert_edits(
        lambda x: apply_bad_words(x, *given, n_words),
        lambda x: apply_bad_words_torch(x, *given, n_words),
        logits,
        processed("bad_words"),
    )


def _one_slot(n_rows: int = 1) -> History:
    """Prompt 0, output 1 2."""
    return History(
        token_ids=torch.tensor([[0, 1, 2]], dtype=torch.int32),
        prompt_len=torch.tensor([1], dtype=torch.int32),
        total_len=torch.tensor([3], dtype=torch.int32),
        drafts=torch.zeros((n_rows, 0), dtype=torch.int32),
        n_drafts=torch.zeros(n_rows, dtype=torch.int32),
    )


@pytest.mark.parametrize("apply", [apply_bad_words, apply_bad_words_torch])
def test_the_prompt_never_counts(apply: Callable[..., None]) -> None:
    """After prompt 0 and output 1 2, the word 1 2 3 is completed by 3, and 0 1 2 4 by nothing."""
    logits = torch.zeros(1, 6)
    words = torch.tensor([[1, 2, 3, 0, 1, 2, 4, 5]], dtype=torch.int32)
    offsets = torch.tensor([[0, 3, 7, 8]], dtype=torch.int32)
    n_words = torch.tensor([3], dtype=torch.int32)
    apply(logits, torch.tensor([0]), _one_slot(), words, offsets, n_words)
    assert logits.exp().tolist() == [[1, 1, 1, 0, 1, 0]]


@pytest.mark.parametrize("apply", [apply_bad_words, apply_bad_words_torch])
@pytest.mark.parametrize("offsets", [[2, 2], [1, 0], [-1, 0], [0, 3], [3, 4]])
def test_words_outside_the_table_are_ignored(
    offsets: list[int], apply: Callable[..., None]
) -> None:
    """Empty, backwards, before the table's start, across its end, beyond it."""
    logits, words = torch.zeros(1, 6), torch.tensor([[3, 3]], dtype=torch.int32)
    table, many = torch.tensor([offsets], dtype=torch.int32), torch.tensor([9], dtype=torch.int32)
    apply(logits, torch.tensor([0]), _one_slot(), words, table, many)
    assert (logits == 0).all()


@pytest.mark.parametrize("apply", [apply_bad_words, apply_bad_words_torch])
@pytest.mark.parametrize(("n_rows", "n_offsets"), [(0, 3), (2, 1), (2, 0)])
def test_nothing_to_do(n_rows: int, n_offsets: int, apply: Callable[..., None]) -> None:
    """Without rows or room for words nothing is masked."""
    logits, slots = torch.ones(n_rows, 6), torch.zeros(n_rows, dtype=torch.int64)
    words, offsets = (torch.zeros((1, n), dtype=torch.int32) for n in (4, n_offsets))
    apply(logits, slots, _one_slot(n_rows), words, offsets, torch.ones(1, dtype=torch.int32))
    assert (logits == 1).all()


@pytest.mark.parametrize("apply", [apply_bad_words, apply_bad_words_torch])
def test_tables_of_other_slots_are_refused(apply: Callable[..., None]) -> None:
    """Words, offsets and history have the same slots."""
    two = torch.zeros((2, 3), dtype=torch.int32)
    with pytest.raises(ValueError, match=r"words has shape \(2, 3\); \[1, any\] is expected"):
        apply(torch.zeros(1, 6), torch.tensor([0]), _one_slot(), two, two, two[:, 0])
