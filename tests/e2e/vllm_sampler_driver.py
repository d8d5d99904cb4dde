"""Runs calls of one of vLLM's samplers, in vLLM's interpreter: ``python FILE v1|v2``.

Each line of its input names a folder with ``calls.json``, a list of samplers, each its facts and
its calls as [method, arguments], and ``arrays.npz``, the arrays among the arguments, as
``SAMPLER/CALL/NAME``. ``answers.npz`` receives every array that a call returns, named alike; then
a line is written. Nothing of ours is imported but files that vLLM's interpreter can run.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np

TARGETS = Path(__file__).parents[2] / "sampler_audit" / "targets"
SAMPLERS = {"v1": ("_vllm_v1", "V1Sampler"), "v2": ("_vllm_v2", "V2Sampler")}


def sampler_class(name: str) -> Any:
    """The class; its folder is not on sys.path, where a file torch.py would hide the real one."""
    package = types.ModuleType("under_audit")
    package.__path__ = [str(TARGETS)]
    sys.modules[package.__name__] = package
    module, class_name = SAMPLERS[name]
    return getattr(importlib.import_module(f"under_audit.{module}"), class_name)


def answer(make: Any, folder: Path) -> None:
    """Read the calls, make them, write the answers."""
    arrays = np.load(folder / "arrays.npz")
    answers: dict[str, np.ndarray[Any, Any]] = {}
    for i, (facts, calls) in enumerate(json.loads((folder / "calls.json").read_text())):
        sampler = make(**facts)
        for j, (method, arguments) in enumerate(calls):
            taken = {key: arrays[f"{i}/{j}/{key}"] for key in arguments.pop("arrays")}
            returned = getattr(sampler, method)(**arguments, **taken) or {}
            answers |= {f"{i}/{j}/{key}": value for key, value in returned.items()}
    np.savez(folder / "answers.npz", allow_pickle=False, **answers)


def main(name: str) -> None:
    """Answer until the input ends; what vLLM prints goes to standard error."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    make = sampler_class(name)
    for line in sys.stdin:
        answer(make, Path(line.strip()))
        print("done", file=replies, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
