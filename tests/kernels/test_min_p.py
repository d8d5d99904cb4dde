"""min_p alone, at the edge."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from sampler_kernels import FilterResult, apply_min_p, apply_min_p_torch

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
