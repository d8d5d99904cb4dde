"""thinking_budget against the reference, row by row."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from sampler_kernels import History, apply_thinking_budget, apply_thinking_budget_torch
from sampler_scenarios.params import SamplingParams
from sampler_scenarios.requests import ModelConfig

Scene = tuple[NDArray[np.float32], torch.Tensor, History, Callable[..., NDArray[np.float32]]]
Marker = tuple[int, ...]

BUDGETS = (0, 2, 1, 40, None)
MARKERS: dict[str, tuple[Marker, Marker]] = {
    "one token": ((0,), (1,)),
    "two tokens": ((0,), (1, 2)),
    "overlapping": ((0, 1), (1, 0, 1, 2)),
    "the same": ((0,), (0,)),
    "end repeats itself": ((0,), (1, 1, 1)),
    "beyond the vocabulary": ((0,), (1, 10**6)),
    "no room to start": ((0,) * 400, (1,)),
    "no room to end": ((0,), (1,) * 30),
    "none": ((), ()),
}


def _int32(values: tuple[int, ...]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


@pytest.mark.parametrize("markers", MARKERS.values(), ids=MARKERS.keys())
@pytest.mark.parametrize(
    ("vocab_size", "longest"), [(1, 9), (127, 150), (128, 9), (129, 150), (4097, 9)]
)
def test_the_end_is_forced_when_the_budget_is_spent(
    vocab_size: int,
    longest: int,
    markers: tuple[Marker, Marker],
    make_scene: Callable[..., Scene],
    assert_edits: Callable[..., None],
) -> None:
    """Whatever tokens, drafts included, stand before the row; in one tile or several."""
    params = [SamplingParams(thinking_token_budget=budget) for budget in BUDGETS]
    logits, slots, history, processed = make_scene(vocab_size, vocab_size, params, longest)
    model = ModelConfig(vocab_size=vocab_size, reasoning_start=markers[0], reasoning_end=markers[1])
    budgets = _int32(tuple(-1 if budget is None else budget for budget in BUDGETS))
    start, end = map(_int32, markers)
    assert_edits(
        lambda x: apply_thinking_budget(x, slots, history, budgets, start, end, block_size=128),
        lambda x: apply_thinking_budget_torch(x, slots, history, budgets, start, end),
        logits,
        processed("thinking_budget", model=model),
    )


START, END = 8, (5, 6, 7)


@pytest.mark.parametrize(
    "apply", [partial(apply_thinking_budget, block_size=128), apply_thinking_budget_torch]
)
@pytest.mark.parametrize(
    ("tokens", "forced"),
    [
        ([1, 2, 3, 4], None),
        ([START, 1], None),
        ([START, 1, 2], 5),
        ([START, 5, 6], 7),
        ([START, 1, 2, 5], 6),
        ([START, 1, 2, 6], 5),
        ([START, 1, 2, *END], None),
        ([START, 1, *END, START, 1], None),
        ([START, 1, *END, START, 1, 2], 5),
        ([*END, START, 1, 2, START], None),
        ([START, *[1] * 128], 5),
        ([START, *[1] * 400], 5),
        ([START, *[1] * 400, *END, *[1] * 400], None),
    ],
)
@pytest.mark.parametrize("n_drafts", [0, 2])
@pytest.mark.parametrize("n_prompt", [0, 2])
def test_cases_by_hand(
    tokens: list[int],
    forced: int | None,
    n_drafts: int,
    n_prompt: int,
    apply: Callable[..., None],
) -> None:
    """A budget of two tokens; prompt, output and drafts are one sequence."""
    committed = len(tokens) - n_drafts
    history = History(
        token_ids=_int32((*tokens[:committed], 9))[None, :],
        prompt_len=_int32((n_prompt,)),
        total_len=_int32((committed,)),
        drafts=_int32(tuple(tokens[committed:]))[None, :],
        n_drafts=_int32((n_drafts,)),
    )
    logits = torch.zeros(1, 10)
    apply(logits, torch.tensor([0]), history, _int32((2,)), _int32((START,)), _int32(END))
    assert logits.nonzero()[:, 1].tolist() == ([] if forced is None else [forced])
    # vllm 0.32.0, v1/worker/gpu/sample/thinking_budget.py
    assert logits.max() == (0 if forced is None else 1e9)


@pytest.mark.parametrize("apply", [apply_thinking_budget, apply_thinking_budget_torch])
@pytest.mark.parametrize(("n_rows", "n_slots"), [(0, 2), (2, 0), (2, 2)])
def test_nothing_to_do(n_rows: int, n_slots: int, apply: Callable[..., None]) -> None:
    """Without rows, slots or tokens nothing is forced."""
    lengths = torch.zeros(n_slots, dtype=torch.int32)
    history = History(
        torch.zeros((n_slots, 0), dtype=torch.int32),
        lengths,
        lengths,
        torch.zeros((n_rows, 0), dtype=torch.int32),
        torch.zeros(n_rows, dtype=torch.int32),
    )
    logits, slots = torch.ones(n_rows, 5), torch.zeros(n_rows, dtype=torch.int64)
    apply(logits, slots, history, lengths, _int32((0,)), _int32((1,)))
    assert (logits == 1).all()


@pytest.mark.parametrize("apply", [apply_thinking_budget, apply_thinking_budget_torch])
def test_markers_are_vectors(apply: Callable[..., None], make_scene: Callable[..., Scene]) -> None:
    """A marker is one sequence of tokens, the same for every row."""
    logits, slots, history, _ = make_scene(9, 9, [SamplingParams()] * 5)
    five, one = torch.ones(5, dtype=torch.int32), _int32((1,))
    with pytest.raises(ValueError, match=r"end has shape \(1, 1\); \[1\], one value for each tok"):
        apply(torch.from_numpy(logits), slots, history, five, one, one[None, :])
    with pytest.raises(TypeError, match="start is int; a tensor of int32"):
        apply(torch.from_numpy(logits), slots, history, five, 8, one)
