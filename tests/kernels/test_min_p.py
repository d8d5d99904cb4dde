"""min_p alone, at the edge."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from sampler_kernels import (
    FilterResult,
    apply_filters,
    apply_filters_torch,
    apply_min_p,
    apply_min_p_torch,
)

Apply = Callable[[torch.Tensor, torch.Tensor], FilterResult]


@pytest.mark.parametrize("apply", [apply_min_p, apply_min_p_torch])
@pytest.mark.parametrize(("min_p", "n_kept"), [(0.5, 2), (0.125, 3), (0.0, 5), (1.0, 1)])
def test_threshold(apply: Apply, min_p: float, n_kept: int) -> None:
    """Tokens with at least min_p times the largest probability are kept.

    Probabilities are in ratio 1, 0.501, 0.126, 0.124 and 2e-9.
    """
    ratios = np.log([[1.0, 0.501, 0.126, 0.124, 2e-9]])
    logits = torch.tensor(ratios, dtype=torch.float32)
    assert apply(logits, torch.tensor([min_p])).n_kept.tolist() == [n_kept]


@pytest.mark.parametrize("z_max", [0.0, 5.0, -3e4, 1e-3, 3e3])
def test_edge_is_the_least_fp32_that_reaches_the_fp64_threshold(z_max: float) -> None:
    """The neighbours of z_max + ln(min_p) in fp32 fall on the sides where fp64 puts them."""
    top = np.float32(z_max)
    threshold = np.float64(top) + np.log(np.float64(np.float32(0.3)))
    near = np.float32(threshold)
    row = np.array([top, np.nextafter(near, -np.inf), near, np.nextafter(near, np.inf)])
    result = apply_min_p(torch.tensor(row[None, :]), torch.tensor([0.3]))
    kept = (result.logits[0] > -torch.inf).numpy()
    assert kept.tolist() == (row.astype(np.float64) >= threshold).tolist()


def _edge(z_max: float, min_p: float) -> tuple[np.float32, list[np.float32]]:
    """fl(z_max + fl(ln min_p)) in fp32, and seven logits around it."""
    edge = np.float32(z_max) + np.float32(np.log(np.float64(np.float32(min_p))))
    near = [edge]
    for _ in range(3):
        near = [np.nextafter(near[0], np.float32(-np.inf)), *near]
        near.append(np.nextafter(near[-1], np.float32(np.inf)))
    return edge, near


@pytest.mark.parametrize("apply", [apply_filters, apply_filters_torch])
@pytest.mark.parametrize("z_max", [0.0, 5.0, -3e4, 1e-3, 17.7])
@pytest.mark.parametrize("min_p", [0.3, 0.05, 1e-3])
def test_float32_arithmetic_rounds_twice(
    apply: Callable[..., FilterResult], z_max: float, min_p: float
) -> None:
    """The logarithm is rounded to fp32, and the threshold again; logits equal to it are kept."""
    edge, near = _edge(z_max, min_p)
    row = np.array([np.float32(z_max), *near])
    result = apply(
        torch.from_numpy(row)[None], min_p=torch.tensor([min_p]), min_p_arithmetic="float32"
    )
    assert (result.logits[0] > -torch.inf).tolist() == (row >= edge).tolist()


@pytest.mark.parametrize("apply", [apply_filters, apply_filters_torch])
def test_the_two_arithmetics_differ_at_the_edge_only(apply: Callable[..., FilterResult]) -> None:
    """At 17.7 + ln 0.05 fp32 moves the edge by one logit; off, 1, NaN and beyond are the same."""
    _, near = _edge(17.7, 0.05)
    logits = torch.tensor([[17.7, *near]] * 6)
    min_p = torch.tensor([0.05, 0.0, 1.0, torch.nan, 2.0, -1.0])
    fp32 = apply(logits, min_p=min_p, min_p_arithmetic="float32")
    fp64 = apply(logits, min_p=min_p, min_p_arithmetic="float64")
    assert torch.equal(fp32.n_kept[1:], fp64.n_kept[1:])
    assert abs(fp32.n_kept[0].item() - fp64.n_kept[0].item()) == 1
