"""Player: a batch, with the steps before it, played on the batched sampler.

The one place that knows both how scenarios describe a batch and how the sampler is driven.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

import sampler_kernels as kernels
from sampler_audit.draws import NOT_REACHED
from sampler_audit.sampler.admission import Limits
from sampler_audit.sampler.batched import BatchedSampler
from sampler_audit.sampler.log_probs import LogProbsMode
from sampler_audit.sampler.pipeline import Path, Sampler
from sampler_audit.sampler.processors.examples.dry import Dry
from sampler_audit.sampler.step import Step
from sampler_reference.conventions import CONVENTIONS, Conventions
from sampler_scenarios.batches import Batch
from sampler_scenarios.requests import Request

_LIMITS = Limits(max_logprobs=-1)
_ROOM = 8
"""Tokens that may follow the longest request of a batch."""


class Player:
    """Every question is answered by a fresh sampler that has been through the batch's past.

    ``logits`` are those of the batch, as a tensor: ``[n_rows, vocab_size]``, any row stride.
    """

    def __init__(self, path: Path, conventions: Conventions = CONVENTIONS["sampler-audit"]) -> None:
        self._path = path
        self._conventions = conventions
        self._log_probs_mode: LogProbsMode = "raw_logprobs"
        self._pipeline = Sampler(path, conventions)
        self._verify = kernels.verify_drafts if path == "kernel" else kernels.verify_drafts_torch
        self._race = kernels.gumbel_draw if path == "kernel" else kernels.gumbel_draw_torch

    def processed(self, logits: torch.Tensor, batch: Batch) -> torch.Tensor:
        """What reaches temperature and the filters, float32 ``[n_rows, vocab_size]``."""
        sampler, slots = self._play(logits, batch)
        return sampler.process(logits, slots, batch.drafts, grammar=_grammar(batch))

    def filtered(self, logits: torch.Tensor, batch: Batch) -> torch.Tensor:
        """What is drawn from, float32 ``[n_rows, vocab_size]``: -inf where filtered out."""
        sampler, slots = self._play(logits, batch)
        return sampler.filter(logits, slots, batch.drafts, grammar=_grammar(batch))

    def drawn_from(self, logits: torch.Tensor, batch: Batch) -> torch.Tensor:
        """What draws work on: ``filtered``, unless a planted defect sits in between."""
        return self.filtered(logits, batch)

    def step(self, logits: torch.Tensor, batch: Batch, seeds: NDArray[np.int64]) -> Step:
        """One step in which request i has ``seeds[i]``; drafts count as certain."""
        requests = tuple(
            replace(request, params=replace(request.params, seed=seed))
            for request, seed in zip(batch.requests, seeds.tolist(), strict=True)
        )
        sampler, slots = self._play(logits, replace(batch, requests=requests))
        return sampler.step(logits, slots, batch.drafts, grammar=_grammar(batch))

    def draw(
        self, logits: torch.Tensor, batch: Batch, seeds: torch.Tensor, positions: torch.Tensor
    ) -> torch.Tensor:
        """See ``Target.draw``; ``seeds`` and ``positions`` are int64 ``[n]``."""
        return self.draw_filtered(self.drawn_from(logits, batch), batch, seeds, positions)

    def draw_filtered(
        self, masked: torch.Tensor, batch: Batch, seeds: torch.Tensor, positions: torch.Tensor
    ) -> torch.Tensor:
        """``draw`` from what ``drawn_from`` gave of a batch that differs at most in ``index``."""
        owner, after = batch.owners[batch.index]
        if not batch.drafts or not batch.drafts[owner]:
            params = batch.params[batch.index]
            return self._pipeline.draw_row(masked[batch.index], params, seeds, positions)
        verified = self.verify_filtered(masked, batch, seeds, positions)
        drawn = verified.token_ids[:, after]
        return drawn.masked_fill(verified.n_accepted < after, NOT_REACHED)

    def verify_filtered(
        self, masked: torch.Tensor, batch: Batch, seeds: torch.Tensor, positions: torch.Tensor
    ) -> kernels.Verified:
        """The verification of the audited request's drafts, arguments as in ``draw_filtered``."""
        owner, after = batch.owners[batch.index]
        first = batch.index - after
        rows = masked[first : first + len(batch.drafts[owner]) + 1]
        return self._verified(rows, batch, seeds, positions)

    def _verified(
        self,
        rows: torch.Tensor,
        batch: Batch,
        seeds: torch.Tensor,
        positions: torch.Tensor,
    ) -> kernels.Verified:
        """The verification of the drafts on the rows of their request."""
        drafts = batch.drafts[batch.owners[batch.index][0]]
        n, n_drafts = len(seeds), len(drafts)
        token_ids = torch.tensor([drafts], dtype=torch.int32, device=rows.device).expand(n, -1)
        logits = None
        if batch.draft_logits is not None:
            own = torch.from_numpy(batch.draft_logits).to(rows.device)
            logits = own[None].expand(n, -1, -1)
            token_ids = torch.stack(
                [
                    self._race(
                        own[j : j + 1],
                        seeds,
                        positions + j,
                        torch.zeros_like(seeds),
                        domain=kernels.DRAFT_DOMAIN,
                    )
                    for j in range(n_drafts)
                ],
                1,
            ).int()
        starts = torch.arange(n + 1, device=rows.device) * (n_drafts + 1)
        return self._verify(
            rows.repeat(n, 1), token_ids.contiguous(), logits, starts, seeds, positions
        )

    def _play(self, logits: torch.Tensor, batch: Batch) -> tuple[BatchedSampler, list[int]]:
        """A sampler in which the past has happened, and the slots of the batch's requests."""
        everyone = (*batch.requests, *batch.leavers)
        longest = max(len(request.token_ids) for request in everyone)
        needs_dry = any(request.params.extra_args for request in everyone)
        sampler = BatchedSampler(
            replace(batch.model, max_model_len=longest + _ROOM),
            path=self._path,
            conventions=self._conventions,
            limits=_LIMITS,
            processors=(Dry,) if needs_dry else (),
            rng=np.random.default_rng(0),
            max_requests=len(everyone),
            max_drafts=max(map(len, batch.drafts), default=0),
            log_probs_mode=self._log_probs_mode,
            device=logits.device,
        )
        slots: dict[int, int] = {}
        steps_left = Counter(i for order in batch.past for i in order)
        for order in batch.past:
            _admit(sampler, slots, order, everyone, steps_left)
            if order is batch.past[-1]:
                # What earlier steps leave behind is in the slots already: one step shows it.
                sampler.process(logits[[0] * len(order)], [slots[i] for i in order])
            for i in order:
                output = everyone[i].output_token_ids
                sampler.commit(slots[i], [output[len(output) - steps_left[i]]])
                steps_left[i] -= 1
        _admit(sampler, slots, range(len(batch.requests)), everyone, steps_left)
        return sampler, [slots[i] for i in range(len(batch.requests))]


def _admit(
    sampler: BatchedSampler,
    slots: dict[int, int],
    order: Sequence[int],
    everyone: Sequence[Request],
    steps_left: Counter[int],
) -> None:
    """Remove whoever is not in this step, then add whoever is new to it."""
    for gone in set(slots) - set(order):
        sampler.remove(slots.pop(gone))
    for i in order:
        if i not in slots:
            output = everyone[i].output_token_ids
            emitted = output[: len(output) - steps_left[i]]
            slots[i] = sampler.add(replace(everyone[i], output_token_ids=emitted))


def _grammar(batch: Batch) -> list[NDArray[np.bool_] | None]:
    return [request.grammar for request in batch.rows]
