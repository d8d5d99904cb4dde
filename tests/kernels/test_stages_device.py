"""On a GPU: the compiled stages give the bits of the twins on the CPU."""

from collections.abc import Callable
from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import sampler_kernels
from sampler_kernels import INTERPRETED, History

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        INTERPRETED or not torch.cuda.is_available(),
        reason="needs a GPU and TRITON_INTERPRET=0",
    ),
]

Scene = tuple[NDArray[np.float32], torch.Tensor, History, Callable[..., NDArray[np.float32]]]
Arguments = dict[str, object]

WIDTH = 40


def _arguments(vocab_size: int, slots: torch.Tensor, history: History) -> dict[str, Arguments]:
    """What each stage takes beside the logits: random, with ids of no token among them."""
    rng = np.random.default_rng(vocab_size)

    def int32(low: int, high: int, *shape: int) -> torch.Tensor:
        return torch.from_numpy(rng.integers(low, high, shape).astype(np.int32))

    def fp32(*shape: int) -> torch.Tensor:
        return torch.from_numpy(rng.uniform(0.5, 2, shape).astype(np.float32))

    token_ids = torch.from_numpy(
        np.stack([rng.permutation(max(vocab_size, WIDTH) + 4)[:WIDTH] - 2 for _ in range(5)])
    ).int()
    lists: Arguments = {"slots": slots, "token_ids": token_ids, "counts": int32(0, WIDTH + 1, 5)}
    rows = {"slots": slots, "history": history}
    n_words = -(-vocab_size // 32)
    penalties = {name: fp32(5) for name in ("repetition", "frequency", "presence")}
    state = {
        "prompt_bitmask": int32(-(2**31), 2**31, 5, n_words),
        "output_counts": int32(0, 3, 5, vocab_size),
    }
    return {
        "apply_bitmask": {"bitmask": int32(-(2**31), 2**31, 10, n_words), "rows": slots + 1},
        "apply_allowed_token_ids": lists,
        "apply_logit_bias": {**lists, "biases": fp32(5, WIDTH)},
        "apply_min_tokens": {
            **rows,
            "min_tokens": int32(0, 12, 5),
            "stop_token_ids": token_ids,
            "counts": lists["counts"],
            "restore": torch.tensor([True, False, True, False, True]),
        },
        "apply_penalties": {**rows, **penalties, **state},
        "apply_penalties by the reciprocal": {
            **rows, **penalties, **state, "reciprocal": True, "by_sign": False,
        },
        "apply_penalties in a window": {**rows, **penalties, "window": 70},
        "apply_bad_words": {
            **rows,
            "words": int32(0, 4, 5, 3 * WIDTH),
            "offsets": (torch.arange(WIDTH + 1) * 3).int().repeat(5, 1),
            "n_words": int32(0, WIDTH + 1, 5),
        },
        "apply_thinking_budget": {
            **rows,
            "budgets": int32(-1, 9, 5),
            "start": int32(0, 4, 1),
            "end": int32(0, 4, 2),
        },
    }  # fmt: skip


def _on_gpu(value: object) -> object:
    if isinstance(value, History):
        return replace(value, **{f.name: getattr(value, f.name).cuda() for f in fields(value)})
    return value.cuda() if isinstance(value, torch.Tensor) else value


@pytest.mark.parametrize("vocab_size", [1, 129, 4096, 32001])
@pytest.mark.parametrize("longest", [9, 1500])
def test_stages(vocab_size: int, longest: int, make_scene: Callable[..., Scene]) -> None:
    """Every stage edits every kind of row on the GPU as its twin does on the CPU."""
    logits, slots, history, _ = make_scene(vocab_size, 1, [None] * 5, longest)
    for name, given in _arguments(vocab_size, slots, history).items():
        stage = name.split()[0]
        edited, expected = torch.from_numpy(logits).cuda(), torch.from_numpy(logits.copy())
        getattr(sampler_kernels, stage)(edited, **{k: _on_gpu(v) for k, v in given.items()})
        getattr(sampler_kernels, f"{stage}_torch")(expected, **given)
        np.testing.assert_array_equal(edited.cpu().numpy(), expected.numpy(), name)


@pytest.mark.parametrize("vocab_size", [1, 129, 4096, 32001])
def test_token_counts(vocab_size: int, make_scene: Callable[..., Scene]) -> None:
    """State that is rebuilt and then counted up on the GPU is that of the twins on the CPU."""
    *_, history, _ = make_scene(vocab_size, 1, [None] * 5, 1500)
    states = []
    for suffix, move in (("", _on_gpu), ("_torch", lambda value: value)):
        bitmask = move(torch.full((5, -(-vocab_size // 32)), 7, dtype=torch.int32))
        counts = move(torch.full((5, vocab_size), 7, dtype=torch.int32))
        slots = move(torch.tensor([3, 5, 0, -1, 4]))
        rebuild = getattr(sampler_kernels, f"rebuild_token_counts{suffix}")
        rebuild(move(history), slots, bitmask, counts)
        emitted = move(torch.tensor([[0, 0], [1, 1], [-1, 0], [0, 0], [vocab_size, 0]]))
        getattr(sampler_kernels, f"add_output_tokens{suffix}")(counts, slots, emitted)
        states.append((torch.as_tensor(bitmask).cpu(), torch.as_tensor(counts).cpu()))
    assert all(map(torch.equal, *states))
