"""In-memory targets, for faults and verdicts that no real engine can be made to show."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from sampler_audit.draws import Listed, Stepped, TargetInfo
from sampler_audit.examine import examine
from sampler_audit.plan import AuditPlan, build_plan
from sampler_audit.sampler import Player
from sampler_audit.selftest import cell_failures
from sampler_audit.verdict import name_cells
from sampler_reference import noise
from sampler_reference.conventions import CONVENTIONS
from sampler_reference.distribution import reference_distribution
from sampler_scenarios.batches import Batch
from sampler_scenarios.cells import parse_cell
from sampler_scenarios.params import STAGES

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


@dataclass(frozen=True)
class InProcess:
    """The built-in sampler's torch path as a target, without a worker; it counts its draws."""

    info: TargetInfo
    player: Player
    drawn: list[int] = field(default_factory=list)

    def kept(self, batch: Batch) -> NDArray[np.bool_]:
        """What the sampler leaves."""
        return self.filtered(batch) > -np.inf

    def filtered(self, batch: Batch) -> NDArray[np.float32]:
        """What the sampler draws from."""
        logits = torch.from_numpy(batch.logits)
        filtered: NDArray[np.float32] = self.player.filtered(logits, batch).numpy()
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
        self.drawn.append(seeds.size)
        at = torch.from_numpy(seeds.copy()), torch.from_numpy(positions.copy())
        logits = torch.from_numpy(batch.logits)
        tokens: NDArray[np.int64] = self.player.draw(logits, batch, *at).numpy()
        return tokens

    def step(self, batch: Batch, seeds: NDArray[np.int64]) -> Stepped:
        """The sampler's own step."""
        step = self.player.step(torch.from_numpy(batch.logits), batch, seeds)
        listed = [None if each is None else each[0] for each in step.log_probs]
        return Stepped(
            np.array([tokens[0] for tokens in step.token_ids]),
            tuple(None if e is None else Listed(e.token_ids, e.values, e.ranks) for e in listed),
        )

    def close(self) -> None:
        """Nothing to release."""


@dataclass(frozen=True)
class Audit:
    """The checks that fail in a cell of a plan of its own, and how many tokens were drawn."""

    failing: list[str]
    n_draws: int


@pytest.fixture
def audited(info: TargetInfo) -> Callable[..., Audit]:
    """Audits a player in a cell; whatever it can be asked is asked, unless ``changed`` says not."""
    ours = replace(
        info,
        mass_error=2.0**-20,
        stages=STAGES,
        stateful=True,
        verifies_drafts=True,
        logits_error=0.0,
    )

    def audit(cell: str, player: Player, n_draws: int = 1000, **changed: object) -> Audit:
        target = InProcess(replace(ours, **changed), player)  # type: ignore[arg-type]  # by name
        plan = build_plan(only=cell, n_draws=n_draws, seed=11)
        examined = examine(parse_cell(cell), target, plan)
        return Audit(cell_failures(name_cells([examined], plan)[0]), sum(target.drawn))

    return audit
