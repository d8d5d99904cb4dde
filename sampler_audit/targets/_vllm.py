"""vLLM on a machine without a GPU: its real kernels under Triton's interpreter, as CUDA runs them.

Nothing of vLLM is edited on disk, and the choices between its paths stay its own host code's: it
is shown CPU memory under a CUDA label. Runs in the interpreter under audit: nothing of ours.
"""

from __future__ import annotations

import dataclasses
import importlib
import os
import re
import sys
import types
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from ._engine import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import torch

OPS = "vllm.v1.sample.ops"

COMPUTE_UNITS = 1
"""Streaming multiprocessors that vLLM is told of. It then gives a row of the split pipeline one
slice, as full batches of 64 rows get it on GPUs of up to 127 of them; more slices cost the
interpreter as many times more."""


class _Ranged(int):
    """A loop index with the method that compiled loop indices have."""

    def to(self, _dtype: object) -> _Ranged:
        return self


def vllm_version() -> str:
    """``0.32.0`` of whatever distribution brings the package.

    Raises:
        ImportError: there is none.
    """
    return str(importlib.import_module("vllm").__version__)


def choose_interpreter() -> None:
    """Have Triton interpreted in this process, and vLLM enable it; before vLLM is imported.

    Raises:
        Unavailable: this Triton's interpreter cannot run here.
    """
    os.environ["TRITON_INTERPRET"] = "1"
    _require_interpreter()
    _offer_drivers()
    _mend_interpreter()


def _require_interpreter() -> None:
    """Older interpreters mistake NumPy's one-element arrays for scalars, in the engine's midst."""
    import numpy as np
    import triton

    if release(triton.__version__) < (3, 7) and release(np.__version__) >= (2, 4):
        raise Unavailable(
            f"without a GPU the kernel runs in Triton's interpreter, and that of Triton "
            f"{triton.__version__} cannot run with NumPy {np.__version__}; Triton 3.7.1 to 3.9.0 "
            "can, and so can older ones with NumPy below 2.4"
        )


def release(text: str) -> tuple[int, int]:
    """Major and minor of a version; (0, 0) of one that has none, as of a development build."""
    found = re.match(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def import_as_on_cuda(name: str) -> ModuleType:
    """Import a module of OPS; the host code of all that it uses there then decides as on CUDA.

    Raises:
        Unavailable: vLLM does not enable Triton.
    """
    module = importlib.import_module(f"{OPS}.{name}")
    if not importlib.import_module("vllm.triton_utils").HAS_TRITON:
        raise Unavailable(f"vllm {vllm_version()} does not enable Triton in this environment")
    for used in (m for key, m in sys.modules.items() if key.startswith(f"{OPS}.topk_topp")):
        if hasattr(used, "current_platform"):
            vars(used)["current_platform"] = _CudaPlatform(used.current_platform)
        if hasattr(used, "num_compute_units"):
            vars(used)["num_compute_units"] = lambda *_: COMPUTE_UNITS
    return module


def labelled_cuda(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, which says that it is on ``cuda:0`` and stays in CPU memory."""
    import torch

    label = property(lambda _: torch.device("cuda", 0))
    labelled: torch.Tensor = tensor.as_subclass(
        type("Labelled", (torch.Tensor,), {"device": label})
    )
    return labelled


class _CudaPlatform:
    """vLLM's platform object, but on CUDA."""

    def __init__(self, platform: object) -> None:
        self._platform = platform

    def __getattr__(self, name: str) -> Any:
        answers = {"is_cuda": True, "is_cuda_alike": True, "is_cpu": False, "is_rocm": False}
        if name in answers:
            return lambda: answers[name]
        return getattr(self._platform, name)


def _offer_drivers() -> None:
    """Make vLLM enable Triton: one driver is active, and CPU builds find one called cpu."""
    backends = importlib.import_module("triton.backends").backends
    for name, active in (("cpu", False), ("interpreter", True)):
        driver = SimpleNamespace(is_active=lambda _active=active: _active)
        backends.setdefault(name, SimpleNamespace(driver=driver, compiler=None))


def _mend_interpreter() -> None:
    """Three things about Triton's interpreter, in memory.

    ``tl.range`` yields plain ints, which lack the ``.to`` of the compiler's loop indices. Every
    call of a device function patches the whole language again, which takes most of the time; once
    in a launch is enough. And a third of the rest goes into asking whether integers overflow, whose
    answer it drops unless it debugs.
    """
    interpreter = importlib.import_module("triton.runtime.interpreter")
    builder = interpreter.interpreter_builder
    if hasattr(builder.options, "sanitize_overflow"):
        builder.options = dataclasses.replace(builder.options, sanitize_overflow=False)
    language = importlib.import_module("triton.language")
    patch_language = interpreter._patch_lang
    patched: set[int] = set()

    def patch(function: types.FunctionType) -> object:
        if id(function.__globals__) in patched:
            return None
        scope = patch_language(function)
        held = [id(value) for value in function.__globals__.values()]
        for module in (m for m in (language, language.core) if id(m) in held):
            set_attribute = getattr(scope, "set_attr", setattr)
            set_attribute(module, "range", _castable(module.range))
        if hasattr(scope, "restore"):
            patched.add(id(function.__globals__))
            scope.restore = _then(scope.restore, patched.clear)
        return scope

    vars(interpreter)["_patch_lang"] = patch


def _castable(plain: Callable[..., Iterator[int]]) -> Callable[..., Iterator[int]]:
    return lambda *args, **kwargs: map(_Ranged, plain(*args, **kwargs))


def _then(first: Callable[[], None], second: Callable[[], None]) -> Callable[[], None]:
    def both() -> None:
        first()
        second()

    return both
