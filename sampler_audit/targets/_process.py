"""One worker process: started, asked, and killed when it hangs. Knows frames, not engines."""

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from numpy.typing import NDArray

from sampler_audit.errors import TargetProtocolError
from sampler_audit.targets._frames import FrameError, read_frame, write_frame

# The worker's modules come from our folder without that folder being on sys.path, where an engine
# file called torch.py would hide the real one. The current folder goes too: -c put it there.
_BOOTSTRAP = """\
import sys, types
sys.path[:] = [path for path in sys.path if path]
package = types.ModuleType("sampler_audit_worker")
package.__path__ = [sys.argv[1]]
sys.modules[package.__name__] = package
from sampler_audit_worker import _worker
_worker.main()
"""
_ENGINE_WORKER = (_BOOTSTRAP, str(Path(__file__).parent))
_STDERR_LINES = 5
_STDERR_BYTES = 1 << 16
_CLOSE_S = 5.0

Reply = tuple[dict[str, Any], dict[str, NDArray[Any]]]


class WorkerProcess:
    """A child in a session of its own, so that Ctrl-C reaches the auditor alone.

    It ends when its input is closed, so it cannot outlive the auditor, however that ends. ``code``
    is the program text that answers frames, and its arguments; that of the engines by default.
    """

    def __init__(self, python: str, n_threads: int, code: Sequence[str] = _ENGINE_WORKER) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self._process = subprocess.Popen(
            [python, "-c", *code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env={**os.environ, "OMP_NUM_THREADS": str(n_threads), "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests: IO[bytes] = self._process.stdin
        self._replies: IO[bytes] = self._process.stdout

    @property
    def pid(self) -> int:
        """The process id, which is also that of its process group."""
        return self._process.pid

    def ask(
        self,
        header: Mapping[str, Any],
        arrays: Mapping[str, NDArray[Any]] | None = None,
        *,
        timeout_s: float,
    ) -> Reply:
        """Send one request and wait for its answer.

        Raises:
            TargetProtocolError: no answer within ``timeout_s`` seconds (the process is then
                killed), the process ended, or it sent something that is no frame.
        """
        with self._deadline(timeout_s) as expired:
            try:
                write_frame(self._requests, header, arrays)
                reply = read_frame(self._replies)
                failure: Exception | None = None
            except (FrameError, BrokenPipeError) as error:
                reply, failure = None, error
        if reply is not None:
            return reply
        if expired.is_set():
            raise TargetProtocolError(f"did not answer within {timeout_s:g} s and was killed")
        if isinstance(failure, FrameError):
            self.kill()
            raise TargetProtocolError(f"sent no frame: {failure}")
        raise TargetProtocolError(self._ending())

    def close(self) -> None:
        """End the process, by force if it does not end when its input does."""
        with contextlib.suppress(BrokenPipeError):
            self._requests.close()
        try:
            self._process.wait(_CLOSE_S)
        except subprocess.TimeoutExpired:
            self.kill()
        self._replies.close()
        self._stderr.close()

    def kill(self) -> None:
        """End the process and what it started, now, and reap it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def stderr_tail(self) -> str:
        """The last lines that it, or the engine, wrote to standard error or output."""
        file = self._stderr.fileno()
        start = max(0, os.fstat(file).st_size - _STDERR_BYTES)
        # Not seek and read: the offset is shared with the child, which writes there.
        lines = os.pread(file, _STDERR_BYTES, start).decode(errors="replace").strip().splitlines()
        return "\n".join(lines[-_STDERR_LINES:])

    @contextlib.contextmanager
    def _deadline(self, timeout_s: float) -> Iterator[threading.Event]:
        """Kills the process when the time is up, which ends any read or write that waits on it."""
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            self.kill()

        timer = threading.Timer(timeout_s, expire)
        timer.daemon = True
        timer.start()
        try:
            yield expired
        finally:
            timer.cancel()

    def _ending(self) -> str:
        """How it ended, for a process that has closed its output."""
        try:
            code = self._process.wait(_CLOSE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return "closed its output and was killed"
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
        tail = self.stderr_tail()
        return f"{how}; it wrote last:\n{tail}" if tail else f"{how} without a word"
