"""Every kernel compiles for GPUs that are not here, in their registers and in IEEE arithmetic."""

import json
import os
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import TypedDict

import pytest

from sampler_kernels.ahead_of_time import TARGETS, VARIANTS, find_kernels

pytestmark = pytest.mark.slow


class Compiled(TypedDict):
    """One line of ``python -m sampler_kernels.ahead_of_time``."""

    kernel: str
    variant: str
    target: str
    registers: int
    spills: int
    approximate: list[str]


@pytest.fixture(scope="module")
def compiled() -> list[Compiled]:
    """Every kernel, variant and target, compiled in a process without the interpreter."""
    done = subprocess.run(
        [sys.executable, "-m", "sampler_kernels.ahead_of_time"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_every_kernel_compiles_for_every_target(compiled: list[Compiled]) -> None:
    """No kernel is left out, by name, in any variant, for any target."""
    done = {(c["kernel"], c["variant"], c["target"]) for c in compiled}
    assert done == set(product(find_kernels(), VARIANTS, TARGETS))


def test_every_launched_kernel_is_found() -> None:
    """The kernels that are compiled are those that the source launches."""
    package = Path(sys.modules["sampler_kernels.ahead_of_time"].__file__ or "").parent
    launched = {
        line.strip().rstrip(",")
        for file in package.glob("*.py")
        for line in file.read_text().splitlines()
        if line.strip().endswith("_kernel,")
    }
    assert set(find_kernels()) == launched


def test_nothing_spills(compiled: list[Compiled]) -> None:
    """Neither NVIDIA's registers nor AMD's vector registers overflow to memory."""
    assert [c for c in compiled if c["spills"]] == []


def test_arithmetic_is_ieee(compiled: list[Compiled]) -> None:
    """No approximate or fused instruction, so that all devices and the twins agree bit for bit."""
    assert [c for c in compiled if c["approximate"]] == []


def _printed(code: str, folder: Path) -> str:
    """What a script prints in a process without the interpreter; Triton needs the source's file."""
    (folder / "probe.py").write_text(f"import sampler_kernels.ahead_of_time as a\n{code}")
    done = subprocess.run(
        [sys.executable, "probe.py"],
        cwd=folder,
        env={**os.environ, "TRITON_INTERPRET": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_spills_are_noticed(tmp_path: Path) -> None:
    """A tile 16 times as wide as ours overflows the registers of both vendors, and is counted."""
    printed = _printed(
        "a.DEVICE_BLOCK_SIZE = 16384\n"
        "for target in ('sm_90', 'gfx942'):\n"
        "    print(a.compile_kernel('_scan_kernel', 'fp32', target).spills)\n",
        tmp_path,
    )
    assert all(int(spills) > 0 for spills in printed.split())


def test_approximations_are_noticed(tmp_path: Path) -> None:
    """The search above sees ``tl.exp``, a plain division and a contracted multiply-add."""
    printed = _printed(
        "from sampler_kernels._triton import jit, tl\n"
        "@jit\n"
        "def probe(logits_ptr: tl.tensor, scaled_ptr: tl.tensor) -> None:\n"
        "    i = tl.arange(0, 256)\n"
        "    x = tl.load(logits_ptr + i)\n"
        "    tl.store(scaled_ptr + i, tl.exp(x) / (x * x + tl.fma(x, x, x)))\n"
        "a.find_kernels = lambda: {'probe': probe}\n"
        "print(a.compile_kernel('probe', 'fp32', 'sm_90').approximate)\n",
        tmp_path,
    )
    assert "approx" in printed
    assert "fma" in printed
