"""What a history refuses, and how it reads lengths that cannot be."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from sampler_kernels import History, apply_bad_words, apply_bad_words_torch


def _history() -> History:
    """Two slots and three rows: tokens 1 2 3 4 and 5 6 7 8, drafts 9 before every row."""
    return History(
        token_ids=torch.arange(1, 9, dtype=torch.int32).view(2, 4),
        prompt_len=torch.tensor([1, 0], dtype=torch.int32),
        total_len=torch.tensor([3, 4], dtype=torch.int32),
        drafts=torch.full((3, 1), 9, dtype=torch.int32),
        n_drafts=torch.zeros(3, dtype=torch.int32),
    )


ZEROS = torch.zeros(2, dtype=torch.int32)

REFUSED: dict[str, tuple[dict[str, object], type[Exception], str]] = {
    "no tensor": ({"token_ids": [[1]]}, TypeError, "token_ids is list; a tensor of int32"),
    "dtype": ({"token_ids": ZEROS[:, None].long()}, TypeError, "token_ids is torch.int64"),
    "one slot's": ({"token_ids": ZEROS}, ValueError, r"shape \(2,\); \[any, any\] is expected"),
    "strides": (
        {"token_ids": torch.zeros((2, 8), dtype=torch.int32)[:, ::2]},
        ValueError,
        r"token_ids has strides \(8, 2\); contiguous .*token_ids\.contiguous\(\)",
    ),
    "lengths": (
        {"total_len": torch.zeros(3, dtype=torch.int32)},
        ValueError,
        r"total_len has shape \(3,\); \[2\], one value for each slot",
    ),
    "drafts": ({"n_drafts": ZEROS}, ValueError, r"n_drafts has shape \(2,\); \[3\], .* each row"),
    "device": (
        {"drafts": torch.zeros((3, 1), dtype=torch.int32, device="meta")},
        ValueError,
        r"drafts is on meta but cpu is expected.*drafts\.to\('cpu'\)",
    ),
}


@pytest.mark.parametrize(("change", "error", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(change: dict[str, object], error: type[Exception], message: str) -> None:
    """The message says what was given, what is expected, and what to do."""
    with pytest.raises(error, match=message):
        replace(_history(), **change)  # type: ignore[arg-type]  # the error under test


@pytest.mark.parametrize("apply", [apply_bad_words, apply_bad_words_torch])
def test_rows_must_be_those_of_the_logits(apply: Callable[..., None]) -> None:
    """Drafts belong to rows, so a batch of other rows has another history."""
    slots = torch.zeros(2, dtype=torch.int64)
    with pytest.raises(ValueError, match=r"drafts of 3 rows but logits have 2; .*pad"):
        apply(torch.zeros(2, 9), slots, _history(), ZEROS[:, None], ZEROS[:, None], ZEROS)


@pytest.mark.parametrize("apply", [apply_bad_words, apply_bad_words_torch])
@pytest.mark.parametrize(
    ("change", "completed"),
    [
        ({}, {0: [2, 3], 1: [7, 8]}),
        ({"total_len": torch.tensor([99, -1], dtype=torch.int32)}, {0: [3, 4], 1: []}),
        ({"prompt_len": torch.tensor([-5, 99], dtype=torch.int32)}, {0: [2, 3], 1: []}),
        ({"n_drafts": torch.tensor([7, -7, 0], dtype=torch.int32)}, {0: [3, 9], 1: [7, 8]}),
    ],
)
def test_lengths_are_read_as_the_nearest_that_can_be(
    change: dict[str, torch.Tensor], completed: dict[int, list[int]], apply: Callable[..., None]
) -> None:
    """A word of the last two tokens and 0 tells which tokens those are, for rows of both slots."""
    history = replace(_history(), **change)
    for row, last_two in completed.items():
        logits = torch.zeros(3, 10)
        words = torch.tensor([[*last_two, 0]] * 2, dtype=torch.int32)
        offsets = torch.tensor([[0, words.shape[1]]] * 2, dtype=torch.int32)
        one = torch.ones(2, dtype=torch.int32)
        apply(logits, torch.tensor([0, 1, 5]), history, words, offsets, one)
        assert logits[row, 0] == -torch.inf
