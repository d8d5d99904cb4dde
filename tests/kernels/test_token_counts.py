"""The state of the penalties against counting one by one."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from sampler_kernels import (
    History,
    add_output_tokens,
    add_output_tokens_torch,
    rebuild_token_counts,
    rebuild_token_counts_torch,
    token_counts,
)

Scene = tuple[NDArray[np.float32], torch.Tensor, History, Callable[..., NDArray[np.float32]]]

STALE = 77


def _stale_state(n_slots: int, vocab_size: int) -> tuple[torch.Tensor, torch.Tensor]:
    shapes = ((n_slots, -(-vocab_size // 32)), (n_slots, vocab_size))
    bitmask, counts = (torch.full(shape, STALE, dtype=torch.int32) for shape in shapes)
    return bitmask, counts


def _counted(tokens: list[int], vocab_size: int) -> NDArray[np.int64]:
    return np.array([tokens.count(token) for token in range(vocab_size)])


@pytest.mark.parametrize("rebuild", [rebuild_token_counts, rebuild_token_counts_torch])
@pytest.mark.parametrize("longest", [9, 150])
@pytest.mark.parametrize("vocab_size", [1, 127, 128, 129, 4097])
def test_rebuilt_state_is_that_of_prompt_and_output(
    vocab_size: int,
    longest: int,
    rebuild: Callable[..., None],
    make_scene: Callable[..., Scene],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever stood there before; slots that were not named keep theirs; in one tile or three."""
    *_, history, _ = make_scene(vocab_size, vocab_size, [None] * 5, longest)
    bitmask, counts = _stale_state(5, vocab_size)
    monkeypatch.setattr(token_counts, "DEFAULT_BLOCK_SIZE", 128)
    rebuild(history, torch.tensor([3, 5, 0, -1, 1]), bitmask, counts)
    for slot in (0, 1, 3):
        prompt_len, total_len = int(history.prompt_len[slot]), int(history.total_len[slot])
        tokens = history.token_ids[slot, :total_len].tolist()
        bits = np.unpackbits(bitmask[slot].numpy().view(np.uint8), bitorder="little")
        in_prompt = _counted(tokens[:prompt_len], vocab_size) > 0
        np.testing.assert_array_equal(bits[:vocab_size], in_prompt)
        assert not bits[vocab_size:].any()
        np.testing.assert_array_equal(counts[slot], _counted(tokens[prompt_len:], vocab_size))
    assert (counts[[2, 4]] == STALE).all()
    assert (bitmask[[2, 4]] == STALE).all()


@pytest.mark.parametrize("add", [add_output_tokens, add_output_tokens_torch])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("shape", [(7, 1), (70, 3), (0, 3), (3, 0)])
def test_emitted_tokens_are_counted(
    shape: tuple[int, int],
    dtype: torch.dtype,
    add: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each in its slot, as often as it is there; padding, other ids and other slots are not."""
    rng = np.random.default_rng(8)
    slots, token_ids = rng.integers(-1, 5, shape[0]), rng.integers(-1, 8, shape)
    expected = np.full((4, 7), STALE)
    for slot, emitted in zip(slots, token_ids, strict=True):
        for token in emitted:
            if 0 <= slot < 4 and 0 <= token < 7:
                expected[slot, token] += 1
    _, counts = _stale_state(4, 7)
    monkeypatch.setattr(token_counts, "DEFAULT_BLOCK_SIZE", 128)
    add(counts, torch.from_numpy(slots), torch.from_numpy(token_ids).to(dtype))
    np.testing.assert_array_equal(counts, expected)


@pytest.mark.parametrize("rebuild", [rebuild_token_counts, rebuild_token_counts_torch])
@pytest.mark.parametrize("named", [[], [0]])
def test_nothing_to_count(named: list[int], rebuild: Callable[..., None]) -> None:
    """No slots change nothing, and a slot without room for tokens has none."""
    lengths = torch.zeros(1, dtype=torch.int32)
    empty = torch.zeros((1, 0), dtype=torch.int32)
    bitmask, counts = _stale_state(1, 40)
    slots = torch.tensor(named, dtype=torch.int64)
    rebuild(History(empty, lengths, lengths, empty, lengths), slots, bitmask, counts)
    assert (counts == (0 if named else STALE)).all()
    assert (bitmask == (0 if named else STALE)).all()


def test_state_must_not_be_copied(make_scene: Callable[..., Scene]) -> None:
    """A table that is not contiguous would be counted in a copy."""
    *_, history, _ = make_scene(40, 7, [None] * 5)
    bitmask, counts = _stale_state(5, 80)
    with pytest.raises(ValueError, match=r"output_counts has strides \(80, 2\); contiguous"):
        rebuild_token_counts(history, torch.tensor([0]), bitmask[:, :2], counts[:, ::2])
    with pytest.raises(ValueError, match=r"slots has shape \(2,\); \[1\]"):
        add_output_tokens(counts, torch.tensor([0, 1]), torch.zeros((1, 1), dtype=torch.int64))
