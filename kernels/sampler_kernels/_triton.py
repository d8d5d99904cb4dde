"""Where Triton comes from and how a kernel is launched: compiled on a GPU, interpreted without one.

Nothing else in this package imports Triton, so that the choice of the interpreter is made before
Triton is first imported, and every launch has the same floating-point rules.
"""

import os
from collections.abc import Callable
from typing import ParamSpec, Protocol, TypeVar, cast

import numpy as np
import torch

from sampler_kernels._interpreter import language_patched_once

__all__ = [
    "ADD",
    "INTERPRETED",
    "InterpreterUnsupported",
    "describe_device",
    "interpreter_obstacle",
    "jit",
    "launch",
    "launch_obstacle",
    "tl",
]

P = ParamSpec("P")
R = TypeVar("R")

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

_triton_version: str | None
try:
    import triton
    import triton.language as tl

    _triton_version = triton.__version__
except ModuleNotFoundError:  # macOS and Windows have no Triton; the torch twins need none
    from sampler_kernels import _without_triton as tl
    from sampler_kernels import _without_triton as triton

    _triton_version = None

ADD = tl.standard._sum_combine
"""``tl.reduce(x, 0, ADD)`` is ``tl.sum(x, 0)`` without a device function around it, which costs the
interpreter 0.3 ms a call. It matters where a loop does little else."""

INTERPRETED: bool = triton.knobs.runtime.interpret

# Whoever imported Triton before the interpreter was chosen left its own functions to the compiler.
_imported_too_early = INTERPRETED and type(ADD).__name__ == "JITFunction"


class InterpreterUnsupported(RuntimeError):
    """Triton's interpreter cannot run the kernels in this process; the message says what can."""


class _Kernel(Protocol):
    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., object]: ...


def jit(function: Callable[P, R]) -> Callable[P, R]:
    """``triton.jit`` that keeps the annotated signature, since Triton ships no types."""
    return cast(Callable[P, R], triton.jit(function))


def launch(
    kernel: Callable[..., None],
    grid: tuple[int, ...],
    *args: torch.Tensor | int,
    num_warps: int = 8,
    **constexprs: int,
) -> None:
    """Run ``kernel`` on the device of its first argument; an empty grid is nothing to do.

    ``enable_fp_fusion`` is off: a contracted multiply-add rounds once where IEEE rounds twice,
    and the interpreter, the torch twins and every GPU must agree bit for bit.

    Raises:
        InterpreterUnsupported: there is no GPU and this Triton's interpreter cannot run.
    """
    if 0 in grid:
        return
    run = cast(_Kernel, kernel)[grid]
    if not INTERPRETED:
        device = args[0].device if isinstance(args[0], torch.Tensor) else None
        with torch.cuda.device(device):
            run(*args, **constexprs, num_warps=num_warps, enable_fp_fusion=False)
        return
    obstacle = launch_obstacle()
    if obstacle:
        raise InterpreterUnsupported(obstacle)
    # NumPy is the interpreter's arithmetic; a device overflows to infinity without a word.
    with np.errstate(all="ignore"), language_patched_once(tl, tl.core):
        run(*args, **constexprs)


def launch_obstacle() -> str | None:
    """Why no kernel can be launched in this process, known before one is; None if it can."""
    if not INTERPRETED and _triton_version is not None:
        return None
    return interpreter_obstacle(_triton_version, np.__version__, _imported_too_early)


def interpreter_obstacle(
    triton_version: str | None, numpy_version: str, imported_too_early: bool
) -> str | None:
    """Why the interpreter cannot run here, or None."""
    tried = "Triton 3.7.1 to 3.9.0 can"
    if triton_version is None:
        return (
            "the kernels need Triton, which is not installed; install it "
            f"({tried}) or use the torch twins (apply_filters_torch, gumbel_draw_torch)"
        )
    if _release(triton_version) < (3, 7) and _release(numpy_version) >= (2, 4):
        return (
            f"the interpreter of Triton {triton_version} cannot run with NumPy {numpy_version}; "
            f"{tried}, and so can older ones with NumPy below 2.4; or use a GPU"
        )
    if imported_too_early:
        return (
            "Triton was imported before sampler_kernels, without TRITON_INTERPRET=1, so parts of "
            "it are compiled for a GPU that is not here; import sampler_kernels first, or set "
            "TRITON_INTERPRET=1 before Triton is imported"
        )
    return None


def describe_device(device: torch.device | str) -> str:
    """Where kernels on ``device`` run, for reports: ``cpu (Triton 3.9.0 interpreter)``."""
    device = torch.device(device)
    if INTERPRETED:
        return f"{device} (Triton {_triton_version} interpreter)"
    if device.type == "cuda":
        return f"{device} {torch.cuda.get_device_name(device)} (Triton {_triton_version})"
    return f"{device} (Triton {_triton_version}; kernels need a GPU or TRITON_INTERPRET=1)"


def _release(text: str) -> tuple[int, int]:
    major, minor = text.split(".")[:2]
    return int(major), int(minor)
