"""State tensors by slot, written on the host and copied to the device when a step needs them.

The host's copy is the truth. Writes only widen a box of what differs; one copy moves the box.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from sampler_audit.sampler.launches import Launches

Values = Sequence[int] | Sequence[float] | NDArray[np.generic]


class StagedTensor:
    """A tensor ``[n_slots]`` or ``[n_slots, width]`` that every slot starts with ``fill`` in."""

    def __init__(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: torch.dtype,
        fill: float,
        device: torch.device,
        launches: Launches,
    ) -> None:
        self._name = name
        self._fill = fill
        self._launches = launches
        self._staged = torch.full(shape, fill, dtype=dtype)
        self._device = self._staged.to(device, copy=True)
        self._box: tuple[int, int, int, int] | None = None

    @property
    def host(self) -> NDArray[np.generic]:
        """The truth, which nobody else may write."""
        array: NDArray[np.generic] = self._staged.numpy()
        return array

    def write(self, slot: int, value: float) -> None:
        """The slot's value, where the tensor has one a slot."""
        rounded = self.host.dtype.type(value)
        if self.host[slot] != rounded:
            self.host[slot] = rounded
            self._widen(slot, 0, 1)

    def rewrite(self, slot: int, values: Values) -> None:
        """The slot's whole row: ``values``, and ``fill`` after them."""
        row = np.full(self.host.shape[1], self._fill, self.host.dtype)
        row[: len(values)] = values
        differs = np.flatnonzero(self.host[slot] != row)
        if differs.size:
            self.host[slot] = row
            self._widen(slot, int(differs[0]), int(differs[-1]) + 1)

    def append(self, slot: int, start: int, values: Values) -> None:
        """Part of the slot's row, from column ``start``."""
        stop = start + len(values)
        if stop == start:
            return
        self.host[slot, start:stop] = values
        self._widen(slot, start, stop)

    def current(self) -> torch.Tensor:
        """The tensor on its device, after at most one copy."""
        if self._box is not None:
            top, bottom, left, right = self._box
            box = (slice(top, bottom), slice(left, right))[: self._staged.ndim]
            self._device[box].copy_(self._staged[box])
            self._launches.count(f"copy {self._name}")
            self._box = None
        return self._device

    def _widen(self, slot: int, left: int, right: int) -> None:
        top, bottom, start, stop = self._box or (slot, slot + 1, left, right)
        self._box = (min(top, slot), max(bottom, slot + 1), min(start, left), max(stop, right))
