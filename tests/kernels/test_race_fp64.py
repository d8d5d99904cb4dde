"""The exponential clocks in float64 against decimals of 40 digits."""

from decimal import Context, Decimal

import torch

from sampler_kernels import SCORE_ERROR_FP64
from sampler_kernels._race_fp64 import (
    LARGEST_U_FP64,
    exponential_fp64,
    exponential_fp64_torch,
    inverse_weight_fp64_torch,
    score_fp64,
    uniform_fp64,
    uniform_fp64_torch,
)
from sampler_kernels._triton import jit, launch, tl

EXACT = Context(prec=40)
ALL_ONES = 0xFFFFFFFF


@jit
def _score_kernel(
    hi_ptr: tl.tensor,
    lo_ptr: tl.tensor,
    z_ptr: tl.tensor,
    z_max_ptr: tl.tensor,
    u_ptr: tl.tensor,
    score_ptr: tl.tensor,
    BLOCK_SIZE: tl.constexpr,
) -> None:
    lanes = tl.arange(0, BLOCK_SIZE)
    hi = tl.load(hi_ptr + lanes).to(tl.uint32)
    u = uniform_fp64(hi, tl.load(lo_ptr + lanes).to(tl.uint32))
    tl.store(u_ptr + lanes, u)
    z, z_max = tl.load(z_ptr + lanes), tl.load(z_max_ptr)
    tl.store(score_ptr + lanes, score_fp64(exponential_fp64(u), z, z_max))


def _words(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Random words whose high word has every number of leading zeros, and of leading ones."""
    generator = torch.Generator().manual_seed(32)
    hi, lo = (torch.randint(0, 1 << 32, (n,), generator=generator) for _ in range(2))
    hi = hi >> torch.arange(n) % 33
    hi[::2] = ALL_ONES - hi[::2]
    return hi, lo


def test_uniform_is_its_64_bits_rounded_once() -> None:
    """U is (bits + 1/2) / 2^64 to the nearest float64, up to the clamp."""
    hi, lo = _words(2000)
    bits = (hi.tolist(), lo.tolist())
    exact = [((h << 33) + 2 * low + 1) / (1 << 65) for h, low in zip(*bits, strict=True)]
    assert uniform_fp64_torch(hi, lo).tolist() == [min(u, LARGEST_U_FP64) for u in exact]


def test_ends_of_the_uniform() -> None:
    """Bits of zeros and of ones give 2^-65 and 1 - 2^-53: never 0, never 1."""
    ends = torch.tensor([0, ALL_ONES])
    assert uniform_fp64_torch(ends, ends).tolist() == [2.0**-65, 1 - 2.0**-53]


def test_score_error() -> None:
    """A score is -ln(1 - u) exp(z_max - z) within SCORE_ERROR_FP64, at every size of u."""
    u = uniform_fp64_torch(*_words(2000))
    z = -torch.rand(2000, generator=torch.Generator().manual_seed(2)) * 80 + 17.3
    top = torch.tensor(17.3)
    got = (exponential_fp64_torch(u) * inverse_weight_fp64_torch(z, top)).tolist()
    for score, of_u, of_z in zip(got, u.tolist(), z.tolist(), strict=True):
        e = -EXACT.ln(EXACT.subtract(1, Decimal(of_u)))
        exact = e * EXACT.exp(EXACT.subtract(Decimal(top.item()), Decimal(of_z)))
        assert abs(EXACT.divide(Decimal(score), exact) - 1) <= SCORE_ERROR_FP64


def test_kernel_and_twin_have_the_same_bits() -> None:
    """Uniforms and scores of the kernel are the twin's, masked and far tokens included."""
    hi, lo = _words(4096)
    hi[2:4] = lo[2:4] = torch.tensor([0, ALL_ONES])
    z = torch.randn(4096, generator=torch.Generator().manual_seed(4)) * 30
    z[:2] = torch.tensor([-torch.inf, -3.4028234663852886e38])
    top = z.max()
    u, scores = (torch.empty(4096, dtype=torch.float64) for _ in range(2))
    launch(_score_kernel, (1,), hi, lo, z, top[None], u, scores, BLOCK_SIZE=4096)
    assert torch.equal(u, uniform_fp64_torch(hi, lo))
    assert torch.equal(scores, exponential_fp64_torch(u) * inverse_weight_fp64_torch(z, top))
    assert scores[:2].isinf().all()
