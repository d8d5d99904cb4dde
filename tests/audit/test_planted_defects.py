"""Each planted defect, in one cell: its check sees it, and passes without it."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from sampler_audit.draws import TargetInfo
from sampler_audit.examine import examine
from sampler_audit.plan import build_plan
from sampler_audit.sampler import PlantedSampler, Sampler
from sampler_audit.selftest import cell_failures
from sampler_audit.verdict import name_cells
from sampler_reference.defects import DEFECTS
from sampler_scenarios.batches import Batch
from sampler_scenarios.cells import parse_cell

ALL_ON = "dense-normal@512/temperature=0.6,top_k=20,top_p=0.95,min_p=0.05/batch=mixed-8"
# Where the cell with every filter on cannot show a defect.
CELLS = {
    "temperature-twice": "finite-20-spread@512/temperature=0.6/batch=alone",
    "temperature-ignored": "dense-normal@512/temperature=0.6/batch=alone",
    "top-k-minus-one": "dense-normal@512/top_k=20/batch=alone",
    "top-k-plus-one": "dense-normal@512/top_k=20/batch=alone",
    "top-k-ignored": "dense-normal@512/top_k=20/batch=alone",
    "order-swapped": "dense-normal@512/top_k=20,top_p=0.95/batch=alone",
    "joint-for-sequential": "dense-normal@512/top_k=20,top_p=0.95/batch=alone",
    "ties-by-chance": "ties-at-k@512/top_k=20/batch=alone",
    "ties-kept": "ties-at-k@512/top_k=20/batch=alone",
    "neighbour-k": "dense-normal@512/top_k=20/batch=mixed-8",
    "batch-size-path": "ties-at-k@512/top_k=20/batch=mixed-7",
    "stride-ignored": "bf16-rounded@512/top_k=20/batch=strided",
}


@dataclass(frozen=True)
class InProcess:
    """The built-in sampler's torch path as a target, without a worker."""

    info: TargetInfo
    sampler: Sampler

    def kept(self, batch: Batch) -> NDArray[np.bool_]:
        """What the sampler leaves."""
        kept: NDArray[np.bool_] = (self._filtered(batch) > -torch.inf).numpy()
        return kept

    def draw(
        self,
        batch: Batch,
        seeds: NDArray[np.int64],
        positions: NDArray[np.int64],
        *,
        kernel: bool = False,  # noqa: ARG002  # the protocol's; there is one way to draw here
    ) -> NDArray[np.int64]:
        """The sampler's own draws."""
        at = torch.from_numpy(seeds.copy()), torch.from_numpy(positions.copy())
        tokens: NDArray[np.int64] = self.sampler.draw(
            self._logits(batch), batch.params, batch.index, *at
        ).numpy()
        return tokens

    def close(self) -> None:
        """Nothing to release."""

    def _filtered(self, batch: Batch) -> torch.Tensor:
        return self.sampler.filter(self._logits(batch), batch.params)

    @staticmethod
    def _logits(batch: Batch) -> torch.Tensor:
        return torch.from_numpy(batch.logits.copy() if batch.logits.base is None else batch.logits)


def failures(cell: str, sampler: Sampler, info: TargetInfo) -> list[str]:
    """The checks that fail in a cell of a plan of its own."""
    plan = build_plan(only=cell, n_draws=1000, seed=11)
    examined = examine(parse_cell(cell), InProcess(info, sampler), plan)
    return cell_failures(name_cells([examined], plan)[0])


@pytest.mark.parametrize("name", DEFECTS)
def test_its_check_finds_it_and_passes_without_it(name: str, info: TargetInfo) -> None:
    """Histograms at alpha 1e-4; the other checks are exact."""
    cell = CELLS.get(name, ALL_ON)
    exact = replace(info, mass_error=2.0**-20)
    assert DEFECTS[name].found_by in failures(cell, PlantedSampler("twin", DEFECTS[name]), exact)
    assert failures(cell, Sampler("twin"), exact) == []
