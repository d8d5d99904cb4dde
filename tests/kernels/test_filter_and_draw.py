"""Filtered and drawn at once: kept sets and tokens against float64, and against the two steps."""

import importlib
from collections.abc import Callable
from typing import TypedDict

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import stats

from sampler_kernels import (
    NOISES,
    DrawResult,
    Noise,
    Ties,
    apply_filters,
    filter_and_draw,
    filter_and_draw_torch,
    gumbel_draw,
)
from sampler_reference import noise as reference

Oracle = Callable[..., NDArray[np.bool_]]
HardRows = Callable[[int], dict[str, NDArray[np.float32]]]
Fused = Callable[..., DrawResult]
BOTH = pytest.mark.parametrize("draw", [filter_and_draw, filter_and_draw_torch])


class Filters(TypedDict):
    """Settings of each row."""

    top_k: torch.Tensor
    top_p: torch.Tensor
    min_p: torch.Tensor


def _filters(n: int) -> Filters:
    """Every filter off and on, alone and together, row by row."""
    return {
        "top_k": torch.tensor(np.resize([0, 50, 2, 0, 5], n)),
        "top_p": torch.tensor(np.resize([0.9, 0.95, 1.0, 0.999, 0.5, 1.0], n), dtype=torch.float32),
        "min_p": torch.tensor(np.resize([0.0, 0.01, 0.0, 0.0, 0.05, 0.2], n), dtype=torch.float32),
    }


def _kept(rows: torch.Tensor, filters: Filters, ties: Ties, oracle: Oracle) -> NDArray[np.bool_]:
    settings = zip(*(filters[name].tolist() for name in ("top_k", "top_p", "min_p")), strict=True)
    masks = [
        oracle(row, *setting, keep_all=ties == "keep_all")
        for row, setting in zip(rows.numpy(), settings, strict=True)
    ]
    return np.stack(masks)


def _assert_right(
    drawn: DrawResult, rows: torch.Tensor, kept: NDArray[np.bool_], seeds: torch.Tensor
) -> None:
    """The oracle's kept sets, and of each the reference's winner."""
    assert drawn.mask is not None
    assert np.array_equal(drawn.mask.numpy(), kept)
    assert drawn.n_kept.tolist() == kept.sum(1).tolist()
    finite = rows.nan_to_num(nan=-torch.inf, neginf=-torch.inf).double().numpy()
    for i, token in enumerate(drawn.token_ids.tolist()):
        z = np.where(kept[i], finite[i], -np.inf)
        of_draw = np.array([token]), z, seeds[i : i + 1].numpy(), seeds[i : i + 1].numpy()
        assert reference.accepts(*of_draw).all()


