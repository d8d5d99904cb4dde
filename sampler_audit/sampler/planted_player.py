"""The player with one planted defect, wherever in the sampler it sits."""

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

import sampler_kernels as kernels
from sampler_audit.sampler.log_probs import TokenLogProbs
from sampler_audit.sampler.pipeline import Path
from sampler_audit.sampler.planted import PlantedSampler
from sampler_audit.sampler.planted_state import MISLED
from sampler_audit.sampler.planted_verify import WRONG_REDRAWS, verify_wrongly
from sampler_audit.sampler.player import Player
from sampler_audit.sampler.step import Step
from sampler_reference.conventions import CONVENTIONS, Conventions
from sampler_reference.defects import Defect
from sampler_reference.processors import process
from sampler_scenarios.batches import Batch
from sampler_scenarios.params import Combo, SamplingParams


class PlantedPlayer(Player):
    """A Player that is wrong in the way of ``defect``, for requests in which all filters and stages
    of ``when`` are on.

    Defects of the law or of the processing yield the wrong row itself; those of the state show the
    sampler other requests than it was given; the others change one step of the way.
    """  # noqa: D205 - one sentence

    def __init__(
        self,
        path: Path,
        defect: Defect,
        when: Combo = (),
        conventions: Conventions = CONVENTIONS["sampler-audit"],
    ) -> None:
        super().__init__(path, conventions)
        if defect.name == "log-probs-after-temperature":
            self._log_probs_mode = "processed_logprobs"
        self._defect = defect
        self._when = frozenset(when)
        self._right = self._pipeline
        self._pipeline = PlantedSampler(path, defect, conventions=conventions)
        self._chance = np.random.default_rng(20261130)

    def processed(self, logits: torch.Tensor, batch: Batch) -> torch.Tensor:
        """See ``Player.processed``."""
        acting = self._acting(batch)
        misled = MISLED.get(self._defect.name)
        shown = batch if misled is None else misled(batch, tuple(acting))
        x = super().processed(logits, shown)
        if self._defect.process is not None:
            x, own = x.clone(), self._conventions
            spared = self._defect.name == "grammar-skipped-at-drafts"
            for i in np.flatnonzero(acting).tolist():
                if spared and not batch.owners[i][1]:
                    continue
                row = logits[i].cpu().numpy()
                wrong = self._defect.process(row, batch.rows[i], batch.model, own)
                x[i] = torch.from_numpy(wrong)
        if self._defect.name == "drafts-not-counted" and batch.drafts:
            alone = [i for i, (_, after) in enumerate(batch.owners) if after and acting[i]]
            x = x.clone()
            for i in alone:
                request = batch.requests[batch.owners[i][0]]
                row = logits[i].cpu().numpy()
                right = process(row, request, batch.model, self._conventions)
                x[i] = torch.from_numpy(right)
        if self._defect.name == "nan-poisons-neighbours":
            poisoned = x.isnan().all(1).roll(1) & torch.tensor(acting, device=x.device)
            x = x.masked_fill(poisoned[:, None], torch.nan)
        return x

    def filtered(self, logits: torch.Tensor, batch: Batch) -> torch.Tensor:
        """See ``Player.filtered``; a wrong law that only draws can show sits behind it."""
        behind = self._defect.law is not None and self._defect.found_by == "histogram"
        return (super().filtered if behind else self.drawn_from)(logits, batch)

    def drawn_from(self, logits: torch.Tensor, batch: Batch) -> torch.Tensor:
        """See ``Player.drawn_from``."""
        x, params, acting = self.processed(logits, batch), batch.params, self._acting(batch)
        wrong = self._pipeline.filter(x, self._unfiltered(batch))
        if all(acting):
            return wrong
        where = torch.tensor(acting, device=x.device)[:, None]
        return torch.where(where, wrong, self._right.filter(x, params))

    def step(self, logits: torch.Tensor, batch: Batch, seeds: NDArray[np.int64]) -> Step:
        """See ``Player.step``."""
        name = self._defect.name
        if name == "seed-by-row":
            seeds = seeds + np.arange(seeds.size)
        elif name == "seed-by-batch-position":
            seeds = np.roll(seeds, 1)
        step = super().step(logits, batch, seeds)
        if name == "sampled-log-prob-lost":
            lost = tuple(each and (_masked_first(each[0]), *each[1:]) for each in step.log_probs)
            return replace(step, log_probs=lost)
        if name == "log-probs-of-another-row":
            return replace(step, log_probs=(*step.log_probs[1:], *step.log_probs[:1]))
        if name == "rank-under-ties":
            listed = tuple(
                each and (_best_ranks(each[0], logits[i]), *each[1:])
                for i, each in enumerate(step.log_probs)
            )
            return replace(step, log_probs=listed)
        return step

    def draw_filtered(
        self, masked: torch.Tensor, batch: Batch, seeds: torch.Tensor, positions: torch.Tensor
    ) -> torch.Tensor:
        """See ``Player.draw_filtered``."""
        if self._acting(batch)[batch.index]:
            if self._defect.name == "seed-lost-in-mixed-batch" and _has_unseeded_mate(batch):
                seeds = torch.from_numpy(self._chance.integers(2**63, size=len(seeds)))
                seeds = seeds.to(masked.device)
            return super().draw_filtered(masked, batch, seeds, positions)
        planted, self._pipeline = self._pipeline, self._right
        try:
            return super().draw_filtered(masked, batch, seeds, positions)
        finally:
            self._pipeline = planted

    def verify_filtered(
        self, masked: torch.Tensor, batch: Batch, seeds: torch.Tensor, positions: torch.Tensor
    ) -> kernels.Verified:
        """See ``Player.verify_filtered``."""
        verified = super().verify_filtered(masked, batch, seeds, positions)
        greedy = batch.params[batch.index].temperature == 0
        if (
            self._defect.name == "greedy-as-position"
            and greedy
            and self._acting(batch)[batch.index]
        ):
            return verified._replace(token_ids=verified.token_ids.clamp(max=0))
        return verified

    def _verified(
        self,
        rows: torch.Tensor,
        batch: Batch,
        seeds: torch.Tensor,
        positions: torch.Tensor,
    ) -> kernels.Verified:
        if self._defect.name not in WRONG_REDRAWS or batch.draft_logits is None:
            return super()._verified(rows, batch, seeds, positions)
        return verify_wrongly(self._defect.name, rows, batch.draft_logits, seeds, positions)

    def _acting(self, batch: Batch) -> list[bool]:
        """For each row whether the defect acts there."""
        return [self._when <= set(request.combo) for request in batch.rows]

    def _unfiltered(self, batch: Batch) -> list[SamplingParams]:
        """The parameters of every row, without filters where the defect leaves them out."""
        drafts = batch.drafts or ((),) * len(batch.requests)
        bonus = [len(drafts[owner]) == after for owner, after in batch.owners]
        skipped = {
            "bonus-unfiltered": [
                last and len(drafts[owner]) > 0
                for last, (owner, _) in zip(bonus, batch.owners, strict=True)
            ],
            "filter-skipped-at-drafts": [not last for last in bonus],
        }.get(self._defect.name, [False] * len(bonus))
        return [
            SamplingParams(temperature=own.temperature) if skip else own
            for own, skip in zip(batch.params, skipped, strict=True)
        ]


def _has_unseeded_mate(batch: Batch) -> bool:
    owner = batch.owners[batch.index][0]
    return any(mate.params.seed is None for i, mate in enumerate(batch.requests) if i != owner)


def _masked_first(listed: TokenLogProbs) -> TokenLogProbs:
    """The first token's value is the lowest float32."""
    values = listed.values.copy()
    values[0] = np.finfo(np.float32).min
    return replace(listed, values=values)


def _best_ranks(listed: TokenLogProbs, row: torch.Tensor) -> TokenLogProbs:
    """The best rank of tied tokens for each of them."""
    above = row[None, :] > row[torch.from_numpy(listed.token_ids)][:, None]
    return replace(listed, ranks=above.sum(1).cpu().numpy() + 1)
