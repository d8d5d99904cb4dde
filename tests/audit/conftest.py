"""In-memory targets, for faults and verdicts that no real engine can be made to show."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from sampler_audit.draws import TargetInfo
from sampler_audit.plan import AuditPlan, build_plan
from sampler_reference import noise
from sampler_reference.conventions import CONVENTIONS
from sampler_reference.distribution import reference_distribution
from sampler_scenarios.batches import Batch

Probs = NDArray[np.float64]


@dataclass(frozen=True)
class InMemoryTarget:
    """A sampler made of a law: by default the reference's own, drawn with the reference's noise.

    It cannot prove that a sampler is right. It lets the audit see a stated law and stated draws.
    """

    info: TargetInfo
    change: Callable[[Probs], Probs] = lambda probs: probs
    hide_kept: bool = False

    def _law(self, batch: Batch, i: int) -> Probs:
        conventions = CONVENTIONS[self.info.convention]
        law = reference_distribution(batch.logits[i], batch.params[i], conventions)
        return self.change(law.probs)

    def kept(self, batch: Batch) -> NDArray[np.bool_]:
        """The support of the law, or with ``hide_kept`` of the right law."""
        right = InMemoryTarget(self.info)
        source = right if self.hide_kept else self
        return np.stack([source._law(batch, i) > 0 for i in range(len(batch.params))])

    def draw(
        self,
        batch: Batch,
        seeds: NDArray[np.int64],
        positions: NDArray[np.int64],
        *,
        kernel: bool = False,  # noqa: ARG002  # the protocol's; there is one way to draw here
    ) -> NDArray[np.int64]:
        """Races over the logarithm of the law."""
        with np.errstate(divide="ignore"):
            return noise.race(np.log(self._law(batch, batch.index)), seeds, positions)

    def close(self) -> None:
        """Nothing to release."""


@pytest.fixture
def info() -> TargetInfo:
    """A target that draws under our own convention."""
    return TargetInfo(
        name="memory",
        engine="in memory",
        device="cpu",
        path="the reference's law",
        convention="sampler-audit",
        draws=True,
        own_noise=True,
    )


@pytest.fixture
def make_target(info: TargetInfo) -> Callable[..., InMemoryTarget]:
    """Builds an in-memory target from a change of the law."""

    def make(
        change: Callable[[Probs], Probs] | None = None, *, hide_kept: bool = False
    ) -> InMemoryTarget:
        return InMemoryTarget(info, change or (lambda probs: probs), hide_kept)

    return make


@pytest.fixture
def plan() -> AuditPlan:
    """The triple on rows where it has something to cut."""
    return build_plan(
        combos="top_k+top_p+min_p", rows="finite-3-front,runner-up-0.2,dense-normal", seed=7
    )
