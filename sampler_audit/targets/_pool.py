"""WorkerTarget: an engine in worker processes, which the audit uses as a Target.

Knows processes and arrays; what an engine is, is in its own file.
"""

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from queue import LifoQueue
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler_audit.draws import Listed, Stepped, TargetInfo
from sampler_audit.errors import (
    TargetError,
    TargetProtocolError,
    TargetRaised,
    TargetUnavailable,
)
from sampler_audit.targets._process import Reply, WorkerProcess
from sampler_reference.conventions import CONVENTIONS
from sampler_scenarios.batches import Batch
from sampler_scenarios.scenes import needs_scene, to_scene


@dataclass(frozen=True, kw_only=True)
class WorkerSpec:
    """What is needed to start one more worker, and how it is called in messages.

    ``install`` says what to do when the engine cannot be imported.
    """

    name: str
    engine_file: Path
    options: Mapping[str, str]
    python: str
    install: str
    timeout_s: float


class WorkerTarget:
    """A pool of ``n_workers`` processes of one engine; any number of threads may call it.

    The first worker starts at once, so that an engine that cannot be loaded is known here; the
    others when they are needed. A worker that dies, hangs, or is interrupted is replaced.

    Raises:
        TargetError: the engine cannot be loaded.
    """

    def __init__(self, spec: WorkerSpec, n_workers: int) -> None:
        self._spec = spec
        self._n_threads = max(1, (os.cpu_count() or 1) // n_workers)
        self._n_workers = n_workers
        self._idle: LifoQueue[WorkerProcess | None] = LifoQueue()
        self._busy: set[WorkerProcess] = set()
        self._closed = False
        for _ in range(n_workers - 1):
            self._idle.put(None)
        first, fields = self._start()
        self._idle.put(first)
        try:
            self._info = _target_info(spec.name, fields)
        except TargetProtocolError:
            self.close()
            raise

    @property
    def info(self) -> TargetInfo:
        """What the first worker said about itself."""
        return self._info

    def kept(self, batch: Batch) -> NDArray[np.bool_]:
        """See ``Target.kept``."""
        return self._result("kept", batch, "bool", batch.logits.shape)

    def filtered(self, batch: Batch) -> NDArray[np.float32]:
        """See ``Target.filtered``."""
        if self._info.logits_error is None:
            raise TargetError(f"{self._spec.name} does not show its logits")
        return self._result("filtered", batch, "float32", batch.logits.shape)

    def step(self, batch: Batch, seeds: NDArray[np.int64]) -> Stepped:
        """See ``Target.step``."""
        if not self._info.stateful:
            raise TargetError(f"{self._spec.name} keeps no requests")
        with self._worker() as worker:
            header, arrays = _frame("step", batch)
            found = self._ask(worker, header, {**arrays, "seeds": seeds})[1]
        try:
            return _stepped(found, len(batch.requests))
        except (KeyError, ValueError) as error:
            raise TargetProtocolError(
                f"{self._spec.name} answered {sorted(found)} of other lengths where a step of"
                f" {len(batch.requests)} requests was expected"
            ) from error

    def draw(
        self,
        batch: Batch,
        seeds: NDArray[np.int64],
        positions: NDArray[np.int64],
        *,
        kernel: bool = False,
    ) -> NDArray[np.int64]:
        """See ``Target.draw``."""
        if not self._info.draws:
            raise TargetError(f"{self._spec.name} masks logits and draws nothing")
        more = {"seeds": seeds, "positions": positions}
        return self._result("draw", batch, "int64", seeds.shape, more, kernel=kernel)

    def close(self) -> None:
        """End all workers; a call that waits for its answer, or comes later, fails at once."""
        self._closed = True
        for worker in tuple(self._busy):
            worker.kill()
        # Calls in flight fail and give their workers back, so all of them arrive here.
        for idle in [self._idle.get() for _ in range(self._n_workers)]:
            if idle is not None:
                idle.close()
            self._idle.put(None)

    def _result(
        self,
        request: str,
        batch: Batch,
        dtype: str,
        shape: tuple[int, ...],
        more: Mapping[str, NDArray[Any]] = MappingProxyType({}),
        **fields: bool,
    ) -> NDArray[Any]:
        header, arrays = _frame(request, batch)
        with self._worker() as worker:
            reply = self._ask(worker, {**header, **fields}, {**arrays, **more})
        result = reply[1].get("result")
        if result is None or result.dtype != dtype or result.shape != shape:
            got = "nothing" if result is None else f"{result.dtype} {list(result.shape)}"
            raise TargetProtocolError(
                f"{self._spec.name} answered {got} where {dtype} {list(shape)} was expected"
            )
        return result

    @contextlib.contextmanager
    def _worker(self) -> Iterator[WorkerProcess]:
        """A worker for one request; another takes its place unless it has answered."""
        worker = self._idle.get()
        try:
            self._check_open()
            worker = worker or self._start()[0]
            yield worker
        except BaseException as error:
            if worker is not None and not isinstance(error, TargetRaised | TargetUnavailable):
                worker.kill()
                worker.close()
                worker = None
            raise
        finally:
            self._idle.put(worker)

    def _check_open(self) -> None:
        if self._closed:
            raise TargetError(f"{self._spec.name} is closed")

    def _start(self) -> tuple[WorkerProcess, dict[str, Any]]:
        spec = self._spec
        worker = WorkerProcess(spec.python, self._n_threads)
        header = {"request": "load", "file": str(spec.engine_file), "options": dict(spec.options)}
        try:
            return worker, self._ask(worker, header)[0]
        except BaseException:
            worker.kill()
            worker.close()
            raise

    def _ask(
        self,
        worker: WorkerProcess,
        header: Mapping[str, Any],
        arrays: Mapping[str, NDArray[Any]] | None = None,
    ) -> Reply:
        # Busy first and then the look at closed: ``close`` does the two in the other order, so one
        # of both sees the other.
        self._busy.add(worker)
        try:
            self._check_open()
            reply = worker.ask(header, arrays, timeout_s=self._spec.timeout_s)
        except TargetProtocolError as error:
            raise TargetProtocolError(f"the worker of {self._spec.name} {error}") from error
        finally:
            self._busy.discard(worker)
        if "error" in reply[0]:
            raise self._engine_error(reply[0])
        return reply

    def _engine_error(self, told: Mapping[str, str]) -> TargetError:
        spec = self._spec
        if told["error"] == "raised":
            return TargetRaised(f"{spec.name} raised {told['type']}: {told['message']}")
        if told["type"] == "Unavailable":
            return TargetUnavailable(f"{spec.name}: {told['message']}")
        return TargetUnavailable(
            f"{spec.name} cannot be imported by {spec.python} "
            f"({told['type']}: {told['message']}): {spec.install}"
        )


def _frame(request: str, batch: Batch) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Header and arrays of a request; a scene only where the filters do not say it all."""
    header: dict[str, Any] = {"request": request, "index": batch.index}
    arrays = {"logits": batch.logits, **_param_arrays(batch)}
    if not needs_scene(batch):
        return header, arrays
    scene, more = to_scene(batch)
    return {**header, "scene": scene}, {**arrays, **more}


def _stepped(found: Mapping[str, NDArray[Any]], n_requests: int) -> Stepped:
    """The step that arrays tell; ``n_listed`` is -1 for a request that lists nothing."""
    n_listed = found["n_listed"]
    ends = np.cumsum(np.maximum(n_listed, 0))
    columns = [found[name] for name in ("listed_ids", "listed_values", "listed_ranks")]
    if n_listed.size != n_requests or found["token_ids"].size != n_requests:
        raise ValueError("another number of requests")
    if any(column.size != (ends[-1] if ends.size else 0) for column in columns):
        raise ValueError("listings of other lengths")
    return Stepped(
        found["token_ids"],
        tuple(
            None if n < 0 else Listed(*(column[end - n : end] for column in columns))
            for n, end in zip(n_listed.tolist(), ends.tolist(), strict=True)
        ),
    )


def _param_arrays(batch: Batch) -> dict[str, NDArray[Any]]:
    params = batch.params
    return {
        "temperature": np.array([p.temperature for p in params], np.float64),
        "top_k": np.array([p.top_k for p in params], np.int64),
        "top_p": np.array([p.top_p for p in params], np.float64),
        "min_p": np.array([p.min_p for p in params], np.float64),
    }


def _target_info(name: str, fields: dict[str, Any]) -> TargetInfo:
    lists = {key: tuple(value) for key, value in fields.items() if isinstance(value, list)}
    try:
        info = TargetInfo(name=name, **{**fields, **lists})
    except TypeError as error:
        raise TargetProtocolError(f"{name} describes itself with {sorted(fields)}") from error
    if info.convention not in CONVENTIONS:
        raise TargetProtocolError(
            f"{name} declares the convention {info.convention!r}; known: {', '.join(CONVENTIONS)}"
        )
    return info
