"""Temperature against one rounding of the exact quotient."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from sampler_kernels import apply_temperature, apply_temperature_torch

Apply = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_quotient_is_rounded_once(dtype: torch.dtype) -> None:
    """Every element is the fp32 nearest to the exact quotient, in one tile, in eight, in the twin.

    Float64 has more than twice the digits of fp32 plus two, so rounding its quotient to fp32 is
    the same as rounding the exact one (Figueroa 1995), subnormal results aside.
    """
    generator = torch.Generator().manual_seed(5)
    logits = (torch.randn(4, 1001, generator=generator) * 8).to(dtype)
    temperature = torch.tensor([0.6, 1.7, 1e-3, 3.0])
    exact = logits.double().numpy() / temperature.double().numpy()[:, None]
    for scaled in (
        apply_temperature(logits, temperature),
        apply_temperature(logits, temperature, block_size=128),
        apply_temperature_torch(logits, temperature),
    ):
        assert scaled.dtype == torch.float32
        np.testing.assert_array_equal(scaled.numpy(), exact.astype(np.float32))


@pytest.mark.parametrize("apply", [apply_temperature, apply_temperature_torch])
def test_zero_and_one_pass_rows_through(apply: Apply) -> None:
    """Greedy rows and rows at 1 keep their bits; others turn -0.0 to +0.0 and keep NaN."""
    row = [-0.0, 3.0, float("nan"), float("-inf"), float("inf")]
    scaled = apply(torch.tensor([row, row, row]), torch.tensor([0.0, 1.0, 0.5]))
    assert scaled.signbit()[:, 0].tolist() == [True, True, False]
    np.testing.assert_array_equal(scaled[:2].numpy(), np.array([row, row], np.float32))
    np.testing.assert_array_equal(scaled[2].numpy(), [0, 6, np.nan, -np.inf, np.inf])


@pytest.mark.parametrize("apply", [apply_temperature, apply_temperature_torch])
def test_values_out_of_range_divide(apply: Apply) -> None:
    """As IEEE has it: negative turns the row over, infinite makes it flat, NaN leaves nothing."""
    odd = torch.tensor([-2.0, float("inf"), float("nan")])
    scaled = apply(torch.tensor([[1.0, -3.0, float("inf")]]).expand(3, 3), odd)
    nan = float("nan")
    expected = [[-0.5, 1.5, -float("inf")], [0, 0, nan], [nan, nan, nan]]
    np.testing.assert_array_equal(scaled.numpy(), np.array(expected, np.float32))


def test_empty_batch() -> None:
    """No rows in, no rows out."""
    assert apply_temperature(torch.zeros(0, 3), torch.zeros(0)).shape == (0, 3)
