"""The built-in sampler as an engine: what builtin.py and torch.py share. Needs our interpreter."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sampler_audit import version
from sampler_audit.sampler import PlantedPlayer, Player
from sampler_kernels import describe_device, launch_obstacle, mass_error
from sampler_reference.defects import DEFECTS
from sampler_scenarios.batches import Batch, plain_batch
from sampler_scenarios.params import STAGES, SamplingParams, make_combo
from sampler_scenarios.scenes import from_scene

from ._engine import Engine, Unavailable, as_tensor, choose_device, device_name, with_torch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sampler_audit.sampler.pipeline import Path

    from ._engine import Params


class SamplerEngine(Engine):
    """The built-in sampler with one path for the kept set, one for bulk draws, and one for the few
    draws that are asked of the kernel.

    Options: ``defect`` plants one by name, in rows where the filters and stages of ``when`` (joined
    by +) are on.
    """  # noqa: D205 - one sentence

    def __init__(self, options: dict[str, str], path: Path, description: str) -> None:
        self._device = choose_device(options["device"])
        obstacle = launch_obstacle() if path == "kernel" else None
        if obstacle:
            raise Unavailable(obstacle)
        self._path = path
        self._description = description
        self._by_path = {p: _player(p, options) for p in {path, "twin"}}
        self._scene: tuple[Mapping[str, Any], Params] | None = None

    def info(self) -> dict[str, Any]:
        """See ``_engine.Engine``."""
        kernels = self._path == "kernel"
        return {
            "engine": with_torch(f"sampler-audit {version()}"),
            "device": describe_device(self._device) if kernels else device_name(self._device),
            "path": self._description,
            "convention": "sampler-audit",
            "draws": True,
            "own_noise": True,
            "mass_error": mass_error(2**18),
            "special_values": True,
            "stages": STAGES,
            "stateful": True,
            "verifies_drafts": True,
            "logits_error": 0.0,
        }

    def within(self, scene: Mapping[str, Any], arrays: Params) -> Engine:
        """See ``_engine.Engine``."""
        engine = copy(self)
        engine._scene = scene, arrays
        return engine

    def kept(self, logits: NDArray[np.float32], params: Params) -> NDArray[np.bool_]:
        """See ``_engine.Engine``."""
        return self.filtered(logits, params) > -np.inf

    def filtered(self, logits: NDArray[np.float32], params: Params) -> NDArray[np.float32]:
        """See ``_engine.Engine``."""
        rows, batch = as_tensor(logits, self._device), self._batch(logits, params, 0)
        filtered: NDArray[np.float32] = (
            self._by_path[self._path].filtered(rows, batch).cpu().numpy()
        )
        return filtered

    def draw(
        self,
        logits: NDArray[np.float32],
        params: Params,
        index: int,
        seeds: NDArray[np.int64],
        positions: NDArray[np.int64],
        kernel: bool,
    ) -> NDArray[np.int64]:
        """See ``_engine.Engine``."""
        tokens: NDArray[np.int64] = (
            self._by_path[self._path if kernel else "twin"]
            .draw(
                as_tensor(logits, self._device),
                self._batch(logits, params, index),
                torch.from_numpy(seeds).to(self._device),
                torch.from_numpy(positions).to(self._device),
            )
            .cpu()
            .numpy()
        )
        return tokens

    def step(
        self, logits: NDArray[np.float32], params: Params, index: int, seeds: NDArray[np.int64]
    ) -> dict[str, NDArray[Any]]:
        """See ``_engine.Engine``."""
        rows, batch = as_tensor(logits, self._device), self._batch(logits, params, index)
        step = self._by_path[self._path].step(rows, batch, seeds)
        first = [None if listed is None else listed[0] for listed in step.log_probs]
        listed = [each for each in first if each is not None]
        return {
            "token_ids": np.array([tokens[0] for tokens in step.token_ids], np.int64),
            "n_listed": np.array([-1 if e is None else e.token_ids.size for e in first], np.int64),
            "listed_ids": np.concatenate([[], *(e.token_ids for e in listed)]).astype(np.int64),
            "listed_values": np.concatenate([[], *(e.values for e in listed)]).astype(np.float32),
            "listed_ranks": np.concatenate([[], *(e.ranks for e in listed)]).astype(np.int64),
        }

    def _batch(self, logits: NDArray[np.float32], params: Params, index: int) -> Batch:
        if self._scene is None:
            return plain_batch(logits, _sampling_params(params), index)
        return from_scene(logits, *self._scene)


def _player(path: Path, options: dict[str, str]) -> Player:
    if "defect" not in options:
        return Player(path)
    when = make_combo(name for name in options.get("when", "").split("+") if name)
    return PlantedPlayer(path, DEFECTS[options["defect"]], when)


def _sampling_params(params: Params) -> list[SamplingParams]:
    return [
        SamplingParams(temperature=float(t), top_k=int(k), top_p=float(p), min_p=float(m))
        for t, k, p, m in zip(
            params["temperature"], params["top_k"], params["top_p"], params["min_p"], strict=True
        )
    ]
