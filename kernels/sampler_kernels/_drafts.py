"""Checked arguments of a verification, and what its kernels and its twin make of them.

It decides nothing: rows, drafts and their laws are laid out here, and looked at elsewhere.
"""

from dataclasses import dataclass

import torch

from sampler_kernels._arguments import check_logits, check_vector
from sampler_kernels._keys import canonical_logits_torch
from sampler_kernels._log_sum import LogSums, log_sums, log_sums_torch
from sampler_kernels._stage_arguments import check_table


@dataclass(frozen=True, eq=False)
class Drafts:
    """What is to be verified.

    Attributes:
        logits: ``[n_rows, vocab_size]``, target rows.
        token_ids: ``[n_requests, max_drafts]`` int32.
        draft_rows: ``[n_requests * max_drafts, vocab_size]``, or None.
        row_starts: ``[n_requests + 1]`` int64.
        seeds: ``[n_requests]`` int64.
        positions: ``[n_requests]`` int64.
    """

    logits: torch.Tensor
    token_ids: torch.Tensor
    draft_rows: torch.Tensor | None
    row_starts: torch.Tensor
    seeds: torch.Tensor
    positions: torch.Tensor

    def with_sums(self, block_size: int) -> tuple[torch.Tensor | int, ...]:
        """The twelve arguments that every kernel of a verification begins with."""
        sums = log_sums(self.logits, block_size=block_size)
        rows, draft_sums = self.draft_rows, sums
        if rows is None:
            rows = self.logits  # stands in for what nobody reads then
        else:
            draft_sums = log_sums(rows, block_size=block_size)
        return (
            self.logits,
            self.logits.stride(0),
            self.logits.shape[1],
            sums.z_max,
            sums.log_mass,
            rows,
            rows.stride(0),
            draft_sums.z_max,
            draft_sums.log_mass,
            self.row_starts,
            self.token_ids,
            self.token_ids.shape[1],
        )


@dataclass(frozen=True, eq=False)
class Padded:
    """The same with all rows that a request could have, for the twin.

    Attributes:
        z: ``[n, max_drafts + 1, V]``, canonical target logits.
        sums: Those of z, ``[n, max_drafts + 1]``.
        token_ids: ``[n, max_drafts]`` int64, -1 from the first placeholder on.
        draft_z: ``[n, max_drafts, V]``, canonical draft logits, or None.
        draft_sums: Those of draft_z, ``[n, max_drafts]``, or None.
        seeds: ``[n]`` int64.
        positions: ``[n]`` int64.
        exists: ``[n]`` bool, whether the request emits anything.
    """

    z: torch.Tensor
    sums: LogSums
    token_ids: torch.Tensor
    draft_z: torch.Tensor | None
    draft_sums: LogSums | None
    seeds: torch.Tensor
    positions: torch.Tensor
    exists: torch.Tensor


def check_drafts(
    logits: torch.Tensor,
    token_ids: torch.Tensor,
    draft_logits: torch.Tensor | None,
    row_starts: torch.Tensor,
    seeds: torch.Tensor,
    positions: torch.Tensor,
) -> Drafts:
    """The arguments of ``verify_drafts``.

    Raises:
        TypeError, ValueError: shapes, dtypes or devices do not fit together.
    """
    logits = check_logits(logits)
    device, int64 = logits.device, (torch.int64,)
    token_ids = check_table("draft_token_ids", token_ids, (None, None), (torch.int32,), device)
    n_requests, max_drafts = token_ids.shape
    draft_rows = None
    if draft_logits is not None:
        expected = (n_requests, max_drafts, logits.shape[1])
        if tuple(draft_logits.shape) != expected:
            raise ValueError(
                f"draft_logits have shape {tuple(draft_logits.shape)}; {list(expected)}, "
                "[n_requests, max_drafts, vocab_size], is expected; pad rows that do not exist"
            )
        draft_rows = check_logits(draft_logits.reshape(-1, logits.shape[1]))
        if draft_rows.device != device:
            raise ValueError(
                f"draft_logits are on {draft_rows.device} but logits are on {device}; "
                "move them with draft_logits.to(target_logits.device)"
            )
    return Drafts(
        logits,
        token_ids,
        draft_rows,
        check_vector("row_starts", row_starts, n_requests + 1, int64, device),
        check_vector("seeds", seeds, n_requests, int64, device),
        check_vector("positions", positions, n_requests, int64, device),
    )


def pad(drafts: Drafts) -> Padded:
    """Every request with as many rows as any may have."""
    logits, vocab_size = drafts.logits, drafts.logits.shape[1]
    n_rows = len(logits)
    if not n_rows:
        logits = torch.full((1, vocab_size), -torch.inf, device=logits.device)
    n, max_drafts = drafts.token_ids.shape
    first, last = drafts.row_starts[:-1], drafts.row_starts[1:]
    n_drafts = last - first - 1
    exists = (first >= 0) & (last <= n_rows) & (n_drafts >= 0) & (n_drafts <= max_drafts)
    n_drafts = n_drafts.where(exists, 0)
    steps = torch.arange(max_drafts + 1, device=first.device)
    # A row that does not exist is never drawn from: whichever stands there will do.
    rows = (first.where(exists, 0)[:, None] + steps).clamp(max=len(logits) - 1)
    token_ids = drafts.token_ids.long()
    valid = (steps[:-1] < n_drafts[:, None]) & (token_ids >= 0) & (token_ids < vocab_size)
    draft_z = None
    if drafts.draft_rows is not None:
        draft_z = canonical_logits_torch(drafts.draft_rows).view(n, max_drafts, vocab_size)
    z = canonical_logits_torch(logits)[rows]
    return Padded(
        z,
        log_sums_torch(z),
        token_ids.where(valid.long().cumprod(1) > 0, -1),
        draft_z,
        None if draft_z is None else log_sums_torch(draft_z),
        drafts.seeds,
        drafts.positions,
        exists,
    )
