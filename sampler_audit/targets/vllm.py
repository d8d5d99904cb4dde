"""vllm: the Triton top-k/top-p kernel of whatever vLLM is installed."""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

from ._engine import Engine, as_tensor, choose_device, device_name, kept_of, top_k_top_p, with_torch
from ._vllm import OPS, choose_interpreter, import_as_on_cuda, labelled_cuda, release, vllm_version

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    import torch
    from numpy.typing import NDArray

    from ._engine import Params

DESCRIPTION = "vLLM's Triton top-k/top-p kernel; without a GPU under Triton's interpreter"
INSTALL = "pip install vllm, or name the interpreter that has it with --python PATH"
ANY_PYTHON = True

MASS_ERROR = 2.0**-15
"""Bound on the error of a cumulative probability, a quotient of two float32 sums, in units of
2^-24 for each: a weight exp(d) costs |d| for rounding d, as much again inside exp, and 4; d is at
most 88 before exp leaves float32. A tile of 8192 adds 40 (32 in a thread, 8 across), and the tiles
of the largest vocabulary, 2^18, 32. Together 252, twice, which is 2^-15."""


def load(options: dict[str, str]) -> VllmEngine:
    """The function through which the installed release's sampler filters."""
    return VllmEngine(choose_device(options["device"]))


def _path(gpu: bool) -> str:
    """What is audited, and whether this installation would take it by itself."""
    found = "is" if importlib.util.find_spec("flashinfer") else "is not"
    if gpu:
        return (
            f"Triton kernel; FlashInfer {found} installed here, and where it is vLLM takes it"
            " instead for batches without seeds, greedy rows or processed logprobs"
        )
    return (
        "Triton kernel as dispatched on CUDA (tiles, split pipeline with one slice a row),"
        " interpreted; without a GPU this installation would itself take the PyTorch path"
    )


class VllmEngine(Engine):
    """Calls the release's own dispatcher: which of its paths takes a batch is its decision."""

    def __init__(self, device: str) -> None:
        self._device = device
        if device == "cpu":
            choose_interpreter()
        self._version = vllm_version()
        # A development build says 0.1.dev or the like, and is newer than any release.
        minor = release(self._version)
        if minor < (0, 10):
            minor = (99, 0)
        # Since 0.30 the sampler calls the Triton function at every batch size; before, PyTorch
        # took the small batches, and which ones is written in a module that imports all of vLLM.
        name = "topk_topp_triton" if minor >= (0, 30) else "topk_topp_sampler"
        function = "apply_top_k_top_p_triton" if minor >= (0, 30) else "apply_top_k_top_p"
        if device == "cuda":
            module = importlib.import_module(f"{OPS}.{name}")
        else:
            module = import_as_on_cuda(name)
        self._filter: Callable[..., torch.Tensor] = getattr(module, function)

    def info(self) -> dict[str, Any]:
        """See ``_engine.Engine``."""
        import triton

        gpu = self._device == "cuda"
        return {
            "engine": with_torch(f"vllm {self._version}"),
            "device": device_name(self._device)
            if gpu
            else f"cpu (Triton {triton.__version__} interpreter)",
            "path": _path(gpu),
            "convention": "vllm-triton",
            "draws": False,
            "mass_error": MASS_ERROR,
            "slow": not gpu,
        }

    def kept(self, logits: NDArray[np.float32], params: Params) -> NDArray[np.bool_]:
        """See ``_engine.Engine``."""
        k, p = top_k_top_p(params, logits.shape[1], self._device)
        rows = as_tensor(logits, self._device)
        if self._device == "cpu":
            rows = labelled_cuda(rows)
        return kept_of(self._filter(rows, k, p))

    def draw(self, *_: object) -> NDArray[np.int64]:
        """Nothing is drawn: the kernel only masks."""
        raise NotImplementedError("vllm masks logits and draws nothing")
