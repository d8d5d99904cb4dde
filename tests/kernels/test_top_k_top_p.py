"""The filters against float64, on rows and vocabularies that are hard for them."""

from collections.abc import Callable, Sequence
from typing import TypedDict

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from sampler_kernels import (
    FLAG_ALL_MASKED,
    FLAG_NAN,
    FLAG_POSITIVE_INFINITY,
    PATH_COMPACT,
    PATH_RADIX,
    PATH_SORT,
    FilterResult,
    Path,
    Ties,
    apply_filters,
    apply_filters_torch,
)

Oracle = Callable[..., NDArray[np.bool_]]
HardRows = Callable[[int], dict[str, NDArray[np.float32]]]


class Filters(TypedDict):
    """Settings of each row."""

    top_k: torch.Tensor
    top_p: torch.Tensor
    min_p: torch.Tensor


K, P, MIN_P = [0, 50, 2, 0, 5], [0.9, 0.95, 1.0, 0.999, 0.5], [0.0, 0.01, 0.0, 0.0, 0.05]
MIXES = {
    "top_p": ([0], [0.9], [0.0]),
    "top_k and top_p": ([5], [0.95], [0.0]),
    "all three": ([50], [0.999], [0.01]),
    "per row": (K, P, MIN_P),
}


def _tensors(mix: tuple[list[int], list[float], list[float]], n: int) -> Filters:
    k, p, min_p = (np.resize(values, n) for values in mix)
    return {
        "top_k": torch.tensor(k),
        "top_p": torch.tensor(p, dtype=torch.float32),
        "min_p": torch.tensor(min_p, dtype=torch.float32),
    }


def _assert_kept(
    result: FilterResult,
    rows: Sequence[NDArray[np.float32]],
    filters: Filters,
    ties: Ties,
    oracle: Oracle,
) -> None:
    """Exactly the oracle's tokens are kept, each with its value, and counted."""
    columns = filters["top_k"], filters["top_p"], filters["min_p"]
    settings = zip(*(column.tolist() for column in columns), strict=True)
    for i, (row, setting) in enumerate(zip(rows, settings, strict=True)):
        kept = oracle(row, *setting, keep_all=ties == "keep_all")
        wanted = np.where(kept, row, -np.inf)
        got = result.logits[i].float().numpy()
        differ = np.flatnonzero(got != wanted)[:5]
        assert not len(differ), f"row {i} {setting}: {kept.sum()} kept, differs at {differ}"
        assert result.n_kept[i].item() == kept.sum()


@pytest.mark.parametrize("path", ["auto", "radix"])
@pytest.mark.parametrize("ties", ["by_id", "keep_all"])
@pytest.mark.parametrize("mix", MIXES.values(), ids=MIXES.keys())
def test_hard_rows(
    mix: tuple[list[int], list[float], list[float]],
    ties: Ties,
    path: Path,
    hard_rows: HardRows,
    kept_tokens: Oracle,
) -> None:
    """Every kind of row keeps exactly what float64 keeps, on either path and in the twin."""
    rows = list(hard_rows(1000).values())
    logits, filters = torch.tensor(np.stack(rows)), _tensors(mix, len(rows))
    result = apply_filters(logits, **filters, ties=ties, path=path)
    _assert_kept(result, rows, filters, ties, kept_tokens)
    assert (result.path == (PATH_RADIX if path == "radix" else PATH_COMPACT)).all()
    twin = apply_filters_torch(logits, **filters, ties=ties)
    _assert_kept(twin, rows, filters, ties, kept_tokens)


@pytest.mark.parametrize("vocab_size", [1, 2, 127, 128, 129, 4096, 8191, 8192, 8193])
@pytest.mark.parametrize("path", ["auto", "radix"])
def test_vocabulary_sizes(vocab_size: int, path: Path, kept_tokens: Oracle) -> None:
    """A vocabulary below, at and above a power of two keeps what float64 keeps."""
    rows = np.random.default_rng(vocab_size).normal(0, 3, (5, vocab_size)).astype(np.float32)
    filters = _tensors(MIXES["per row"], 5)
    result = apply_filters(torch.tensor(rows), **filters, path=path)
    _assert_kept(result, list(rows), filters, "by_id", kept_tokens)
    fits = path == "auto" and vocab_size <= 4096
    assert (result.path == (PATH_COMPACT if fits else PATH_RADIX)).all()


def test_vocabulary_of_131072(kept_tokens: Oracle) -> None:
    """A row of a current model's size keeps what float64 keeps, also where p needs 10,000s."""
    rows = np.random.default_rng(7).normal(0, 3, (3, 131072)).astype(np.float32)
    rows[1] = torch.tensor(rows[1]).bfloat16().float().numpy()
    filters = _tensors(([0, 50, 0], [0.999, 0.95, 0.9], [0.0, 0.0, 0.02]), 3)
    result = apply_filters(torch.tensor(rows), **filters)
    _assert_kept(result, list(rows), filters, "by_id", kept_tokens)


