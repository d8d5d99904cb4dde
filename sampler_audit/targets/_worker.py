"""The worker process: it loads one engine file and answers frames until its input ends.

Runs in the interpreter under audit, which has nothing of ours: standard library and numpy only.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
import types
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ._frames import read_frame, write_frame

if TYPE_CHECKING:
    from ._engine import Engine

_ENGINE_PACKAGE = "sampler_audit_engine_under_audit"


def main() -> None:
    """Serve frames from standard input; whatever the engine prints goes to standard error."""
    requests, replies = claim_standard_streams()
    engine: Engine | None = None
    while (frame := read_frame(requests)) is not None:
        header, arrays = frame
        try:
            if header["request"] == "load":
                engine = _load(Path(header["file"]), header["options"])
                answer: dict[str, Any] = engine.info()
                results: dict[str, Any] = {}
            else:
                assert engine is not None, "the first request is load"
                answer, results = {}, _ask(engine, header, arrays)
        except (Exception, SystemExit) as error:  # The engine is anybody's code: all of it is told.
            kind = "unavailable" if isinstance(error, ImportError) else "raised"
            answer, results = {"error": kind, **_told(error)}, {}
        write_frame(replies, answer, results)


def claim_standard_streams() -> tuple[IO[bytes], IO[bytes]]:
    """The pipes for frames; afterwards fd 0 is empty and fd 1 is standard error.

    At the level of descriptors, because compiled engines print past sys.stdout.
    """
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return requests, replies


def _load(file: Path, options: dict[str, str]) -> Engine:
    """Import an engine file by path, in a package of its own so that it can import siblings."""
    package = types.ModuleType(_ENGINE_PACKAGE)
    package.__path__ = [str(file.parent)]
    sys.modules[_ENGINE_PACKAGE] = package
    module = importlib.import_module(f"{_ENGINE_PACKAGE}.{file.stem}")
    engine: Engine = module.load(options)
    return engine


def _ask(engine: Engine, header: dict[str, Any], arrays: dict[str, Any]) -> dict[str, Any]:
    """The arrays of the answer."""
    logits = arrays.pop("logits")
    seeds, positions = arrays.pop("seeds", None), arrays.pop("positions", None)
    request, index = header["request"], header["index"]
    if "scene" in header:
        engine = engine.within(header["scene"], arrays)
    if request == "step":
        return engine.step(logits, arrays, index, seeds)
    if request == "draw":
        drawn = engine.draw(logits, arrays, index, seeds, positions, header["kernel"])
        return {"result": drawn}
    ask = engine.filtered if request == "filtered" else engine.kept
    return {"result": ask(logits, arrays)}


def _told(error: BaseException) -> dict[str, str]:
    """What the auditor is told of the exception that is being handled; the rest is on stderr."""
    traceback.print_exc()
    return {"type": type(error).__name__, "message": str(error)}
