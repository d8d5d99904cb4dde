"""The oracles of filters and stages, inputs that are hard for them, memory nobody has cleared."""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

# The suite hands CPU tensors to kernels, also on a machine with a GPU; ``TRITON_INTERPRET=0 pytest
# -m gpu`` runs what is for the GPU. Set here because the kernels are imported after this file.
os.environ.setdefault("TRITON_INTERPRET", "1")

from sampler_kernels import History
from sampler_reference.conventions import CONVENTIONS, Conventions
from sampler_reference.processors import PROCESSORS
from sampler_scenarios.params import SamplingParams
from sampler_scenarios.requests import ModelConfig, Request

# The tensors are small: beside other processes a second thread costs more than it gives.
torch.set_num_threads(1)

FLT_MAX = np.finfo(np.float32).max

Oracle = Callable[..., NDArray[np.bool_]]


def _kept_tokens(
    row: NDArray[np.float32], k: int, p: float, min_p: float, *, keep_all: bool
) -> NDArray[np.bool_]:
    """Float64, a stable sort and a running sum: the filters as they are defined."""
    z = np.where(np.isnan(row), -np.inf, np.minimum(row, FLT_MAX)).astype(np.float64)
    order = np.argsort(-z, kind="stable")
    z, rank = z[order], np.arange(len(z))
    kept = z > -np.inf
    if min_p > 0 and kept.any():
        kept &= z >= z[0] + np.log(np.float64(np.float32(min_p)))
    if 0 < k < len(z):
        kept &= (z >= z[k - 1]) if keep_all else (rank < k)
    if np.float32(p) < 1 and kept.any():
        mass = np.exp(z - z[0], where=kept, out=np.zeros_like(z))
        before = np.cumsum(mass) - mass
        nucleus = before < np.float64(np.float32(p)) * mass.sum()
        kept &= (z >= z[nucleus.sum() - 1]) if keep_all else nucleus
    mask = np.zeros_like(kept)
    mask[order] = kept
    return mask


@pytest.fixture(scope="session")
def kept_tokens() -> Oracle:
    """The mask of kept tokens of one fp32 row."""
    return _kept_tokens


