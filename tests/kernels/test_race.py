"""The exponential clocks against float64, from the bits at both ends of the uniform."""

import numpy as np
import torch
from numpy.typing import NDArray

from sampler_kernels import EXPONENTIAL_ERROR, SCORE_ERROR, UNIFORM_ERROR
from sampler_kernels._race import (
    LARGEST_U,
    exponential,
    exponential_torch,
    inverse_weight_torch,
    score,
    uniform,
    uniform_torch,
)
from sampler_kernels._triton import jit, launch, tl

ALL_ONES = 0xFFFFFFFF


@jit
def _score_kernel(
    hi_ptr: tl.tensor,
    lo_ptr: tl.tensor,
    z_ptr: tl.tensor,
    z_max_ptr: tl.tensor,
    u_ptr: tl.tensor,
    e_ptr: tl.tensor,
    score_ptr: tl.tensor,
    BLOCK_SIZE: tl.constexpr,
) -> None:
    lanes = tl.arange(0, BLOCK_SIZE)
    hi = tl.load(hi_ptr + lanes).to(tl.uint32)
    u = uniform(hi, tl.load(lo_ptr + lanes).to(tl.uint32))
    e = exponential(u)
    tl.store(u_ptr + lanes, u)
    tl.store(e_ptr + lanes, e)
    tl.store(score_ptr + lanes, score(e, tl.load(z_ptr + lanes), tl.load(z_max_ptr)))


def _words(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Random words whose high word has every number of leading zeros, and of leading ones."""
    generator = torch.Generator().manual_seed(31)
    hi, lo = (torch.randint(0, 1 << 32, (n,), generator=generator) for _ in range(2))
    hi = hi >> torch.arange(n) % 33
    hi[::2] = ALL_ONES - hi[::2]
    return hi, lo


def _exact(hi: torch.Tensor, lo: torch.Tensor) -> NDArray[np.float64]:
    return np.asarray((hi.double() * 2.0**32 + lo.double() + 0.5) / 2.0**64)


def test_uniform_error() -> None:
    """U is the number its 64 bits spell, relative to its size, up to the clamp."""
    hi, lo = _words(200_000)
    exact = _exact(hi, lo)
    u = uniform_torch(hi, lo).double().numpy()
    assert (np.abs(u - np.minimum(exact, LARGEST_U)) <= UNIFORM_ERROR * exact).all()


def test_ends_of_the_uniform() -> None:
    """Bits of zeros and of ones give 2^-65 and 1 - 2^-24: never 0, never 1, never infinite."""
    u = uniform_torch(torch.tensor([0, ALL_ONES]), torch.tensor([0, ALL_ONES]))
    assert u.tolist() == [2.0**-65, 1 - 2.0**-24]
    np.testing.assert_allclose(
        exponential_torch(u).numpy(), [2.0**-65, 24 * np.log(2)], rtol=EXPONENTIAL_ERROR
    )


def test_exponential_error() -> None:
    """E is -log1p(-u) of float64 within EXPONENTIAL_ERROR at every size of u."""
    u = uniform_torch(*_words(400_000))
    exact = -np.log1p(-u.double().numpy())
    assert (np.abs(exponential_torch(u).numpy() / exact - 1) <= EXPONENTIAL_ERROR).all()


def test_score_error() -> None:
    """A score is -log1p(-u) exp(z_max - z) of float64 within SCORE_ERROR."""
    u = uniform_torch(*_words(200_000))
    z = -torch.rand(200_000, generator=torch.Generator().manual_seed(2)) * 80 + 17.3
    top = torch.tensor(17.3)
    exact = -np.log1p(-u.double().numpy()) * np.exp(top.double().numpy() - z.double().numpy())
    got = (exponential_torch(u) * inverse_weight_torch(z, top)).double().numpy()
    assert (np.abs(got / exact - 1) <= SCORE_ERROR).all()


def test_kernel_and_twin_have_the_same_bits() -> None:
    """Uniforms, exponentials and scores of the kernel are the twin's, masked tokens included."""
    hi, lo = _words(4096)
    hi[2:4] = lo[2:4] = torch.tensor([0, ALL_ONES])
    z = torch.randn(4096, generator=torch.Generator().manual_seed(4)) * 30
    z[:2] = torch.tensor([-torch.inf, -3.4028234663852886e38])
    top = z.max()
    u, e, scores = (torch.empty(4096) for _ in range(3))
    launch(_score_kernel, (1,), hi, lo, z, top[None], u, e, scores, BLOCK_SIZE=4096)
    assert u[2:4].tolist() == [2.0**-65, 1 - 2.0**-24]
    assert torch.equal(u, uniform_torch(hi, lo))
    assert torch.equal(e, exponential_torch(u))
    assert torch.equal(scores, e * inverse_weight_torch(z, top))
    assert scores[:2].isinf().all()
