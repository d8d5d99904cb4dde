"""Known faults: deviations that a user has looked at, listed in a file with reason and link.

They turn a 1 into a 0 only through an explicit ``--known FILE``, and a run says when one is gone.
"""

import fnmatch
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sampler_audit.errors import UsageError
from sampler_audit.results import CellResult


@dataclass(frozen=True, kw_only=True)
class KnownFault:
    """One entry; ``id`` is ``target:cell id`` and may hold the wildcards ``*`` and ``?``."""

    id: str
    reason: str
    link: str

    def names(self, target: str, cell: str) -> bool:
        """Whether the entry is about that cell of that target."""
        return fnmatch.fnmatchcase(f"{target}:{cell}", self.id)


def read_known(path: Path) -> tuple[KnownFault, ...]:
    """The entries of a TOML file with one ``[[known]]`` table each: id, reason, link.

    Raises:
        UsageError: a file that cannot be read, an entry that is not complete, or anything else in
            the file: a misspelt ``[[knwon]]`` would excuse nothing and say nothing.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as exc:
        raise UsageError(f"cannot read the known faults in {path}: {exc}") from exc
    entries = table.pop("known", [])
    if table or not isinstance(entries, list):
        raise UsageError(
            f"{path} may hold [[known]] tables only, got {', '.join(table) or entries}"
        )
    return tuple(_entry(path, raw) for raw in entries)


def _entry(path: Path, raw: object) -> KnownFault:
    fields = raw if isinstance(raw, dict) else {}
    values = {name: fields.get(name) for name in ("id", "reason", "link")}
    if set(fields) != set(values) or not all(isinstance(v, str) and v for v in values.values()):
        raise UsageError(f"each [[known]] of {path} needs the strings id, reason and link: {raw}")
    return KnownFault(id=fields["id"], reason=fields["reason"], link=fields["link"])


def mark_known(
    known: Sequence[KnownFault], target: str, cells: Sequence[CellResult]
) -> tuple[tuple[CellResult, ...], tuple[str, ...], tuple[str, ...]]:
    """The cells, with the fault that a failing one is; lines on faults that are there and gone.

    An entry is gone when cells that it names were tried and none of them fails.
    """
    there, gone = [], []
    excused: dict[str, str] = {}
    for fault in known:
        named = [c for c in cells if fault.names(target, c.cell)]
        failing = [c.cell for c in named if c.outcome == "fail"]
        line = f"{fault.id}: {fault.reason} ({fault.link})"
        if failing:
            there.append(f"{line}: {len(failing)} cell{'' if len(failing) == 1 else 's'}")
            excused.update(dict.fromkeys(failing, f"{fault.reason} ({fault.link})"))
        elif named:
            gone.append(line)
    marked = tuple(replace(c, known=excused.get(c.cell, "")) for c in cells)
    return marked, tuple(there), tuple(gone)