def _hard_rows(vocab_size: int) -> dict[str, NDArray[np.float32]]:
    rng = np.random.default_rng(20261130)

    def dense(scale: float = 3.0) -> NDArray[np.float64]:
        return rng.normal(0, scale, vocab_size)

    def changed(fraction: float, value: float) -> NDArray[np.float64]:
        return np.where(rng.random(vocab_size) < fraction, value, dense())

    rows = {
        "dense": dense(),
        "bf16": torch.tensor(dense()).bfloat16().double().numpy(),
        "flat": dense(1e-3),
        "constant": np.full(vocab_size, 1.25),
        "all masked": np.full(vocab_size, -np.inf),
        "at +1e4": dense() + 1e4,
        "at -1e4": dense() - 1e4,
        "times 1e37": dense() * 1e37,
        "times 1e-8": dense() * 1e-8,
        "subnormal": dense() * 1e-41,
        "one at 1e30": np.where(np.arange(vocab_size) == vocab_size // 3, 1e30, dense()),
        "signed zeros": np.where(rng.random(vocab_size) < 0.5, 0.0, -0.0),
        "zeros and dense": changed(0.3, -0.0) + 0.0,
        "NaN": changed(0.1, np.nan),
        "all NaN": np.full(vocab_size, np.nan),
        "+inf": changed(0.01, np.inf),
        "all +inf": np.full(vocab_size, np.inf),
        "half masked": changed(0.5, -np.inf),
        "two values": np.where(rng.random(vocab_size) < 0.01, 5.0, 0.0),
        "ties at the edge": np.floor(dense(1.5)),
        "ramp": np.arange(vocab_size)[::-1] * 0.01,
        "rising": np.arange(vocab_size) * 0.01,
        "ends of fp32": np.where(rng.random(vocab_size) < 0.5, FLT_MAX, -FLT_MAX),
        "one far peak": np.where(np.arange(vocab_size) == vocab_size - 1, 30.0, dense(0.01)),
    }
    return {name: row.astype(np.float32) for name, row in rows.items()}


@pytest.fixture(scope="session")
def hard_rows() -> Callable[[int], dict[str, NDArray[np.float32]]]:
    """Rows by kind at a vocabulary size."""
    return _hard_rows


@pytest.fixture(autouse=True)
def uncleared_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """New tensors hold garbage, so that an output nobody wrote is seen."""
    empty, empty_like = torch.empty, torch.empty_like

    def fill(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.fill_(torch.nan if tensor.is_floating_point() else 0x5A5A5A5A)

    monkeypatch.setattr(torch, "empty", lambda *a, **kw: fill(empty(*a, **kw)))
    monkeypatch.setattr(torch, "empty_like", lambda *a, **kw: fill(empty_like(*a, **kw)))


Scene = tuple[NDArray[np.float32], torch.Tensor, History, Callable[..., NDArray[np.float32]]]
"""Logits, slots and history of a batch, and what the reference makes of it, stage by stage."""

ROW_SLOTS = (0, 0, 0, 0, -1, 2, 3, 3, 1, 5)
"""Ten rows of five slots, the first four of one request; two slots do not exist."""


def _special_logits(n_rows: int, vocab_size: int, rng: np.random.Generator) -> NDArray[np.float32]:
    logits = rng.normal(0, 3, (n_rows, vocab_size)).astype(np.float32)
    special = rng.choice([np.nan, np.inf, -np.inf, -0.0, 0.0, 3e38], logits.shape)
    logits = np.where(rng.random(logits.shape) < 0.2, special, logits).astype(np.float32)
    logits[3] = -np.inf
    return logits


def _padded(lists: Sequence[Sequence[float]], dtype: torch.dtype, cap: int) -> torch.Tensor:
    """``[n, cap]``, in which what a predecessor left stands beyond each list."""
    rows = [[*values, *[1] * (cap - len(values))] for values in lists]
    return torch.tensor(rows, dtype=dtype).view(len(lists), cap)


def _scene(vocab_size: int, seed: int, params: Sequence[SamplingParams], longest: int = 9) -> Scene:
    """Few different tokens, a few of them outside the vocabulary, and every special logit."""
    rng = np.random.default_rng(seed)
    alphabet = [*range(min(vocab_size, 4)), vocab_size - 1, vocab_size, -2]

    def tokens(n: int) -> tuple[int, ...]:
        return tuple(rng.choice(alphabet, n).tolist())

    lengths = ((3, longest), (0, 4), (longest, 0), (longest // 2, longest), (0, 0))
    requests = [
        Request(params=asked, prompt_token_ids=tokens(n), output_token_ids=tokens(m))
        for asked, (n, m) in zip(params, lengths, strict=True)
    ]
    first, second = tokens(3), (*tokens(1), -1)
    drafts = ((), first[:1], first[:2], first, (), (), second[:1], second, (), first)
    logits = _special_logits(len(ROW_SLOTS), vocab_size, rng)
    history = History(
        token_ids=_padded([r.token_ids for r in requests], torch.int32, 2 * longest + 1),
        prompt_len=torch.tensor([len(r.prompt_token_ids) for r in requests], dtype=torch.int32),
        total_len=torch.tensor([len(r.token_ids) for r in requests], dtype=torch.int32),
        drafts=_padded(drafts, torch.int32, 4),
        n_drafts=torch.tensor([len(d) for d in drafts], dtype=torch.int32),
    )

    @np.errstate(all="ignore")
    def processed(
        *stages: str,
        model: ModelConfig | None = None,
        conventions: Conventions = CONVENTIONS["sampler-audit"],
        grammars: Sequence[NDArray[np.bool_] | None] = (None,) * 5,
    ) -> NDArray[np.float32]:
        answer = logits.copy()
        model = model or ModelConfig(vocab_size=vocab_size)
        for row, slot in enumerate(ROW_SLOTS):
            if 0 <= slot < len(requests):
                request = replace(requests[slot].extended(drafts[row]), grammar=grammars[slot])
                for stage in stages:
                    answer[row] = PROCESSORS[stage](answer[row], request, model, conventions)
        return answer

    return logits, torch.tensor(ROW_SLOTS), history, processed


@pytest.fixture(scope="session")
def make_scene() -> Callable[..., Scene]:
    """A mixed batch from a vocabulary size, a seed, and the parameters of its five slots."""
    return _scene


@pytest.fixture(scope="session")
def make_table() -> Callable[..., torch.Tensor]:
    """A table from a list a slot."""
    return _padded


def _edited(
    stage: Callable[[torch.Tensor], None], logits: NDArray[np.float32]
) -> NDArray[np.float32]:
    """What a stage makes of logits whose rows do not touch; what lies between them must stay."""
    n, vocab_size = logits.shape
    memory = torch.full((n, vocab_size + 37), 7.0)
    memory[:, 5 : 5 + vocab_size] = torch.from_numpy(logits)
    stage(memory[:, 5 : 5 + vocab_size])
    assert (memory[:, :5] == 7).all()
    assert (memory[:, 5 + vocab_size :] == 7).all()
    return memory[:, 5 : 5 + vocab_size].numpy()


def _agree(
    kernel: Callable[[torch.Tensor], None],
    twin: Callable[[torch.Tensor], None],
    logits: NDArray[np.float32],
    expected: NDArray[np.float32],
) -> None:
    edited = _edited(kernel, logits)
    np.testing.assert_array_equal(edited, expected)
    np.testing.assert_array_equal(_edited(twin, logits).view(np.int32), edited.view(np.int32))
    untouched = (expected == logits) | np.isnan(logits) & np.isnan(expected)
    same_bits = edited.view(np.int32) == logits.view(np.int32)
    assert (same_bits | ~untouched | (logits == 0)).all()


@pytest.fixture(scope="session")
def assert_edits() -> Callable[..., None]:
    """A kernel and its twin make of ``logits`` what is expected, and the same bits."""
    return _agree
