"""The fixed-point weights against float64, and the kernel's bits against the twin's."""

import numpy as np
import pytest
import torch

from sampler_kernels import mass_error
from sampler_kernels._fixed_point import WEIGHT_ERROR, target_mass_torch, weight, weight_torch
from sampler_kernels._triton import jit, launch, tl


@jit
def _weight_kernel(
    z_ptr: tl.tensor, z_max_ptr: tl.tensor, weight_ptr: tl.tensor, BLOCK_SIZE: tl.constexpr
) -> None:
    lanes = tl.arange(0, BLOCK_SIZE)
    tl.store(weight_ptr + lanes, weight(tl.load(z_ptr + lanes), tl.load(z_max_ptr)))


def _below(z_max: float, n: int) -> tuple[torch.Tensor, torch.Tensor]:
    top = torch.tensor(z_max)
    distance = torch.rand(n, generator=torch.Generator().manual_seed(9), dtype=torch.float64) * 41
    return torch.minimum((top.double() - distance).float(), top), top


@pytest.mark.parametrize("z_max", [0.0, 1.0, 30.0, 1e4, -1e4, 123.456, 1e-3, 1e6])
def test_weight_error(z_max: float) -> None:
    """A weight is exp(z - z_max) within WEIGHT_ERROR and two units of 2^-40."""
    z, top = _below(z_max, 200_000)
    exact = np.exp(z.double().numpy() - top.double().numpy())
    error = np.abs(weight_torch(z, top).numpy() * 2.0**-40 - exact)
    assert (error <= WEIGHT_ERROR * exact + 2 * 2.0**-40).all()


def test_weight_of_the_maximum_and_of_masked_tokens() -> None:
    """The maximum weighs 2^40, a masked token nothing, at any size of logit."""
    for top in (0.0, -7.5, 3.4e38, -3.4e38, 1e-40):
        z = torch.tensor([top, -torch.inf, -3.4028234663852886e38])
        assert weight_torch(z, torch.tensor(top))[:2].tolist() == [1 << 40, 0]


@pytest.mark.parametrize("z_max", [0.0, 1.0, 30.0, 123.456, -1e4, 3e38])
def test_kernel_and_twin_have_the_same_bits(z_max: float) -> None:
    """The kernel's integer is the twin's for every logit."""
    z, top = _below(z_max, 4096)
    z[:3] = torch.tensor([-torch.inf, -3.4028234663852886e38, 0.0]).clamp(max=z_max)
    got = torch.empty(4096, dtype=torch.int64)
    launch(_weight_kernel, (1,), z, top[None], got, BLOCK_SIZE=4096)
    assert torch.equal(got, weight_torch(z, top))


def test_target_mass_is_the_least_integer_not_below_p_total() -> None:
    """A mass before a token is < p*total iff it is below the target, in Python integers."""
    for p in (0.1, 0.5, 0.9, 0.999, 1e-30, 0.0, -1.0):
        numerator, denominator = np.float32(p).item().as_integer_ratio()
        for total in (1 << 40, 3 << 40, (1 << 50) + 1):
            exact = max(-(-numerator * total // denominator), 1)
            got = target_mass_torch(torch.tensor([p]), torch.tensor([total])).item()
            assert abs(got - exact) <= total >> 53


def _difference_in_cumulative_probability(tail: float) -> float:
    """The largest, against float64, of one token above 65,535 others at ``tail`` below it."""
    z = torch.cat((torch.zeros(1), tail + torch.linspace(1e-3, 0, 65_535)))
    exact = np.exp(z.double().numpy()).cumsum()
    mass = weight_torch(z, z[0]).double().numpy().cumsum()
    return float(np.abs(mass / mass[-1] - exact / exact[-1]).max())


@pytest.mark.parametrize("tail", [-1e-3, -1.0, -12.0, -27.04, -27.8])
def test_mass_error_bounds_a_cumulative_probability(tail: float) -> None:
    """No running sum is further off than stated, also where every weight of the tail is cut."""
    assert _difference_in_cumulative_probability(tail) <= mass_error(65_536)


def test_mass_error_is_no_guess() -> None:
    """Weights of 1.99 units of 2^-40, of which one is left, use up a third of the bound."""
    assert _difference_in_cumulative_probability(-27.04) > mass_error(65_536) / 3


def test_mass_error_is_small_beside_what_an_audit_can_see() -> None:
    """At the largest vocabulary the band of top_p stays below 1e-6."""
    assert mass_error(1 << 18) < 1e-6
