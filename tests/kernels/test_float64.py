"""Logarithm and exponential in float64 against decimals of 40 digits."""

from collections.abc import Callable
from decimal import Context, Decimal

import numpy as np
import torch

from sampler_kernels._float64 import (
    EXP_ERROR,
    LOG_ERROR,
    exp_fp64,
    exp_fp64_torch,
    log_fp64,
    log_fp64_torch,
)
from sampler_kernels._triton import jit, launch, tl

EXACT = Context(prec=40)


@jit
def _log_exp_kernel(
    x_ptr: tl.tensor,
    y_ptr: tl.tensor,
    log_ptr: tl.tensor,
    exp_ptr: tl.tensor,
    BLOCK_SIZE: tl.constexpr,
) -> None:
    lanes = tl.arange(0, BLOCK_SIZE)
    tl.store(log_ptr + lanes, log_fp64(tl.load(x_ptr + lanes)))
    tl.store(exp_ptr + lanes, exp_fp64(tl.load(y_ptr + lanes)))


def _positive(n: int) -> torch.Tensor:
    """Numbers of every size, and many near 1, where the logarithm vanishes."""
    rng = np.random.default_rng(64)
    near = 1 + rng.choice([-1, 1], n // 2) * 2.0 ** rng.uniform(-52, -1, n // 2)
    return torch.from_numpy(np.concatenate((near, 2.0 ** rng.uniform(-1000, 1000, n - n // 2))))


def _exponents(n: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(65).uniform(-699, 699, n))


def _relative_errors(
    got: torch.Tensor, x: torch.Tensor, exact: Callable[[Decimal], Decimal]
) -> list[float]:
    right = (exact(Decimal(value)) for value in x.tolist())
    return [
        float(abs(EXACT.divide(Decimal(value), wanted) - 1))
        for value, wanted in zip(got.tolist(), right, strict=True)
    ]


def test_log_error() -> None:
    """The logarithm is exact within LOG_ERROR of its own size, also next to 1."""
    x = _positive(2000)
    assert max(_relative_errors(log_fp64_torch(x), x, EXACT.ln)) <= LOG_ERROR


def test_exp_error() -> None:
    """Exp is exact within EXP_ERROR of its own size over its whole range."""
    x = _exponents(2000)
    assert max(_relative_errors(exp_fp64_torch(x), x, EXACT.exp)) <= EXP_ERROR


def test_special_values() -> None:
    """Of 1 the logarithm is 0; exp 0 is 1, and 0 of what is too small, of -inf and of NaN."""
    assert log_fp64_torch(torch.ones(1, dtype=torch.float64)).item() == 0
    x = torch.tensor([0.0, -701.0, -torch.inf, torch.nan], dtype=torch.float64)
    assert exp_fp64_torch(x).tolist() == [1.0, 0.0, 0.0, 0.0]


def test_kernel_and_twin_have_the_same_bits() -> None:
    """The kernel's logarithms and exponentials are the twins'."""
    x, y = _positive(4096), _exponents(4096)
    y[:3] = torch.tensor([-torch.inf, torch.nan, -701.0])
    log, exp = torch.empty_like(x), torch.empty_like(y)
    launch(_log_exp_kernel, (1,), x, y, log, exp, BLOCK_SIZE=4096)
    assert torch.equal(log, log_fp64_torch(x))
    assert torch.equal(exp, exp_fp64_torch(y))
