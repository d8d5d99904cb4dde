"""The oracle of the filters, rows that are hard for them, and memory that nobody has cleared."""

import os
from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

# The suite hands CPU tensors to kernels, also on a machine with a GPU; ``TRITON_INTERPRET=0 pytest
# -m gpu`` runs what is for the GPU. Set here because the kernels are imported after this file.
os.environ.setdefault("TRITON_INTERPRET", "1")

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
