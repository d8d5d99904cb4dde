"""module:attr: anybody's function ``(logits, k, p) -> masked logits``."""

from __future__ import annotations

import importlib
import os
import sys
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ._engine import Engine, as_tensor, choose_device, device_name, kept_of, top_k_top_p, with_torch

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    import torch
    from numpy.typing import NDArray

    from ._engine import Params

    Tensor = torch.Tensor
    Function = Callable[[Tensor, Tensor | None, Tensor | None], Tensor]

DESCRIPTION = "any function (logits, k, p) -> masked logits, by the name that imports it"
INSTALL = "run where the module can be imported, or name the interpreter with --python PATH"
ANY_PYTHON = True

MASS_ERROR = 2.0**-12
"""For a function that states none: a float32 softmax and cumulative sum of up to 2^18 tokens, in
lanes or blocks of 64, round 2^12 times by 2^-24 in a row."""


def load(options: dict[str, str]) -> FunctionEngine:
    """The function that ``options["target"]`` names; the current folder may hold its module."""
    sys.path.insert(0, os.getcwd())
    module, _, attribute = options["target"].partition(":")
    function = attrgetter(attribute)(importlib.import_module(module))
    if not callable(function):
        raise TypeError(f"{options['target']} is no function but {type(function).__name__}")
    return FunctionEngine(function, options["target"], choose_device(options["device"]))


class FunctionEngine(Engine):
    """Calls the function with ``logits`` float32 ``[batch, vocab_size]`` (the row stride may exceed
    vocab_size, the function may overwrite them), ``k`` int32 ``[batch]`` (vocab_size where off) and
    ``p`` float32 ``[batch]`` (1 where off); None for a filter that no row of the batch uses.

    Its attribute ``sampler_audit_convention`` names the convention that it declares; without it,
    exactly k tokens stay and among equal logits the lowest ids ("sampler-audit"). The attribute
    ``sampler_audit_mass_error`` bounds the error of its cumulative probabilities.
    """  # noqa: D205 - one sentence

    def __init__(self, function: Function, name: str, device: str) -> None:
        self._function = function
        self._name = name
        self._device = device

    def info(self) -> dict[str, Any]:
        """See ``_engine.Engine``."""
        return {
            "engine": with_torch(self._name),
            "device": device_name(self._device),
            "path": "the function itself",
            "convention": getattr(self._function, "sampler_audit_convention", "sampler-audit"),
            "draws": False,
            "mass_error": getattr(self._function, "sampler_audit_mass_error", MASS_ERROR),
        }

    def kept(self, logits: NDArray[np.float32], params: Params) -> NDArray[np.bool_]:
        """See ``_engine.Engine``."""
        k, p = top_k_top_p(params, logits.shape[1], self._device)
        masked = self._function(as_tensor(logits, self._device), k, p)
        _check_masked(masked, list(logits.shape))
        return kept_of(masked)

    def draw(self, *_: object) -> NDArray[np.int64]:
        """Nothing is drawn: a function only masks."""
        raise NotImplementedError(f"{self._name} masks logits and draws nothing")


def _check_masked(masked: object, shape: list[int]) -> None:
    """Not a mask, whose False would be above -inf like its True, and not something else."""
    import torch

    if isinstance(masked, torch.Tensor):
        if masked.is_floating_point() and list(masked.shape) == shape:
            return
        got = f"{masked.dtype} {list(masked.shape)}"
    else:
        got = type(masked).__name__
    raise TypeError(f"expected logits, a float tensor {shape} with -inf where masked, got {got}")
