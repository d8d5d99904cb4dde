"""The worker: runs in the interpreter of the class under audit and answers frames about it.

Whatever the class prints goes to standard error, and whatever it raises becomes an answer.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sampler_audit.errors import UsageError
from sampler_audit.processor_audit.audited import Audited
from sampler_audit.processor_audit.player import raised_where
from sampler_audit.targets._frames import read_frame, write_frame
from sampler_audit.targets._worker import claim_standard_streams

Header = Mapping[str, Any]


def main() -> None:
    """Serve frames from standard input until it ends; the first one loads a class."""
    requests, replies = claim_standard_streams()
    sys.path.insert(0, str(Path.cwd()))
    audited: Audited | None = None
    while (frame := read_frame(requests)) is not None:
        header = frame[0]
        try:
            if header["request"] == "load":
                audited = Audited(**header["load"])
                answer = asdict(audited.facts)
            else:
                assert audited is not None, "the first request is load"
                answer = _ANSWERS[header["request"]](audited, header)
        except UsageError as error:
            answer = {"error": "usage", "message": str(error)}
        # The class is anybody's code: all of it is told, never a traceback.
        except (Exception, SystemExit) as error:
            answer = {"error": "raised", "message": raised_where(error)}
        write_frame(replies, answer)


def _play(audited: Audited, header: Header) -> dict[str, Any]:
    played = audited.play(header["turns"])
    return {"faults": played.faults, "counts": dict(played.counts)}


_ANSWERS: dict[str, Callable[[Audited, Header], dict[str, Any]]] = {
    "play": _play,
    "refusals": lambda audited, header: {"faults": audited.refusals(header["bad"])},
    "time": lambda audited, header: {"microseconds": audited.microseconds(header["batch_size"])},
}
