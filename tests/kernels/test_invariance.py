"""What may not change a kept set or a token: tile, batch, place in it, stride, reading back."""

import importlib
from collections.abc import Callable
from typing import TypedDict

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from sampler_kernels import (
    Path,
    apply_filters,
    apply_temperature,
    filter_and_draw,
    gumbel_draw,
    ranks_of,
    top_log_probs,
    verify_drafts,
)

HardRows = Callable[[int], dict[str, NDArray[np.float32]]]


class Filters(TypedDict):
    """Settings of each row."""

    top_k: torch.Tensor
    top_p: torch.Tensor
    min_p: torch.Tensor


@pytest.fixture
def logits(hard_rows: HardRows) -> torch.Tensor:
    """Six kinds of rows, [6, 1000]."""
    kinds = ("dense", "constant", "ties at the edge", "half masked", "flat", "all masked")
    return torch.tensor(np.stack([hard_rows(1000)[kind] for kind in kinds]))


@pytest.fixture
def filters() -> Filters:
    """A different setting for each of six rows."""
    return {
        "top_k": torch.tensor([50, 0, 7, 0, 400, 3]),
        "top_p": torch.tensor([0.9, 0.5, 1.0, 0.99, 0.7, 0.9]),
        "min_p": torch.tensor([0.0, 0.0, 0.1, 0.01, 0.0, 0.0]),
    }


def _chosen(filters: Filters, rows: torch.Tensor | slice) -> Filters:
    return {
        "top_k": filters["top_k"][rows],
        "top_p": filters["top_p"][rows],
        "min_p": filters["min_p"][rows],
    }


@pytest.mark.parametrize("path", ["auto", "radix"])
@pytest.mark.parametrize("block_size", [128, 512, 4096])
def test_tile_size(block_size: int, path: Path, logits: torch.Tensor, filters: Filters) -> None:
    """Kept sets and tokens are the same with every tile."""
    default = apply_filters(logits, **filters)
    other = apply_filters(logits, **filters, path=path, block_size=block_size)
    assert torch.equal(default.logits, other.logits)
    seeds = torch.arange(6)
    tokens = gumbel_draw(other.logits, seeds, seeds, block_size=block_size)
    assert torch.equal(tokens, gumbel_draw(default.logits, seeds, seeds))


@pytest.mark.parametrize("path", ["auto", "radix"])
def test_batch_order(path: Path, logits: torch.Tensor, filters: Filters) -> None:
    """A permuted batch is permuted, with the settings that belong to each row."""
    order = torch.tensor([3, 5, 0, 2, 1, 4])
    whole = apply_filters(logits, **filters, path=path).logits
    permuted = apply_filters(logits[order], **_chosen(filters, order), path=path)
    assert torch.equal(permuted.logits, whole[order])
    alone = apply_filters(logits[2:3], **_chosen(filters, slice(2, 3)), path=path)
    assert torch.equal(alone.logits, whole[2:3])


@pytest.mark.parametrize("path", ["auto", "radix"])
@pytest.mark.parametrize("layout", ["padded", "every second row", "transposed", "one row expanded"])
def test_strides(
    layout: str, path: Path, logits: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are found by their stride, and the memory between them is neither read nor written."""
    if path == "radix":  # for the draw, which has no such argument and would read compact rows
        monkeypatch.setattr("sampler_kernels._rows.CAPACITY_LIMIT", 1)
    vocab_size = logits.shape[1]
    padded = torch.full((6, vocab_size + 6), 1e30)
    padded[:, :vocab_size] = logits
    view = {
        "padded": padded[:, :vocab_size],
        "every second row": logits[::2],
        "transposed": logits.T.contiguous().T,
        "one row expanded": logits[:1].expand(6, vocab_size),
    }[layout]
    n = len(view)
    top_p, temperature, seeds = torch.full((n,), 0.9), torch.full((n,), 0.7), torch.arange(n)
    dense = view.clone(memory_format=torch.contiguous_format)
    kept = apply_filters(dense, top_p=top_p, path=path).logits
    assert torch.equal(apply_filters(view, top_p=top_p, path=path).logits, kept)
    assert torch.equal(apply_temperature(view, temperature), apply_temperature(dense, temperature))
    assert torch.equal(gumbel_draw(view, seeds, seeds), gumbel_draw(dense, seeds, seeds))
    assert (padded[:, vocab_size:] == 1e30).all()


def test_no_device_value_is_read_back(
    monkeypatch: pytest.MonkeyPatch, logits: torch.Tensor, filters: Filters
) -> None:
    """The wrappers decide everything from shapes: tensors that have no values will do."""
    launched = []
    for module in ("_rows", "_compact", "_radix", "top_k_top_p", "temperature", "gumbel"):
        monkeypatch.setattr(
            f"sampler_kernels.{module}.launch", lambda kernel, *_, **__: launched.append(kernel)
        )
    k, p, min_p = (filters[name].to("meta") for name in ("top_k", "top_p", "min_p"))
    apply_filters(logits.to("meta"), top_k=k, top_p=p, min_p=min_p)
    apply_temperature(logits.to("meta"), p)
    gumbel_draw(logits.to("meta"), k, k)
    assert len(launched) == 8


def test_no_device_value_is_read_back_by_draws_lists_and_verification(
    monkeypatch: pytest.MonkeyPatch, logits: torch.Tensor
) -> None:
    """Nor do these: 4 launches of the fused draw, 6 of log-probs, 5 of a verification in blocks."""
    launched = []
    modules = ("_rows", "_compact", "_radix", "filter_and_draw", "_log_sum", "log_probs", "_accept")
    for name in (*modules, "verify"):
        # A function of the package has the name of its module.
        module = importlib.import_module(f"sampler_kernels.{name}")
        monkeypatch.setattr(module, "launch", lambda kernel, *_, **__: launched.append(kernel))
    rows, ids = logits.to("meta"), torch.zeros((6, 2), dtype=torch.int64, device="meta")
    filter_and_draw(rows, ids[:, 0], ids[:, 0], top_k=ids[:, 0], return_mask=True)
    top_log_probs(rows, 5)
    ranks_of(rows, ids)
    starts, drafts = torch.zeros(3, dtype=torch.int64, device="meta"), ids[:2].int()
    draft_rows = torch.zeros((2, 2, 1000), device="meta")
    verify_drafts(rows, drafts, draft_rows, starts, ids[:2, 0], ids[:2, 0], method="block")
    assert len(launched) == 4 + 6 + 5


READING: dict[str, Callable[[torch.Tensor], object]] = {
    "item": lambda values: values[0].item(),
    "a branch": lambda values: bool((values > 0).any()),
    "tolist": lambda values: values.tolist(),
    "cpu": lambda values: values.cpu(),
    "numpy": lambda values: values.numpy(),
    "nonzero": lambda values: values.nonzero(),
    "a mask as index": lambda values: values[values > 0],
}


@pytest.mark.parametrize("read", READING.values(), ids=READING.keys())
def test_reading_back_is_noticed(read: Callable[[torch.Tensor], object]) -> None:
    """A tensor without values refuses what would wait for a device: the test above can fail."""
    with pytest.raises((RuntimeError, TypeError), match="meta"):
        read(torch.ones(2, device="meta"))
