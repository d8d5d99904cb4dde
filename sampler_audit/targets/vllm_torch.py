"""vllm_torch: the PyTorch path of vLLM's top-k/top-p, a sort and a running sum."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._engine import Engine, as_tensor, choose_device, device_name, kept_of, top_k_top_p, with_torch
from ._vllm import OPS, vllm_version

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    import torch
    from numpy.typing import NDArray

    from ._engine import Params

DESCRIPTION = "the PyTorch path of vLLM's top-k/top-p, which its CPU builds take"
INSTALL = "pip install vllm, or name the interpreter that has it with --python PATH"
ANY_PYTHON = True

MASS_ERROR = 2.0**-12
"""Bound on the error of a cumulative probability, from the sum that softmax divides by: the CPU
adds float32 in 8 lanes, V / 8 additions of relative error 2^-24 each, which is 2^-12 at V = 2^15.
The nucleus is cut where the mass below it exceeds 1 - p, so beyond that the bound holds for
p >= 1 - 2^15 / V. exp (1 ulp) and the running sum (float64 on a CPU, in blocks on a GPU) are
less."""


def load(options: dict[str, str]) -> VllmTorchEngine:
    """The function of the installed release."""
    return VllmTorchEngine(choose_device(options["device"]))


class VllmTorchEngine(Engine):
    """Calls ``apply_top_k_top_p_pytorch``, or what releases up to 0.15 called ``_top_p``."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._version = vllm_version()
        module = importlib.import_module(f"{OPS}.topk_topp_sampler")
        self._filter: Callable[..., torch.Tensor] = getattr(
            module, "apply_top_k_top_p_pytorch", module.apply_top_k_top_p
        )
        # A CPU build lets it read the device, and then takes a shorter way for top_k alone.
        sync = "allow_cpu_sync" in self._filter.__code__.co_varnames
        self._extra = {"allow_cpu_sync": device == "cpu"} if sync else {}

    def info(self) -> dict[str, Any]:
        """See ``_engine.Engine``."""
        by_itself = (
            "CUDA builds take FlashInfer or the Triton kernel instead"
            if self._device == "cuda"
            else "this installation takes it by itself where Triton has no CPU backend"
        )
        return {
            "engine": with_torch(f"vllm {self._version}"),
            "device": device_name(self._device),
            "path": f"PyTorch path; {by_itself}",
            "convention": "vllm-pytorch",
            "draws": False,
            "mass_error": MASS_ERROR,
        }

    def kept(self, logits: NDArray[np.float32], params: Params) -> NDArray[np.bool_]:
        """See ``_engine.Engine``."""
        k, p = top_k_top_p(params, logits.shape[1], self._device)
        return kept_of(self._filter(as_tensor(logits, self._device), k, p, **self._extra))

    def draw(self, *_: object) -> NDArray[np.int64]:
        """Nothing is drawn: the function only masks."""
        raise NotImplementedError("vllm_torch masks logits and draws nothing")
