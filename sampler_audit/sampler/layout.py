"""Which logits rows belong to which slot in one step, drafts included. Knows no stage."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from sampler_audit.sampler.launches import Launches

PADDING = -1


class Layout:
    """The rows of one step: of each request its next row, then one a draft token.

    The row at local position j predicts the token after drafts 1..j. Index arrays travel to the
    device when something asks for them, and once.
    """

    def __init__(
        self,
        slots: Sequence[int],
        drafts: Sequence[Sequence[int]],
        total_len: NDArray[np.generic],
        device: torch.device,
        launches: Launches,
    ) -> None:
        self._device = device
        self._launches = launches
        self.slots = np.asarray(slots, np.int64)
        self.drafts = tuple(tuple(d) for d in drafts) or ((),) * len(slots)
        if len(self.drafts) != len(slots):
            raise ValueError(
                f"drafts must be empty or one sequence a request, {len(slots)} of them, "
                f"got {len(self.drafts)}"
            )
        n_rows = np.array([1 + len(d) for d in self.drafts], np.int64)
        self.starts = np.cumsum(n_rows) - n_rows
        self.n_rows = int(n_rows.sum())
        self.row_request = np.repeat(np.arange(len(slots)), n_rows)
        self.row_slots = self.slots[self.row_request]
        self.local = np.arange(self.n_rows) - self.starts[self.row_request]
        self.positions = total_len[self.row_slots].astype(np.int64) - 1 + self.local

    @property
    def max_drafts(self) -> int:
        """The most drafts of a request of the step."""
        return max((len(d) for d in self.drafts), default=0)

    def on_device(self, name: str, values: NDArray[np.generic]) -> torch.Tensor:
        """A copy of ``values``, counted."""
        self._launches.count(f"copy {name}")
        return torch.from_numpy(np.ascontiguousarray(values)).to(self._device)

    @cached_property
    def row_slots_on_device(self) -> torch.Tensor:
        """The slot of every row, ``[n_rows]`` int64."""
        return self.on_device("row slots", self.row_slots)

    @cached_property
    def positions_on_device(self) -> torch.Tensor:
        """Position of every row's input token, which keys its noise: ``[n_rows]`` int64."""
        return self.on_device("positions", self.positions)

    @cached_property
    def draft_token_ids(self) -> NDArray[np.int32]:
        """The drafts of every request, ``[n_requests, max_drafts]``, -1 after the last."""
        table = np.full((len(self.drafts), self.max_drafts), PADDING, np.int32)
        for row, drafts in zip(table, self.drafts, strict=True):
            row[: len(drafts)] = drafts
        return table

    @cached_property
    def drafts_before_row(self) -> torch.Tensor:
        """The drafts that a row sees as emitted, ``[n_rows, max_drafts]`` int32, -1 after them."""
        seen = np.arange(self.max_drafts) < self.local[:, None]
        table = np.where(seen, self.draft_token_ids[self.row_request], np.int32(PADDING))
        return self.on_device("drafts", table)

    @cached_property
    def n_drafts_before_row(self) -> torch.Tensor:
        """How many those are, ``[n_rows]`` int32."""
        return self.on_device("local positions", self.local.astype(np.int32))
