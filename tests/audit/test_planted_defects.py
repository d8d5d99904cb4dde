"""Each planted defect, in one cell: its check sees it, and passes without it."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from sampler_audit.draws import Listed, Stepped, TargetInfo
from sampler_audit.examine import examine
from sampler_audit.plan import build_plan
from sampler_audit.sampler import PlantedPlayer, Player
from sampler_audit.selftest import cell_failures
from sampler_audit.verdict import name_cells
from sampler_reference.defects import DEFECTS
from sampler_scenarios.batches import Batch
from sampler_scenarios.cells import parse_cell
from sampler_scenarios.params import STAGES

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
    "stale-slot": "dense-normal@512/top_k=20/batch=recycled",
    "swap-copies-both": "dense-normal@512/top_k=20/batch=swapped",
    "seed-by-row": "dense-normal@512/neutral/batch=swapped",
    "seed-by-batch-position": "dense-normal@512/neutral/batch=swapped",
    "draft-shares-noise": "dense-normal@512/top_k=20/batch=drawn-draft-1",
    "residual-not-renormalised": "dense-normal@512/top_k=20/batch=drawn-draft-1",
    "bonus-unfiltered": "dense-normal@512/top_k=20/batch=draft-bonus",
    "filter-skipped-at-drafts": "dense-normal@512/top_k=20/batch=draft-1",
    "log-probs-of-another-row": "ties-at-k@512/top_k=20/batch=staggered",
    "rank-under-ties": "ties-at-k@512/top_k=20/batch=staggered",
    "bias-lost-in-mixed-batch": "dense-normal@512/neutral/batch=mixed-8/stages=logit_bias",
    "grammar-row-shifted": "dense-normal@512/top_k=20/batch=mixed-8/stages=grammar",
}


def cell_for(name: str) -> str:
    """A cell with what the defect needs: by default the smallest set of stages."""
    defect = DEFECTS[name]
    stages = [s for s in STAGES if s in defect.needs | frozenset(sorted(defect.one_of)[:1])]
    alone = f"dense-normal@512/neutral/batch=alone/stages={'+'.join(stages)}"
    return CELLS.get(name, alone if stages else ALL_ON)


@dataclass(frozen=True)
class InProcess:
    """The built-in sampler's torch path as a target, without a worker."""

    info: TargetInfo
    player: Player

    def kept(self, batch: Batch) -> NDArray[np.bool_]:
        """What the sampler leaves."""
        return self.filtered(batch) > -np.inf

    def filtered(self, batch: Batch) -> NDArray[np.float32]:
        """What the sampler draws from."""
        filtered: NDArray[np.float32] = self.player.filtered(logits_of(batch), batch).numpy()
        return filtered

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
        tokens: NDArray[np.int64] = self.player.draw(logits_of(batch), batch, *at).numpy()
        return tokens

    def step(self, batch: Batch, seeds: NDArray[np.int64]) -> Stepped:
        """The sampler's own step."""
        step = self.player.step(logits_of(batch), batch, seeds)
        first = [None if each is None else each[0] for each in step.log_probs]
        return Stepped(
            np.array([tokens[0] for tokens in step.token_ids]),
            tuple(None if e is None else Listed(e.token_ids, e.values, e.ranks) for e in first),
        )

    def close(self) -> None:
        """Nothing to release."""


def logits_of(batch: Batch) -> torch.Tensor:
    """The rows with the stride that they have."""
    return torch.from_numpy(batch.logits)


def failures(cell: str, player: Player, info: TargetInfo) -> list[str]:
    """The checks that fail in a cell of a plan of its own."""
    plan = build_plan(only=cell, n_draws=1000, seed=11)
    examined = examine(parse_cell(cell), InProcess(info, player), plan)
    return cell_failures(name_cells([examined], plan)[0])


@pytest.mark.parametrize("name", DEFECTS)
def test_its_check_finds_it_and_passes_without_it(name: str, info: TargetInfo) -> None:
    """Histograms at alpha 1e-4; the other checks are exact."""
    cell = cell_for(name)
    exact = replace(
        info,
        mass_error=2.0**-20,
        stages=STAGES,
        stateful=True,
        verifies_drafts=True,
        logits_error=0.0,
    )
    assert DEFECTS[name].found_by in failures(cell, PlantedPlayer("twin", DEFECTS[name]), exact)
    assert failures(cell, Player("twin"), exact) == []
