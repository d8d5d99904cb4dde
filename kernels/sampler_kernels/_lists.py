"""Lists of token ids by slot: their checks, and which tokens they name in a row of logits.

Beyond its count a list holds whatever an earlier request left; nobody reads it.
"""

from dataclasses import dataclass

import torch

from sampler_kernels._stage_arguments import (
    check_editable,
    check_settings,
    check_slots,
    check_table,
)
from sampler_kernels._triton import jit, tl
from sampler_kernels.history import known_slots_torch


def check_lists(
    logits: torch.Tensor,
    slots: torch.Tensor,
    name: str,
    token_ids: torch.Tensor,
    counts: torch.Tensor,
    n_slots: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Slots and counts, contiguous; ``n_slots`` where something else tells their number.

    Raises:
        TypeError, ValueError: shapes, dtypes or devices do not fit together.
    """
    check_editable(logits)
    slots = check_slots(slots, len(logits), logits.device)
    check_table(name, token_ids, (n_slots, None), (torch.int32,), logits.device)
    counts = check_settings("counts", counts, len(token_ids), torch.int32, logits.device)
    return slots, counts


@jit
def load_listed(
    places: tl.tensor,
    slot: tl.tensor,
    vocab_size: tl.tensor,
    listed_ids_ptr: tl.tensor,
    cap: tl.tensor,
    counts_ptr: tl.tensor,
) -> tl.tensor:
    """Token ids at places of a slot's list; -1 beyond its count and out of the vocabulary."""
    count = tl.minimum(tl.load(counts_ptr + slot), cap)
    token_ids = tl.load(listed_ids_ptr + slot * cap + places, mask=places < count, other=-1)
    return tl.where((token_ids >= 0) & (token_ids < vocab_size), token_ids, -1)


@dataclass(frozen=True, eq=False)
class Listed:
    """The twins' view of lists: one entry for each token that a row's slot lists.

    Attributes:
        rows: ``[n]`` int64.
        token_ids: ``[n]`` int64, within the vocabulary.
        slots: ``[n]`` int64, and
        places: ``[n]`` int64: where in the table an entry stands.
        any_listed: ``[n_rows]`` bool: the row's slot lists something, in the vocabulary or not.
    """

    rows: torch.Tensor
    token_ids: torch.Tensor
    slots: torch.Tensor
    places: torch.Tensor
    any_listed: torch.Tensor


def listed_torch(
    logits: torch.Tensor, slots: torch.Tensor, token_ids: torch.Tensor, counts: torch.Tensor
) -> Listed:
    """Every listed token of every row."""
    n_slots, cap = token_ids.shape
    places = torch.arange(cap, device=slots.device)
    used = (places < counts[:, None]) & (token_ids >= 0) & (token_ids < logits.shape[1])
    slots, known = known_slots_torch(slots, n_slots)
    if n_slots == 0:
        nothing = slots[:0]
        return Listed(nothing, nothing, nothing, nothing, known)
    rows, columns = (used[slots] & known[:, None]).nonzero(as_tuple=True)
    return Listed(
        rows=rows,
        token_ids=token_ids[slots[rows], columns].long(),
        slots=slots[rows],
        places=columns,
        any_listed=(counts.clamp(max=cap)[slots] > 0) & known,
    )
