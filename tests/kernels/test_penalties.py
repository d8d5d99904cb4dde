"""The penalties against the reference, row by row, in every arithmetic and scope."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from sampler_kernels import History, apply_penalties, apply_penalties_torch
from sampler_kernels import _recount as recount
from sampler_reference.conventions import CONVENTIONS, Conventions
from sampler_scenarios.params import SamplingParams

Scene = tuple[NDArray[np.float32], torch.Tensor, History, Callable[..., NDArray[np.float32]]]

PENALTIES = ("repetition_penalty", "frequency_penalty", "presence_penalty")
PARAMS = [
    SamplingParams(repetition_penalty=1.3, frequency_penalty=0.37, presence_penalty=0.61),
    SamplingParams(repetition_penalty=0.7),
    SamplingParams(frequency_penalty=-1.1, presence_penalty=2.0),
    SamplingParams(repetition_penalty=1e-30, presence_penalty=-0.3),
    SamplingParams(),
]
OURS = CONVENTIONS["sampler-audit"]
CHOICES = {
    "sampler-audit": OURS,
    "vllm-triton": CONVENTIONS["vllm-triton"],
    "flashinfer": CONVENTIONS["flashinfer"],
    "llama.cpp": CONVENTIONS["llama.cpp"],
    "divided": replace(OURS, repetition_rule="divide"),
    "by the reciprocal": replace(OURS, repetition_rule="divide", reciprocal=True),
    "wide window": replace(OURS, penalty_window=50),
    "window of 3": replace(OURS, penalty_window=3),
    "window of 5 in the output": replace(OURS, penalty_window=5, repetition_scope="output"),
    "prompt counts": replace(OURS, count_scope="prompt+output", repetition_scope="output"),
}


def _vectors() -> dict[str, torch.Tensor]:
    return {
        name.removesuffix("_penalty"): torch.tensor([getattr(p, name) for p in PARAMS])
        for name in PENALTIES
    }


def _options(conventions: Conventions) -> dict[str, bool | int]:
    return {
        "reciprocal": conventions.reciprocal,
        "by_sign": conventions.repetition_rule == "by_sign",
        "prompt_in_repetition": conventions.repetition_scope == "prompt+output",
        "prompt_in_counts": conventions.count_scope == "prompt+output",
        "window": conventions.penalty_window,
    }


def _state(history: History, vocab_size: int) -> dict[str, torch.Tensor]:
    """Prompt bits and output counts as numpy counts them."""
    in_prompt = np.zeros((history.n_slots, -(-vocab_size // 32) * 32), np.bool_)
    counts = np.zeros((history.n_slots, vocab_size), np.int32)
    for slot, tokens in enumerate(history.token_ids.tolist()):
        prompt_len, total_len = int(history.prompt_len[slot]), int(history.total_len[slot])
        for position, token in enumerate(tokens[:total_len]):
            if 0 <= token < vocab_size and position < prompt_len:
                in_prompt[slot, token] = True
            elif 0 <= token < vocab_size:
                counts[slot, token] += 1
    bits = np.packbits(in_prompt, axis=1, bitorder="little").view(np.int32)
    return {"prompt_bitmask": torch.from_numpy(bits), "output_counts": torch.from_numpy(counts)}


@pytest.mark.parametrize(
    ("conventions", "vocab_size"),
    [
        *(pytest.param(c, 129, id=f"{name}, 129") for name, c in CHOICES.items()),
        *(pytest.param(OURS, n, id=f"sampler-audit, {n}") for n in (1, 127, 128, 4097)),
        *(pytest.param(CHOICES["llama.cpp"], n, id=f"llama.cpp, {n}") for n in (1, 4097)),
    ],
)
def test_seen_tokens_are_penalised(
    conventions: Conventions,
    vocab_size: int,
    make_scene: Callable[..., Scene],
    assert_edits: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Repetition, then frequency, then presence; drafts are seen; in tiles of any size."""
    logits, slots, history, processed = make_scene(vocab_size, vocab_size, PARAMS)
    given = _vectors() | _state(history, vocab_size) | _options(conventions)
    block_size = 128 if vocab_size % 2 else None
    monkeypatch.setattr(recount, "PAIR_BLOCK_SIZE", 8 if vocab_size % 2 else 64)
    kernel: Callable[..., None] = apply_penalties
    twin: Callable[..., None] = apply_penalties_torch
    assert_edits(
        lambda x: kernel(x, slots, history, **given, block_size=block_size),
        lambda x: twin(x, slots, history, **given),
        logits,
        processed(*PENALTIES, conventions=conventions),
    )


@pytest.mark.parametrize("apply", [apply_penalties, apply_penalties_torch])
def test_counts_are_those_of_the_state(apply: Callable[..., None]) -> None:
    """With r = 2, f = .5, p = .25: 4 / 2 - 3 * .5 - .25 after three times, -1 * 2 after none."""
    logits = torch.tensor([[4.0, -1.0, 4.0]])
    zero = torch.zeros(1, dtype=torch.int32)
    no_drafts = torch.zeros((1, 0), dtype=torch.int32)
    apply(
        logits,
        torch.tensor([0]),
        History(zero[:, None], zero, zero, no_drafts, zero),
        repetition=torch.tensor([2.0]),
        frequency=torch.tensor([0.5]),
        presence=torch.tensor([0.25]),
        prompt_bitmask=torch.tensor([[0b010]], dtype=torch.int32),
        output_counts=torch.tensor([[3, 0, 0]], dtype=torch.int32),
    )
    assert logits.tolist() == [[0.25, -2.0, 4.0]]


@pytest.mark.parametrize("apply", [apply_penalties, apply_penalties_torch])
@pytest.mark.parametrize("window", [0, 3])
@pytest.mark.parametrize(("n_rows", "n_slots"), [(0, 2), (2, 0), (2, 2)])
def test_nothing_to_do(n_rows: int, n_slots: int, window: int, apply: Callable[..., None]) -> None:
    """Without rows, slots or tokens nothing was seen."""
    lengths = torch.zeros(n_slots, dtype=torch.int32)
    history = History(
        torch.zeros((n_slots, 0), dtype=torch.int32),
        lengths,
        lengths,
        torch.zeros((n_rows, 0), dtype=torch.int32),
        torch.zeros(n_rows, dtype=torch.int32),
    )
    logits, slots, two = torch.ones(n_rows, 5), torch.zeros(n_rows).long(), lengths + 2.0
    given = {"repetition": two, "frequency": two, "presence": two, "window": window}
    apply(logits, slots, history, **given, **_state(history, 5))
    assert (logits == 1).all()


@pytest.mark.parametrize("apply", [apply_penalties, apply_penalties_torch])
@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"window": -1}, ValueError, "window is -1; 0 .all tokens. or a number of tokens"),
        ({"output_counts": None}, TypeError, "output_counts is NoneType; a tensor of int32"),
        ({"repetition": torch.ones(4)}, ValueError, r"repetition has shape \(4,\); \[5\], one va"),
        ({"presence": torch.ones(5).double()}, TypeError, "presence is torch.float64"),
    ],
)
def test_refused(
    change: dict[str, object],
    error: type[Exception],
    message: str,
    apply: Callable[..., None],
    make_scene: Callable[..., Scene],
) -> None:
    """The message says what was given and what is allowed."""
    logits, slots, history, _ = make_scene(9, 6, PARAMS)
    given = _vectors() | _state(history, 9) | change
    with pytest.raises(error, match=message):
        apply(torch.from_numpy(logits), slots, history, **given)