@pytest.mark.parametrize("path", ["auto", "radix"])
@pytest.mark.parametrize(("k", "p"), [(50, 0.9), (0, 0.999), (2, 0.95)])
def test_few_finite_logits(k: int, p: float, path: Path, kept_tokens: Oracle) -> None:
    """Rows with 1 to 64 unmasked tokens, wherever they are, keep what float64 keeps."""
    rng, vocab_size, rows = np.random.default_rng(3), 300, []
    for n_finite in (1, 2, 3, 4, 5, 8, 64):
        spread = np.sort(rng.choice(vocab_size, n_finite, replace=False))
        for token_ids in (np.arange(n_finite), vocab_size - 1 - np.arange(n_finite), spread):
            row = np.full(vocab_size, -np.inf, np.float32)
            row[token_ids] = rng.normal(100, 1, n_finite)
            rows.append(row)
    filters = _tensors(([k], [p], [0.0]), len(rows))
    result = apply_filters(torch.tensor(np.stack(rows)), **filters, path=path, block_size=128)
    _assert_kept(result, rows, filters, "by_id", kept_tokens)


def test_compact_row_that_does_not_fit_takes_the_radix_path(kept_tokens: Oracle) -> None:
    """4096 unmasked tokens are compact, 4097 are not; both rows are exact."""
    rows = np.random.default_rng(11).normal(0, 2, (2, 5000)).astype(np.float32)
    rows[0, 4096:] = -np.inf
    rows[1, :903] = -np.inf
    filters = _tensors(([0], [0.95], [0.0]), 2)
    result = apply_filters(torch.tensor(rows), **filters, block_size=512)
    assert result.path.tolist() == [PATH_COMPACT, PATH_RADIX]
    _assert_kept(result, list(rows), filters, "by_id", kept_tokens)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("path", ["auto", "radix"])
def test_half_precision(
    dtype: torch.dtype, path: Path, hard_rows: HardRows, kept_tokens: Oracle
) -> None:
    """16-bit logits are filtered by their own values and come back in their dtype."""
    logits = torch.tensor(np.stack([hard_rows(500)[n] for n in ("dense", "+inf", "NaN")])).to(dtype)
    rows, filters = list(logits.float().numpy()), _tensors(([20], [0.9], [0.0]), 3)
    result = apply_filters(logits, **filters, path=path)
    assert result.logits.dtype == dtype
    _assert_kept(result, rows, filters, "by_id", kept_tokens)


@pytest.mark.parametrize("path", ["auto", "radix"])
def test_exact_halves(path: Path) -> None:
    """Constant rows keep ceil(p V) tokens, lowest ids first; p = 0.5 keeps half, not one more."""
    result = apply_filters(torch.zeros(3, 64), top_p=torch.tensor([0.5, 0.51, 0.98]), path=path)
    assert result.n_kept.tolist() == [32, 33, 63]  # 0.51 * 64 = 32.64, 0.98 * 64 = 62.72
    assert (result.logits[0, :32] == 0).all()


@pytest.mark.parametrize("path", ["auto", "radix"])
def test_minimum_probability_of_one_keeps_the_ties_of_the_maximum(path: Path) -> None:
    """min_p = 1 is the strictest setting and still keeps every largest logit."""
    logits = torch.tensor([[1.0, 3.0, 3.0, 2.9999998]])
    assert apply_filters(logits, min_p=torch.ones(1), path=path).n_kept.tolist() == [2]


@pytest.mark.parametrize("path", ["auto", "radix"])
def test_values_out_of_range_keep_at_least_one_token(path: Path) -> None:
    """P <= 0 keeps one token; min_p > 1 the maximum; NaN and min_p < 0 are off. None is empty."""
    off_range = torch.tensor([0.0, -1.0, float("nan")])
    logits = torch.arange(12.0).reshape(3, 4)
    assert apply_filters(logits, top_p=off_range, path=path).n_kept.tolist() == [1, 1, 4]
    high = torch.tensor([2.0, float("inf"), float("nan")])
    assert apply_filters(logits, min_p=high, path=path).n_kept.tolist() == [1, 1, 4]
    assert apply_filters(logits, min_p=-high, path=path).n_kept.tolist() == [4, 4, 4]


@pytest.mark.parametrize("apply", [apply_filters, apply_filters_torch])
def test_flags(apply: Callable[[torch.Tensor], FilterResult]) -> None:
    """NaN, +inf and nothing left are flagged together, per row; kept +inf stays +inf."""
    inf, nan = float("inf"), float("nan")
    result = apply(torch.tensor([[1.0, 2.0], [nan, 1.0], [inf, 1.0], [nan, -inf], [inf, nan]]))
    assert result.flags.tolist() == [
        0,
        FLAG_NAN,
        FLAG_POSITIVE_INFINITY,
        FLAG_NAN | FLAG_ALL_MASKED,
        FLAG_NAN | FLAG_POSITIVE_INFINITY,
    ]
    assert result.n_kept.tolist() == [2, 1, 2, 0, 1]
    assert result.logits[2].tolist() == [inf, 1.0]


def test_the_twin_says_that_it_sorts() -> None:
    """The twin reports its own path."""
    assert apply_filters_torch(torch.zeros(2, 3)).path.tolist() == [PATH_SORT, PATH_SORT]


def test_no_filter_changes_nothing_but_NaN() -> None:  # noqa: N802
    """Without filters every finite logit is kept as it is, signed zeros included."""
    logits = torch.tensor([[-0.0, 5.0, float("-inf"), float("nan")]])
    result = apply_filters(logits)
    assert result.logits.tolist() == [[0.0, 5.0, float("-inf"), float("-inf")]]
    assert result.logits[0, 0].signbit()


def test_empty_batch() -> None:
    """No rows in, no rows out."""
    result = apply_filters(torch.zeros(0, 8), top_p=torch.zeros(0))
    assert result.logits.shape == (0, 8)
    assert result.n_kept.shape == result.flags.shape == result.path.shape == (0,)
