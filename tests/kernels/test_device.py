"""On a GPU: the compiled kernels give the bits of the twins on the CPU."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from sampler_kernels import (
    INTERPRETED,
    NOISES,
    Path,
    Ties,
    VerifyMethod,
    apply_filters,
    apply_filters_torch,
    apply_temperature,
    apply_temperature_torch,
    filter_and_draw,
    filter_and_draw_torch,
    gumbel_draw,
    gumbel_draw_torch,
    ranks_of,
    ranks_of_torch,
    row_log_sum,
    row_log_sum_torch,
    top_log_probs,
    top_log_probs_torch,
    verify_drafts,
    verify_drafts_torch,
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
    for noise in NOISES:
        drawn = gumbel_draw(logits.cuda(), seeds.cuda(), seeds.cuda(), noise=noise)
        assert torch.equal(drawn.cpu(), gumbel_draw_torch(logits, seeds, seeds, noise=noise))


@pytest.mark.parametrize("vocab_size", [5, 4096, 32001])
@pytest.mark.parametrize("ties", ["by_id", "keep_all"])
def test_fused_draws(vocab_size: int, ties: Ties, hard_rows: HardRows) -> None:
    """Tokens, counts and masks of the fused draw on the GPU are the twin's on the CPU."""
    logits = torch.tensor(np.stack(list(hard_rows(vocab_size).values())))
    n = len(logits)
    seeds = torch.arange(n) << 40
    top_k, top_p = torch.tensor([0, 50, 2]).repeat(n)[:n], torch.full((n,), 0.9)
    twin = filter_and_draw_torch(
        logits, seeds, seeds, top_k=top_k, top_p=top_p, ties=ties, return_mask=True
    )
    drawn = filter_and_draw(
        logits.cuda(),
        seeds.cuda(),
        seeds.cuda(),
        top_k=top_k.cuda(),
        top_p=top_p.cuda(),
        ties=ties,
        return_mask=True,
    )
    assert twin.mask is not None
    assert drawn.mask is not None
    assert torch.equal(drawn.token_ids.cpu(), twin.token_ids)
    assert torch.equal(drawn.n_kept.cpu(), twin.n_kept)
    assert torch.equal(drawn.mask.cpu(), twin.mask)


@pytest.mark.parametrize("vocab_size", [5, 4096, 32001])
def test_log_probs(vocab_size: int, hard_rows: HardRows) -> None:
    """Sums, log-probs, lists and ranks on the GPU are the twins' on the CPU."""
    logits = torch.tensor(np.stack(list(hard_rows(vocab_size).values())))
    on_device, n = logits.cuda(), min(vocab_size, 20)
    assert torch.equal(row_log_sum(on_device).cpu(), row_log_sum_torch(logits))
    token_ids, log_probs = top_log_probs_torch(logits, n)
    of_device = top_log_probs(on_device, n)
    assert torch.equal(of_device[0].cpu(), token_ids)
    assert torch.equal(of_device[1].cpu(), log_probs)
    assert torch.equal(
        ranks_of(on_device, token_ids.cuda()).cpu(), ranks_of_torch(logits, token_ids)
    )


@pytest.mark.parametrize("method", ["standard", "block"])
@pytest.mark.parametrize("with_q", [True, False])
@pytest.mark.parametrize("vocab_size", [5, 4096, 32001])
def test_verification(vocab_size: int, with_q: bool, method: VerifyMethod) -> None:
    """Accepted drafts and the token after them on the GPU are the twin's on the CPU."""
    generator = torch.Generator().manual_seed(vocab_size)
    q = torch.randn(64, 3, vocab_size, generator=generator)
    rows = torch.randn(64, 4, vocab_size, generator=generator)
    rows[:, :3] += q
    drafts = q.argmax(2).int()
    starts, seeds = torch.arange(65) * 4, torch.arange(64)
    draft_rows = q if with_q else None
    arguments = (rows.flatten(0, 1), drafts, draft_rows, starts, seeds, seeds << 31)
    on_device = (None if value is None else value.cuda() for value in arguments)
    twin = verify_drafts_torch(*arguments, method=method)
    kernels = verify_drafts(*on_device, method=method)  # type: ignore[arg-type]  # one may be None
    assert torch.equal(kernels.token_ids.cpu(), twin.token_ids)
    assert torch.equal(kernels.n_accepted.cpu(), twin.n_accepted)
