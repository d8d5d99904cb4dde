"""Each planted defect, in one cell: its check sees it, and passes without it."""

from collections.abc import Callable
from typing import Protocol

import pytest

from sampler_audit.sampler import PlantedPlayer, Player
from sampler_reference.defects import DEFECTS
from sampler_scenarios.params import STAGES


class Outcome(Protocol):
    """What ``audited`` gives."""

    failing: list[str]


Audited = Callable[[str, Player], Outcome]

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
    "drafts-not-counted": "dense-normal@512/neutral/batch=draft-2/stages=frequency_penalty",
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


@pytest.mark.parametrize("name", [name for name in DEFECTS if not DEFECTS[name].entry])
def test_its_check_finds_it_and_passes_without_it(name: str, audited: Audited) -> None:
    """Histograms at alpha 1e-4; the other checks are exact. test_fault_corpus.py has the others."""
    cell = cell_for(name)
    assert DEFECTS[name].found_by in audited(cell, PlantedPlayer("twin", DEFECTS[name])).failing
    assert audited(cell, Player("twin")).failing == []
