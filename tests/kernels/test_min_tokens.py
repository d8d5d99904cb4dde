"""min_tokens against the reference, row by row, with and without a grammar."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from sampler_kernels import History, apply_min_tokens, apply_min_tokens_torch
from sampler_scenarios.params import SamplingParams

Scene = tuple[NDArray[np.float32], torch.Tensor, History, Callable[..., NDArray[np.float32]]]

CAP = 6


def _params(vocab_size: int) -> list[SamplingParams]:
    """Output lengths of the slots are 9, 4, 0, 9, 0, and up to 3 drafts follow."""
    stops = [(vocab_size - 1, 0, 0), (1,), (0, -1, vocab_size), tuple(range(CAP)), (2**31 - 1,)]
    return [
        SamplingParams(min_tokens=n, stop_token_ids=ids)
        for n, ids in zip((11, 4, 1, 10, 5), stops, strict=True)
    ]


def _grammars(params: list[SamplingParams], vocab_size: int) -> list[NDArray[np.bool_] | None]:
    """Some allow nothing but stop tokens, one allows one token more, and one slot has none."""
    token_ids = np.arange(vocab_size)
    grammars = [np.isin(token_ids, asked.stop_token_ids) for asked in params]
    grammars[3][vocab_size - 1] = True
    return [None, *grammars[1:]]


@pytest.mark.parametrize("ruled", [False, True])
@pytest.mark.parametrize("block_size", [None, 128])
@pytest.mark.parametrize("vocab_size", [1, 127, 128, 129, 4097])
def test_stop_tokens_are_masked_while_the_output_is_short(
    vocab_size: int,
    block_size: int | None,
    ruled: bool,
    make_scene: Callable[..., Scene],
    make_table: Callable[..., torch.Tensor],
    assert_edits: Callable[..., None],
) -> None:
    """Drafts count as output; what a grammar alone allows comes back."""
    params = _params(vocab_size)
    _, slots, history, processed = make_scene(vocab_size, vocab_size, params)
    grammars = _grammars(params, vocab_size) if ruled else [None] * 5
    min_tokens = torch.tensor([asked.min_tokens for asked in params], dtype=torch.int32)
    stops = make_table([asked.stop_token_ids for asked in params], torch.int32, CAP)
    counts = torch.tensor([len(asked.stop_token_ids) for asked in params], dtype=torch.int32)
    restore = torch.tensor([grammar is not None for grammar in grammars])
    given = (slots, history, min_tokens, stops, counts, restore)
    assert_edits(
        lambda x: apply_min_tokens(x, *given, block_size=block_size),
        lambda x: apply_min_tokens_torch(x, *given),
        processed("grammar", grammars=grammars),
        processed("grammar", "min_tokens", grammars=grammars),
    )


@pytest.mark.parametrize("apply", [apply_min_tokens, apply_min_tokens_torch])
def test_only_finite_stop_logits_come_back(apply: Callable[..., None]) -> None:
    """An infinite or NaN one does not, and none does where NaN stands elsewhere in the row."""
    inf, nan = float("inf"), float("nan")
    logits = torch.tensor([[-inf, 2.0, inf], [-inf, 2.0, nan], [nan, 2.0, 3.0], [-inf, 2.0, 3.0]])
    n = len(logits)
    zero = torch.zeros(1, dtype=torch.int32)
    drafts, no_drafts = torch.zeros((n, 0), dtype=torch.int32), zero.expand(n)
    history = History(zero[:, None], zero, zero, drafts, no_drafts)
    stops, two = torch.tensor([[1, 2]], dtype=torch.int32), torch.tensor([2], dtype=torch.int32)
    apply(logits, torch.zeros(n, dtype=torch.int64), history, two, stops, two, torch.tensor([True]))
    expected = [[-inf, 2, -inf], [-inf, 2, -inf], [nan, -inf, -inf], [-inf, 2, 3]]
    np.testing.assert_array_equal(logits.numpy(), np.array(expected, np.float32))


@pytest.mark.parametrize("apply", [apply_min_tokens, apply_min_tokens_torch])
@pytest.mark.parametrize(("n_rows", "n_slots", "cap"), [(0, 2, 3), (2, 0, 3), (2, 2, 0)])
def test_nothing_to_do(n_rows: int, n_slots: int, cap: int, apply: Callable[..., None]) -> None:
    """Without rows, slots or stop tokens nothing is masked."""
    lengths = torch.zeros(n_slots, dtype=torch.int32)
    history = History(
        lengths[:, None],
        lengths,
        lengths,
        torch.zeros((n_rows, 0), dtype=torch.int32),
        torch.zeros(n_rows, dtype=torch.int32),
    )
    logits, slots = torch.ones(n_rows, 5), torch.zeros(n_rows, dtype=torch.int64)
    stops = torch.zeros((n_slots, cap), dtype=torch.int32)
    apply(logits, slots, history, lengths + 1, stops, lengths + 1, lengths > 0)
    assert (logits == 1).all()


@pytest.mark.parametrize("apply", [apply_min_tokens, apply_min_tokens_torch])
def test_too_many_stop_tokens_are_refused(
    apply: Callable[..., None], make_scene: Callable[..., Scene]
) -> None:
    """They must fit the registers of one program."""
    logits, slots, history, _ = make_scene(9, 4, [SamplingParams()] * 5)
    five = torch.ones(5, dtype=torch.int32)
    stops = torch.zeros((5, 4097), dtype=torch.int32)
    with pytest.raises(ValueError, match="room for 4097 a slot; at most 4096 is"):
        apply(torch.from_numpy(logits), slots, history, five, stops, five, five > 0)