@BOTH
@pytest.mark.parametrize("ties", ["by_id", "keep_all"])
@pytest.mark.parametrize("capacity", [4096, 16])
def test_hard_rows(
    draw: Fused,
    ties: Ties,
    capacity: int,
    hard_rows: HardRows,
    kept_tokens: Oracle,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every kind of row, on chip or swept whole: float64's kept set, and its winner."""
    monkeypatch.setattr("sampler_kernels._rows.CAPACITY_LIMIT", capacity)
    rows = torch.tensor(np.stack(list(hard_rows(300).values())))
    filters, seeds = _filters(len(rows)), torch.arange(len(rows)) - 7
    drawn = draw(rows, seeds, seeds, **filters, ties=ties, return_mask=True)
    _assert_right(drawn, rows, _kept(rows, filters, ties, kept_tokens), seeds)


@BOTH
def test_large_rows(draw: Fused, kept_tokens: Oracle) -> None:
    """Rows just above and below what fits on chip, and one of a model's vocabulary."""
    rng = np.random.default_rng(9)
    for vocab_size, n_finite in ((5000, 4096), (5000, 4097), (32768, 32768)):
        row = np.full((1, vocab_size), -np.inf, np.float32)
        row[0, vocab_size - n_finite :] = rng.normal(0, 2, n_finite)
        rows, seeds = torch.from_numpy(row), torch.tensor([n_finite])
        filters: Filters = {
            "top_k": torch.tensor([900]),
            "top_p": torch.tensor([0.8]),
            "min_p": torch.tensor([1e-4]),
        }
        drawn = draw(rows, seeds, seeds, **filters, return_mask=True)
        _assert_right(drawn, rows, _kept(rows, filters, "by_id", kept_tokens), seeds)


@BOTH
@pytest.mark.parametrize(("noise", "domain"), [*zip(NOISES, (0, 3, 3, 0), strict=True)])
def test_tokens_are_those_of_the_two_steps(
    draw: Fused, noise: Noise, domain: int, hard_rows: HardRows
) -> None:
    """With every noise and stream: what the filters' masked logits draw, token for token."""
    rows = torch.tensor(np.stack(list(hard_rows(300).values())))[::2]
    filters, seeds = _filters(len(rows)), torch.arange(len(rows)) << 33
    drawn = draw(
        rows, seeds, seeds, **filters, min_p_arithmetic="float32", noise=noise, domain=domain
    )
    masked = apply_filters(rows, **filters, min_p_arithmetic="float32").logits
    stepwise = gumbel_draw(masked, seeds, seeds, noise=noise, domain=domain)
    assert torch.equal(drawn.token_ids, stepwise)
    assert drawn.mask is None


def _counts(row: torch.Tensor) -> NDArray[np.int64]:
    """20,000 draws of one row with top_k 12, top_p 0.9 and min_p 0.02."""
    n = 20_000
    drawn = filter_and_draw_torch(
        row[None],
        torch.full((n,), 2026),
        torch.arange(n),
        torch.zeros(n, dtype=torch.int64),
        top_k=torch.tensor([12]),
        top_p=torch.tensor([0.9]),
        min_p=torch.tensor([0.02]),
    )
    return np.bincount(drawn.token_ids.numpy(), minlength=len(row))


def test_draws_follow_the_filtered_law(kept_tokens: Oracle) -> None:
    """Softmax frequencies of the kept tokens and nobody else: chi-square, false alarm 1e-6.

    A law whose largest token has 25 % more odds is rejected by the same test.
    """
    row = torch.randn(40, generator=torch.Generator().manual_seed(1)) * 1.5
    counts, kept = _counts(row), kept_tokens(row.numpy(), 12, 0.9, 0.02, keep_all=False)
    assert counts[~kept].sum() == 0
    weights = np.exp(row.double().numpy()[kept])
    assert stats.chisquare(counts[kept], weights / weights.sum() * 20_000).pvalue > 1e-6
    weights[weights.argmax()] *= 1.25
    assert stats.chisquare(counts[kept], weights / weights.sum() * 20_000).pvalue < 1e-6


@BOTH
def test_draws_of_chosen_rows(draw: Fused) -> None:
    """Several draws of a row, none of another; a row out of range draws -1 from nothing."""
    logits = torch.tensor([[0.0, 5.0, 4.0], [-torch.inf, torch.nan, -torch.inf], [1.0, 1.0, 1.0]])
    rows = torch.tensor([2, 0, 1, -1, 3, 2])
    drawn = draw(
        logits,
        torch.arange(6),
        torch.arange(6),
        rows,
        top_k=torch.tensor([1, 2, 2]),
        return_mask=True,
    )
    assert drawn.n_kept.tolist() == [2, 1, 0, 0, 0, 2]
    assert drawn.mask is not None
    assert drawn.mask[[0, 1, 5]].int().tolist() == [[1, 1, 0], [0, 1, 0], [1, 1, 0]]
    assert not drawn.mask[2:5].any()
    assert drawn.token_ids[1:5].tolist() == [1, -1, -1, -1]
    assert set(drawn.token_ids[[0, 5]].tolist()) <= {0, 1}


@BOTH
def test_empty(draw: Fused) -> None:
    """No draws are no tokens, of any rows and of none."""
    none = torch.zeros(0, dtype=torch.int64)
    assert draw(torch.zeros(0, 8), none, none).token_ids.shape == (0,)
    drawn = draw(torch.zeros(2, 8), none, none, none, return_mask=True)
    assert drawn.n_kept.shape == (0,)
    assert drawn.mask is not None
    assert drawn.mask.shape == (0, 8)


@BOTH
def test_greedy_is_top_1(draw: Fused) -> None:
    """With top_k 1 the lowest id of the largest logits is drawn, whatever else is asked."""
    logits = torch.tensor([[1.0, 7.0, 7.0], [2.0, 2.0, 1.0]])
    for noise in NOISES:
        for seed in range(5):
            seeds = torch.full((2,), seed)
            drawn = draw(
                logits, seeds, seeds, top_k=torch.ones(2).long(), min_p=torch.ones(2), noise=noise
            )
            assert drawn.token_ids.tolist() == [1, 0]


@pytest.mark.parametrize("capacity", [4096, 16])
@pytest.mark.parametrize("block_size", [128, 512])
def test_tile_and_place_change_nothing(
    block_size: int, capacity: int, hard_rows: HardRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another tile, path, order of the batch or stride draws the same tokens of the same sets."""
    rows = torch.tensor(np.stack(list(hard_rows(300).values())))[:8]
    filters, seeds = _filters(8), torch.arange(8)
    whole = filter_and_draw(rows, seeds, seeds, **filters, return_mask=True)
    monkeypatch.setattr("sampler_kernels._rows.CAPACITY_LIMIT", capacity)
    order = torch.tensor([5, 0, 7, 2, 1, 6, 4, 3])
    padded = torch.full((8, 310), 1e30)
    padded[:, :300] = rows[order]
    other = filter_and_draw(
        padded[:, :300],
        seeds[order],
        seeds[order],
        top_k=filters["top_k"][order],
        top_p=filters["top_p"][order],
        min_p=filters["min_p"][order],
        return_mask=True,
        block_size=block_size,
    )
    assert torch.equal(other.token_ids, whole.token_ids[order])
    assert whole.mask is not None
    assert other.mask is not None
    assert torch.equal(other.mask, whole.mask[order])


def test_no_masked_logits_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four launches, none of which is handed anything of the logits' size to write to."""
    handed = []
    for name in ("_rows", "_radix", "filter_and_draw"):
        # A function of the package has the name of its module.
        module = importlib.import_module(f"sampler_kernels.{name}")
        monkeypatch.setattr(module, "launch", lambda *args, **_: handed.append(args[3:]))
    seeds = torch.arange(2)
    filter_and_draw(torch.zeros(2, 9000), seeds, seeds, top_k=seeds)
    sizes = [arg.numel() for args in handed for arg in args if isinstance(arg, torch.Tensor)]
    assert len(handed) == 4
    assert max(sizes) < 2 * 9000
