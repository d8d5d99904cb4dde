"""What was filed as a fault and is none: the audit passes it, and fails its faulty twin."""

from collections.abc import Callable
from typing import Protocol

import pytest
import torch

from sampler_audit.sampler import PlantedPlayer, Player
from sampler_reference.conventions import CONVENTIONS
from sampler_reference.defects import DEFECTS
from sampler_scenarios.batches import Batch
from sampler_scenarios.corpus import CORPUS
from sampler_scenarios.params import SamplingParams

MIN_P = "dense-normal@512/temperature=0.6,min_p=0.05/batch=alone"
JOINT = CORPUS["B23"].cells[0]
PROBED = "dense-normal@512/top_k=20/batch=mixed-8"


class Outcome(Protocol):
    """What ``audited`` gives."""

    failing: list[str]


Audited = Callable[..., Outcome]


class MinPAgain(Player):
    """Applies min_p once more to what the filters left, ``times`` as strictly."""

    times = 1.0

    def filtered(self, logits: torch.Tensor, batch: Batch) -> torch.Tensor:
        """See ``Player.filtered``."""
        again = [SamplingParams(min_p=min(1.0, self.times * own.min_p)) for own in batch.params]
        return self._pipeline.filter(super().filtered(logits, batch), again)


class MinPAgainAndMore(MinPAgain):
    """The second time four times as strict."""

    times = 4.0


class OtherNoise(Player):
    """Draws with the noise of other seeds, as another device's generator would."""

    def draw_filtered(
        self, masked: torch.Tensor, batch: Batch, seeds: torch.Tensor, positions: torch.Tensor
    ) -> torch.Tensor:
        """See ``Player.draw_filtered``."""
        return super().draw_filtered(masked, batch, seeds ^ 0x5DEECE66D, positions)


@pytest.mark.parametrize("cell", CORPUS["B55"].cells)
def test_certain_drafts(cell: str, audited: Audited) -> None:
    """B55. The twin: a draft whose filters are skipped, in the cell that has one."""
    assert audited(cell, Player("twin")).failing == []
    if "top_k" in cell:
        twin = PlantedPlayer("twin", DEFECTS["filter-skipped-at-drafts"])
        assert "kept set" in audited(cell, twin).failing


def test_min_p_twice(audited: Audited) -> None:
    """Nothing is left to remove, unless the second one is stricter."""
    assert audited(MIN_P, MinPAgain("twin")).failing == []
    assert "kept set" in audited(MIN_P, MinPAgainAndMore("twin")).failing


@pytest.mark.parametrize(("declared", "failing"), [("joint", False), ("in sequence", True)])
def test_joint_filters_where_they_are_declared(
    declared: str, failing: bool, audited: Audited
) -> None:
    """B23: one sampler, judged by what it declares."""
    convention = {"joint": "flashinfer-joint", "in sequence": "flashinfer"}[declared]
    joint = Player("twin", CONVENTIONS["flashinfer-joint"])
    found = audited(JOINT, joint, convention=convention, own_noise=False).failing
    assert ("kept set" in found) == failing
    assert bool(found) == failing


@pytest.mark.parametrize("kind", ["dense-normal", "finite-20-spread"])
def test_a_repetition_penalty_that_multiplies_negative_logits(kind: str, audited: Audited) -> None:
    """NVIDIA/FasterTransformer#777, withdrawn. The twin divides them."""
    cell = f"{kind}@512/neutral/batch=alone/stages=repetition_penalty"
    assert audited(cell, Player("twin")).failing == []
    if kind == "dense-normal":
        twin = PlantedPlayer("twin", DEFECTS["repetition-ignores-sign"])
        assert audited(cell, twin).failing == ["logits"]


@pytest.mark.parametrize(("own_noise", "failing"), [(False, []), (True, ["noise"])])
def test_noise_of_another_device(own_noise: bool, failing: list[str], audited: Audited) -> None:
    """Is a fault only where the tokens are declared to be a function of seed and position."""
    assert audited(PROBED, OtherNoise("twin"), own_noise=own_noise).failing == failing
