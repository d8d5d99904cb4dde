"""SubjectProcess: the class under audit in a process of its interpreter, asked from here.

Runs our packages there by their folders, which are not on sys.path: they may lie among others that
must not hide the interpreter's own.
"""

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sampler_audit.errors import TargetProtocolError, TargetRaised, UsageError
from sampler_audit.processor_audit.settings import Settings
from sampler_audit.processor_audit.turns import Facts, Fault, Turn
from sampler_audit.targets import check_python
from sampler_audit.targets._process import WorkerProcess

_PACKAGES = ("sampler_audit", "sampler_kernels", "sampler_reference", "sampler_scenarios")
_BOOTSTRAP = """\
import sys
from importlib.machinery import PathFinder
sys.path[:] = [path for path in sys.path if path]
folders = dict(zip(sys.argv[1::2], sys.argv[2::2]))
class Ours:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return PathFinder.find_spec(name, [folders[name]]) if name in folders else None
sys.meta_path.insert(0, Ours)
if sys.version_info < (3, 11):
    sys.exit("custom processors are audited in Python 3.11 or newer")
try:
    from sampler_audit.processor_audit._worker import main
except ImportError as error:
    sys.exit(f"{error}: the interpreter needs numpy, torch and triton")
main()
"""


class SubjectProcess:
    """A process of the interpreter ``python`` (default: this one), about one class at a time.

    A request that takes longer than ``timeout_s`` seconds is given up, and the process with it.

    Raises:
        UsageError: ``python`` is no interpreter.
    """

    def __init__(self, python: str | None, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._name = "the process"
        interpreter = sys.executable if python is None else check_python(python)
        self._worker = WorkerProcess(interpreter, 1, (_BOOTSTRAP, *_folders()))

    def load(
        self,
        processor: str,
        settings: Sequence[Settings],
        *,
        runner: str,
        vocab_size: int,
        seed: int,
    ) -> Facts:
        """What the class is; the other methods are about it from now on.

        Raises:
            UsageError: there is no such class, the runner loads none such, or it refuses the
                settings.
            TargetRaised: it raised while it was constructed; says what and where.
        """
        self._name = processor
        what = {"processor": processor, "good": list(settings), "runner": runner}
        return Facts(**self._ask("load", load={**what, "vocab_size": vocab_size, "seed": seed}))

    def play(self, turns: Sequence[Turn]) -> tuple[list[Fault], dict[str, int]]:
        """What one sequence shows, and how often each thing happened in it."""
        answer = self._ask("play", turns=list(turns))
        return answer["faults"], answer["counts"]

    def refusals(self, bad: Sequence[Settings]) -> list[Fault]:
        """Faults of the admission of parameters; ``bad`` must be refused."""
        faults: list[Fault] = self._ask("refusals", bad=list(bad))["faults"]
        return faults

    def microseconds(self, batch_size: int) -> float:
        """Time of one step."""
        return float(self._ask("time", batch_size=batch_size)["microseconds"])

    def close(self) -> None:
        """End the process."""
        self._worker.close()

    def _ask(self, request: str, **arguments: Any) -> dict[str, Any]:
        """The answer.

        Raises:
            TargetProtocolError: the process ended, or did not answer in time.
        """
        try:
            answer, _ = self._worker.ask(
                {"request": request, **arguments}, timeout_s=self._timeout_s
            )
        except TargetProtocolError as error:
            raise TargetProtocolError(f"{self._name}: its process {error}") from error
        if answer.get("error") == "usage":
            raise UsageError(answer["message"])
        if "error" in answer:
            raise TargetRaised(f"{self._name} raised {answer['message']}")
        return answer


def _folders() -> list[str]:
    """Package, the folder that holds it, package, and so on."""
    words = []
    for name in _PACKAGES:
        spec = find_spec(name)
        assert spec is not None
        assert spec.submodule_search_locations
        words += [name, str(Path(spec.submodule_search_locations[0]).parent)]
    return words
