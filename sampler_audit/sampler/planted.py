"""The sampler with one planted defect, so that a check can prove that it would be found."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from sampler_audit.sampler.pipeline import Path, Sampler
from sampler_reference.conventions import CONVENTIONS, Conventions
from sampler_reference.defects import Defect
from sampler_reference.noise import uniforms
from sampler_scenarios.params import Combo, SamplingParams

_BATCH_SIZE_PATH = 8
_NOISE_CHUNK = 1 << 20


class PlantedSampler(Sampler):
    """A Sampler that is wrong in the way of ``defect``, in rows where all filters of ``when`` are
    on. Law defects draw from the wrong law itself; the others change one step of the pipeline.
    """  # noqa: D205 - one sentence

    def __init__(
        self,
        path: Path,
        defect: Defect,
        when: Combo = (),
        conventions: Conventions = CONVENTIONS["sampler-audit"],
    ) -> None:
        super().__init__(path, conventions)
        self._defect = defect
        self._when = frozenset(when)
        self._chance = np.random.default_rng(20261130)

    def filter(self, logits: torch.Tensor, params: Sequence[SamplingParams]) -> torch.Tensor:
        """See ``Sampler.filter``; a law defect yields the logarithms of its law."""
        acting = [self._acts_on(p) for p in params]
        asked = list(params)
        if self._defect.name == "neighbour-k":
            neighbours = [*params[1:], params[0]]
            asked = [
                replace(own, top_k=next_.top_k) if acts else own
                for own, next_, acts in zip(params, neighbours, acting, strict=True)
            ]
        if self._defect.name == "stride-ignored":
            logits = torch.as_strided(logits, logits.shape, (logits.shape[1], 1))
        masked = self._filter(logits, asked)
        if self._defect.name == "batch-size-path" and len(params) >= _BATCH_SIZE_PATH:
            where = torch.tensor(acting, device=logits.device)[:, None]
            masked = torch.where(where, self._filter(logits, asked, "keep_all"), masked)
        if self._defect.name == "ties-by-chance":
            for index in np.flatnonzero(acting).tolist():
                self._shuffle_ties(masked[index], logits[index])
        elif self._defect.law is not None:
            for index in np.flatnonzero(acting).tolist():
                masked[index] = self._log_law(logits[index], params[index])
        return masked

    def _shuffle_ties(self, masked: torch.Tensor, logits: torch.Tensor) -> None:
        """Let other members of the tied group at the edge survive, on each call other ones."""
        kept = masked > -torch.inf
        if not kept.any():
            return
        edge = logits[kept].min()
        group = torch.nonzero(logits == edge).flatten()
        survivors = masked[group].max()
        n_wanted = int((masked[group] > -torch.inf).sum())
        chosen = torch.from_numpy(self._chance.permutation(group.cpu().numpy())[:n_wanted])
        masked[group] = -torch.inf
        masked[chosen.to(masked.device)] = survivors

    def _acts_on(self, params: SamplingParams) -> bool:
        return self._when <= set(params.combo)

    def _log_law(self, logits: torch.Tensor, params: SamplingParams) -> torch.Tensor:
        assert self._defect.law is not None
        law = self._defect.law(logits.cpu().numpy(), params, self._conventions)
        return torch.from_numpy(law).log().float().to(logits.device)

    def draw_row(
        self,
        row: torch.Tensor,
        params: SamplingParams,
        seeds: torch.Tensor,
        positions: torch.Tensor,
    ) -> torch.Tensor:
        """See ``Sampler.draw_row``."""
        name = self._defect.name if self._acts_on(params) else "none"
        if name == "outside-vocabulary":
            drawn = super().draw_row(row, params, seeds, positions)
            drawn[::16] = row.numel()
            return drawn
        if name == "masked-row-draws-first-id":
            return super().draw_row(row, params, seeds, positions).clamp(min=0)
        if name == "first-row-seed":
            seeds = seeds[:1].expand_as(seeds)
        elif name == "fixed-seed":
            seeds = torch.zeros_like(seeds)
        elif name == "position-ignored":
            positions = torch.zeros_like(positions)
        elif name == "noise-by-rank":
            values, token_ids = row.sort(descending=True, stable=True)
            ranks = super().draw_row(values, params, seeds, positions)
            return torch.where(ranks < 0, ranks, token_ids[ranks])
        elif name in ("noise-24-bit", "uniform-reaches-one"):
            tokens = _race(row.cpu().numpy(), seeds.cpu().numpy(), positions.cpu().numpy(), name)
            return torch.from_numpy(tokens).to(row.device)
        return super().draw_row(row, params, seeds, positions)


def _race(
    row: NDArray[np.float32], seeds: NDArray[np.int64], positions: NDArray[np.int64], defect: str
) -> NDArray[np.int64]:
    """The tokens that win when the uniforms of the noise are ``_worsened``, ``[n]``."""
    ids = np.flatnonzero(row > -np.inf)
    tokens = np.full(seeds.size, -1, np.int64)
    if not ids.size:
        return tokens
    z = row[ids].astype(np.float64)
    step = max(1, _NOISE_CHUNK // ids.size)
    for start in range(0, seeds.size, step):
        part = slice(start, start + step)
        u = _worsened(uniforms(seeds[part], positions[part], ids), defect)
        with np.errstate(divide="ignore"):
            arrival = np.log(-np.log1p(-u)) + (z.max() - z)
        tokens[part] = ids[arrival.argmin(axis=1)]
    return tokens


def _worsened(u: NDArray[np.float64], defect: str) -> NDArray[np.float64]:
    if defect == "noise-24-bit":
        return (np.floor(u * 2**24) + 0.5) / 2**24
    # 1 - u, rounded to float32, is 1 here: the token arrives at time 0 and wins.
    return np.where(u < 2.0**-25, 0.0, u)
