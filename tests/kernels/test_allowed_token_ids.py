"""allowed_token_ids against the reference, row by row."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from sampler_kernels import History, apply_allowed_token_ids, apply_allowed_token_ids_torch
from sampler_kernels import allowed_token_ids as stage
from sampler_scenarios.params import SamplingParams

Scene = tuple[NDArray[np.float32], torch.Tensor, History, Callable[..., NDArray[np.float32]]]

CAP = 140


def _allowed(vocab_size: int) -> list[tuple[int, ...] | None]:
    """Many with repeats, no restriction, none of the vocabulary, its ends, and one."""
    rng = np.random.default_rng(vocab_size)
    return [
        tuple(rng.integers(0, vocab_size, CAP).tolist()),
        None,
        (-1, vocab_size, 2**31 - 1),
        (vocab_size - 1, 0, -(2**31)),
        (vocab_size // 2,),
    ]


@pytest.mark.parametrize("block_size", [None, 128])
@pytest.mark.parametrize("vocab_size", [1, 127, 128, 129, 4097])
def test_other_tokens_are_masked(
    vocab_size: int,
    block_size: int | None,
    make_scene: Callable[..., Scene],
    make_table: Callable[..., torch.Tensor],
    assert_edits: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Allowed logits pass as they are, with lists and vocabularies of one tile and of several."""
    allowed = _allowed(vocab_size)
    params = [SamplingParams(allowed_token_ids=ids) for ids in allowed]
    logits, slots, _, processed = make_scene(vocab_size, vocab_size, params)
    token_ids = make_table([ids or () for ids in allowed], torch.int32, CAP)
    counts = torch.tensor([len(ids or ()) for ids in allowed], dtype=torch.int32)
    monkeypatch.setattr(stage, "DEFAULT_BLOCK_SIZE", block_size or 4096)
    assert_edits(
        lambda x: apply_allowed_token_ids(x, slots, token_ids, counts, block_size=block_size),
        lambda x: apply_allowed_token_ids_torch(x, slots, token_ids, counts),
        logits,
        processed("allowed_token_ids"),
    )


@pytest.mark.parametrize("apply", [apply_allowed_token_ids, apply_allowed_token_ids_torch])
def test_counts_beyond_the_table_mean_the_table(apply: Callable[..., None]) -> None:
    """A count above the table's width reads no further; a negative one does not restrict."""
    logits, slots = torch.zeros(2, 4), torch.tensor([0, 1])
    token_ids = torch.tensor([[1, 3], [1, 3]], dtype=torch.int32)
    apply(logits, slots, token_ids, torch.tensor([9, -1], dtype=torch.int32))
    assert logits.exp().tolist() == [[0, 1, 0, 1], [1, 1, 1, 1]]


@pytest.mark.parametrize("apply", [apply_allowed_token_ids, apply_allowed_token_ids_torch])
@pytest.mark.parametrize(("n_rows", "n_slots", "cap"), [(0, 2, 3), (2, 0, 3), (2, 2, 0)])
def test_nothing_to_do(n_rows: int, n_slots: int, cap: int, apply: Callable[..., None]) -> None:
    """Without rows, slots or room in the table nothing is restricted."""
    logits = torch.ones(n_rows, 5)
    slots = torch.zeros(n_rows, dtype=torch.int64)
    token_ids = torch.zeros((n_slots, cap), dtype=torch.int32)
    apply(logits, slots, token_ids, torch.ones(n_slots, dtype=torch.int32))
    assert (logits == 1).all()


@pytest.mark.parametrize("apply", [apply_allowed_token_ids, apply_allowed_token_ids_torch])
def test_counts_of_another_shape_are_refused(apply: Callable[..., None]) -> None:
    """There is one count for each slot of the table."""
    token_ids, zeros = torch.zeros((2, 3), dtype=torch.int32), torch.zeros(4, dtype=torch.int64)
    with pytest.raises(ValueError, match=r"counts has shape \(4,\); \[2\], one value for each slo"):
        apply(torch.zeros(4, 5), zeros, token_ids, zeros.int())
