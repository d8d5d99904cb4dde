"""On a GPU: the compiled kernels give the bits of the twins on the CPU."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from sampler_kernels import (
    INTERPRETED,
    Path,
    Ties,
    apply_filters,
    apply_filters_torch,
    apply_temperature,
    apply_temperature_torch,
    gumbel_draw,
    gumbel_draw_torch,
)

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        INTERPRETED or not torch.cuda.is_available(),
        reason="needs a GPU and TRITON_INTERPRET=0",
    ),
]

HardRows = Callable[[int], dict[str, NDArray[np.float32]]]


@pytest.mark.parametrize("vocab_size", [1, 1000, 32001, 131072])
@pytest.mark.parametrize("ties", ["by_id", "keep_all"])
@pytest.mark.parametrize("path", ["auto", "radix"])
def test_filters(vocab_size: int, ties: Ties, path: Path, hard_rows: HardRows) -> None:
    """Every kind of row keeps the same tokens on the GPU as the twin keeps on the CPU."""
    logits = torch.tensor(np.stack(list(hard_rows(vocab_size).values())))
    n = len(logits)
    top_k = torch.tensor([0, 50, 2]).repeat(n)[:n]
    top_p = torch.tensor([0.9, 0.999, 1.0, 0.5]).repeat(n)[:n]
    min_p = torch.tensor([0.0, 0.0, 0.01, 0.0, 0.3]).repeat(n)[:n]
    twin = apply_filters_torch(logits, top_k=top_k, top_p=top_p, min_p=min_p, ties=ties)
    result = apply_filters(
        logits.cuda(),
        top_k=top_k.cuda(),
        top_p=top_p.cuda(),
        min_p=min_p.cuda(),
        ties=ties,
        path=path,
    )
    assert torch.equal(result.logits.cpu(), twin.logits)
    assert torch.equal(result.n_kept.cpu(), twin.n_kept)
    assert torch.equal(result.flags.cpu(), twin.flags)


@pytest.mark.parametrize("vocab_size", [5, 4096, 32001])
def test_draws(vocab_size: int, hard_rows: HardRows) -> None:
    """Temperature and draws on the GPU are the twins' on the CPU."""
    logits = torch.tensor(np.stack(list(hard_rows(vocab_size).values())))
    temperature = torch.full((len(logits),), 0.7)
    scaled = apply_temperature(logits.cuda(), temperature.cuda())
    assert torch.equal(
        scaled.cpu().nan_to_num(), apply_temperature_torch(logits, temperature).nan_to_num()
    )
    seeds = torch.arange(len(logits)) - 3
    drawn = gumbel_draw(logits.cuda(), seeds.cuda(), seeds.cuda())
    assert torch.equal(drawn.cpu(), gumbel_draw_torch(logits, seeds, seeds))
