"""How the package finds its Triton, each in a fresh process or from version numbers."""

import os
import subprocess
import sys

import pytest

from sampler_kernels import describe_device
from sampler_kernels._triton import interpreter_obstacle

CPU_ONLY = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}


def _run(code: str, **environment: str) -> str:
    env = {k: v for k, v in CPU_ONLY.items() if k != "TRITON_INTERPRET"} | environment
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def test_interpreter_is_chosen_without_a_gpu() -> None:
    """Nobody has to set a variable; an explicit 0 is respected."""
    code = "import sampler_kernels; print(sampler_kernels.INTERPRETED)"
    assert _run(code) == "True\n"
    assert _run(code, TRITON_INTERPRET="0") == "False\n"


@pytest.mark.parametrize("then", ["", "os.environ['TRITON_INTERPRET'] = '1'"])
def test_triton_imported_too_early_is_said(then: str) -> None:
    """A half-compiled Triton is refused at the first launch, also if the variable is set later."""
    code = (
        f"import os, triton\n{then}\n"
        "import torch, sampler_kernels as s\n"
        "try: s.apply_filters(torch.zeros(1, 4))\n"
        "except s.InterpreterUnsupported as error: print(error)"
    )
    assert "import sampler_kernels first" in _run(code)


def test_twins_need_no_triton() -> None:
    """Where Triton is not installed the twins run and the kernels say what is missing."""
    code = (
        "import sys; sys.modules['triton'] = None\n"
        "import torch, sampler_kernels as s\n"
        "print(s.apply_filters_torch(torch.zeros(1, 4), top_k=torch.tensor([2])).n_kept.tolist())\n"
        "try: s.apply_filters(torch.zeros(1, 4))\n"
        "except s.InterpreterUnsupported as error: print(error)"
    )
    printed = _run(code)
    assert printed.startswith("[2]\n")
    assert "the kernels need Triton, which is not installed" in printed


@pytest.mark.parametrize(
    ("triton_version", "numpy_version", "says"),
    [
        ("3.6.0", "2.4.6", "cannot run with NumPy 2.4.6; Triton 3.7.1 to 3.9.0 can"),
        (None, "2.4.6", "not installed"),
    ],
)
def test_obstacles(triton_version: str | None, numpy_version: str, says: str) -> None:
    """What cannot run says which versions can."""
    obstacle = interpreter_obstacle(triton_version, numpy_version, imported_too_early=False)
    assert obstacle is not None
    assert says in obstacle


@pytest.mark.parametrize("triton_version", ["3.7.1", "3.8.0", "3.9.0", "3.10.0+git1"])
def test_no_obstacle(triton_version: str) -> None:
    """Versions that were tried, and later ones, are let through."""
    assert interpreter_obstacle(triton_version, "2.4.6", imported_too_early=False) is None


def test_describe_device() -> None:
    """Reports can say where a kernel ran."""
    assert describe_device("cpu").startswith("cpu (Triton 3.")
