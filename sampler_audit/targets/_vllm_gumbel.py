"""Many seeded draws from one row of Model Runner V2, in one program of the interpreter.

Hash, noise and choice are vLLM's own function, on a tokens x draws block in place of one draw's
1024 tokens. Imported after vLLM; nothing of ours.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import torch
import triton
import triton.language as tl

if TYPE_CHECKING:
    gumbel_noised_argmax: Any
else:
    gumbel_noised_argmax = importlib.import_module(
        "vllm.v1.worker.gpu.sample.gumbel"
    ).gumbel_noised_argmax

_LARGEST = 2**20
"""Elements that Triton takes in a block."""


@triton.jit  # type: ignore[untyped-decorator]  # Triton has no type information
def _draw_kernel(  # type: ignore[no-untyped-def]  # its arguments are pointers and numbers
    drawn_ptr,
    logits_ptr,
    ids_ptr,
    seeds_ptr,
    positions_ptr,
    temperature_ptr,
    n_ids,
    n_draws,
    IDS: tl.constexpr,  # noqa: N803 - constexpr
    DRAWS: tl.constexpr,  # noqa: N803 - constexpr
):
    i = tl.arange(0, IDS)[:, None]
    j = tl.arange(0, DRAWS)[None, :]
    mask = (i < n_ids) & (j < n_draws)
    logits = tl.load(logits_ptr + i + 0 * j, mask=mask, other=float("-inf"))
    _, best = gumbel_noised_argmax(
        logits,
        tl.load(ids_ptr + i, mask=i < n_ids, other=0),
        mask,
        tl.load(seeds_ptr + j, mask=j < n_draws, other=0),
        tl.load(positions_ptr + j, mask=j < n_draws, other=0),
        tl.load(temperature_ptr),
        IS_DRAFTING=False,
        USE_FP64=False,
        APPLY_TEMPERATURE=False,
    )
    each = tl.arange(0, DRAWS)
    tl.store(drawn_ptr + each, best.to(tl.int64), mask=each < n_draws)


def draw(
    logits: torch.Tensor,
    ids: torch.Tensor,
    seeds: torch.Tensor,
    positions: torch.Tensor,
    temperature: float,
) -> torch.Tensor:
    """The token of every (seed, position), int64 ``[n]``, of float32 ``logits`` of ``ids``."""
    best = torch.empty_like(seeds)
    width = triton.next_power_of_2(len(ids))
    step = max(1, _LARGEST // width)
    for start in range(0, len(seeds), step):
        part = slice(start, start + step)
        drawn, *at = best[part], seeds[part], positions[part]
        _draw_kernel[(1,)](
            drawn,
            logits,
            ids,
            *at,
            torch.tensor([temperature]),
            len(ids),
            len(drawn),
            IDS=width,
            DRAWS=triton.next_power_of_2(len(drawn)),
        )
    return ids[best]
