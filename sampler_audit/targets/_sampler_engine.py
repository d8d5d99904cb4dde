"""The built-in sampler as an engine: what builtin.py and torch.py share. Needs our interpreter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sampler_audit import version
from sampler_audit.sampler import PlantedSampler, Sampler
from sampler_kernels import describe_device, launch_obstacle, mass_error
from sampler_reference.defects import DEFECTS
from sampler_scenarios.params import SamplingParams, make_combo

from ._engine import Unavailable, as_tensor, choose_device, device_name, kept_of, with_torch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sampler_audit.sampler.pipeline import Path

    from ._engine import Params


class SamplerEngine:
    """The built-in sampler with one path for the kept set, one for bulk draws, and one for the few
    draws that are asked of the kernel.

    Options: ``defect`` plants one by name, in rows where the filters of ``when`` (joined by +)
    are on.
    """  # noqa: D205 - one sentence

    def __init__(self, options: dict[str, str], path: Path, description: str) -> None:
        self._device = choose_device(options["device"])
        obstacle = launch_obstacle() if path == "kernel" else None
        if obstacle:
            raise Unavailable(obstacle)
        self._path = path
        self._description = description
        self._by_path = {p: _sampler(p, options) for p in {path, "twin"}}

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
        }

    def kept(self, logits: NDArray[np.float32], params: Params) -> NDArray[np.bool_]:
        """See ``_engine.Engine``."""
        rows = as_tensor(logits, self._device)
        return kept_of(self._by_path[self._path].filter(rows, _sampling_params(params)))

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
                _sampling_params(params),
                index,
                torch.from_numpy(seeds).to(self._device),
                torch.from_numpy(positions).to(self._device),
            )
            .cpu()
            .numpy()
        )
        return tokens


def _sampler(path: Path, options: dict[str, str]) -> Sampler:
    if "defect" not in options:
        return Sampler(path)
    when = make_combo(name for name in options.get("when", "").split("+") if name)
    return PlantedSampler(path, DEFECTS[options["defect"]], when)


def _sampling_params(params: Params) -> list[SamplingParams]:
    return [
        SamplingParams(temperature=float(t), top_k=int(k), top_p=float(p), min_p=float(m))
        for t, k, p, m in zip(
            params["temperature"], params["top_k"], params["top_p"], params["min_p"], strict=True
        )
    ]
