"""Targets: the engines that can be audited in process, one file each, found by listing this folder.

A file without a leading underscore is an engine. At its top it imports nothing but the standard
library, numpy and files beside it whose names begin with an underscore. It provides DESCRIPTION
(one line), INSTALL (what to do when it cannot be imported), ANY_PYTHON (whether it runs in an
interpreter that has nothing of ours) and ``load(options)``, which returns an ``_engine.Engine``.
"""

import importlib
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Literal

from sampler_audit.draws import Target
from sampler_audit.errors import UsageError
from sampler_audit.targets._pool import WorkerSpec, WorkerTarget

Device = Literal["auto", "cpu", "cuda"]

FUNCTION = "module:attr"
"""How anybody's function is spelt as a target; the engine file is function.py."""

OLDEST_PYTHON = (3, 9)
"""The oldest interpreter in which a worker runs."""

_FOLDER = Path(__file__).parent


def target_names() -> tuple[str, ...]:
    """The engines that have a name, sorted; a function (FUNCTION) comes on top of them."""
    files = (file.stem for file in _FOLDER.glob("[!_]*.py"))
    return tuple(sorted(name for name in files if name != "function"))


def describe(name: str) -> str:
    """One line on a target of ``target_names()``, or on FUNCTION.

    Raises:
        UsageError: an unknown target.
    """
    return str(_engine_module(name).DESCRIPTION)


def is_own(name: str) -> bool:
    """Whether a target is part of this tool and runs in this interpreter alone: no engine.

    Raises:
        UsageError: an unknown target, or a misspelt function.
    """
    return not _engine_module(name).ANY_PYTHON


def open_target(
    name: str,
    *,
    python: str | None = None,
    device: Device = "auto",
    options: Mapping[str, str] | None = None,
    workers: int | None = None,
    timeout_s: float = 600.0,
) -> Target:
    """Start the engine ``name`` in worker processes of ``python`` (default: this interpreter).

    ``workers`` defaults to one a core, at most 2. A request that takes longer than ``timeout_s``
    seconds is given up.

    Raises:
        UsageError: an unknown target, a misspelt function, or ``python`` is no interpreter.
        TargetError: the engine is not there, or fails to load.
    """
    module = _engine_module(name)
    if python is not None and is_own(name):
        raise UsageError(f"{name} is part of sampler-audit and cannot run with --python {python}")
    spec = WorkerSpec(
        name=name,
        engine_file=Path(str(module.__file__)),
        options={**(options or {}), "device": device, "target": name},
        python=sys.executable if python is None else check_python(python),
        install=module.INSTALL,
        timeout_s=timeout_s,
    )
    return WorkerTarget(spec, workers or min(os.cpu_count() or 1, 2))


def _engine_module(name: str) -> ModuleType:
    if ":" in name:
        if not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", name):
            raise UsageError(f"a function is named module:attr, got {name!r}")
        name = "function"
    elif name not in target_names():
        known = ", ".join(target_names())
        raise UsageError(f"unknown target {name!r}; known: {known}, and {FUNCTION}")
    return importlib.import_module(f"{__name__}.{name}")


def check_python(python: str) -> str:
    """The path of an interpreter that has been seen to run, and in which a worker does.

    Raises:
        UsageError: it is not there, is no Python, or is older than OLDEST_PYTHON.
    """
    try:
        told = subprocess.run(
            [python, "-c", "import sys; print('python %d %d' % sys.version_info[:2])"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"--python {python} cannot be run: {error}") from error
    # Last, because a site may print something of its own first.
    word, *version = told.stdout.split()[-3:] or [""]
    if word != "python":
        raise UsageError(f"--python {python} is no Python interpreter")
    if tuple(map(int, version)) < OLDEST_PYTHON:
        oldest = ".".join(map(str, OLDEST_PYTHON))
        raise UsageError(
            f"--python {python} is Python {'.'.join(version)}; engines run in {oldest} or newer"
        )
    return python
