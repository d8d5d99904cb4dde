"""The grammar's bitmask against a mask of booleans."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from sampler_kernels import History, apply_bitmask, apply_bitmask_torch

Scene = tuple[NDArray[np.float32], torch.Tensor, History, Callable[..., NDArray[np.float32]]]


def _packed(allowed: NDArray[np.bool_]) -> torch.Tensor:
    """NumPy's own packing: bit t % 32 of word t // 32; bits beyond the vocabulary are 1."""
    n, vocab_size = allowed.shape
    padded = np.ones((n, -(-vocab_size // 32) * 32), np.bool_)
    padded[:, :vocab_size] = allowed
    return torch.from_numpy(np.packbits(padded, axis=1, bitorder="little").view(np.int32))


@pytest.mark.parametrize("block_size", [None, 128])
@pytest.mark.parametrize("vocab_size", [1, 127, 128, 129, 4097])
def test_tokens_that_are_not_allowed_are_masked(
    vocab_size: int,
    block_size: int | None,
    make_scene: Callable[..., Scene],
    assert_edits: Callable[..., None],
) -> None:
    """In the listed rows only; a row that is listed twice needs both masks."""
    logits, *_ = make_scene(vocab_size, 3, [None] * 5)
    allowed = np.random.default_rng(vocab_size).random((6, vocab_size)) < 0.5
    rows = np.array([3, 0, -1, len(logits), 7, 3])
    expected = logits.copy()
    for mask, row in zip(allowed, rows, strict=True):
        if 0 <= row < len(logits):
            expected[row, ~mask] = -np.inf
    bitmask, listed = _packed(allowed), torch.from_numpy(rows)
    assert_edits(
        lambda x: apply_bitmask(x, bitmask, listed, block_size=block_size),
        lambda x: apply_bitmask_torch(x, bitmask, listed),
        logits,
        expected,
    )


@pytest.mark.parametrize("apply", [apply_bitmask, apply_bitmask_torch])
@pytest.mark.parametrize(("n_rows", "n_masks"), [(0, 0), (0, 1), (2, 0)])
def test_nothing_to_do(n_rows: int, n_masks: int, apply: Callable[..., None]) -> None:
    """Without rows or without masks nothing changes."""
    logits = torch.ones(n_rows, 40)
    rows = torch.zeros(n_masks, dtype=torch.int64)
    apply(logits, torch.zeros((n_masks, 2), dtype=torch.int32), rows)
    assert (logits == 1).all()


@pytest.mark.parametrize("apply", [apply_bitmask, apply_bitmask_torch])
@pytest.mark.parametrize(
    ("width", "n_rows", "message"),
    [
        (3, 1, r"bitmask has shape \(1, 3\); \[any, 2\] is expected"),
        (2, 2, r"rows has shape \(2,\); \[1\], one value for each row of bitmask"),
    ],
)
def test_refused(width: int, n_rows: int, message: str, apply: Callable[..., None]) -> None:
    """A bitmask of another vocabulary, and rows that are not one a mask."""
    bitmask = torch.zeros((1, width), dtype=torch.int32)
    with pytest.raises(ValueError, match=message):
        apply(torch.zeros(2, 40), bitmask, torch.zeros(n_rows, dtype=torch.int64))
