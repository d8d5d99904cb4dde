"""Reply: an answer in JSON, walked with types. What is missing or absurd is said with its place.

Knows JSON and nothing of any engine.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass

from sampler_audit.errors import ServerNonsense

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


@dataclass(frozen=True, slots=True)
class Reply:
    """A value inside an answer.

    Attributes:
        value: What stands there.
        source: The request that was answered, ``POST /v1/completions``.
        parent: The value around it, None at the top.
        key: Where in its parent it stands.
    """

    value: Json
    source: str
    parent: "Reply | None" = None
    key: str | int = ""

    @property
    def where(self) -> str:
        """``choices[0].logprobs``; ``the answer`` at the top."""
        if self.parent is None:
            return "the answer"
        before = "" if self.parent.parent is None else self.parent.where
        step = f"[{self.key}]" if isinstance(self.key, int) else f".{self.key}"
        return f"{before}{step}".removeprefix(".")

    def __getitem__(self, key: str | int) -> "Reply":
        """The value at ``key``.

        Raises:
            ServerNonsense: there is none.
        """
        child = self._child(key)
        if child is None:
            raise Reply(None, self.source, self, key).wrong("is missing")
        return child

    def get(self, key: str | int) -> "Reply | None":
        """The value at ``key``; None where there is none, or null."""
        child = self._child(key)
        return None if child is None or child.value is None else child

    def items(self) -> list["Reply"]:
        """The elements of a list."""
        if not isinstance(self.value, list):
            raise self.wrong("must be a list")
        return [Reply(value, self.source, self, i) for i, value in enumerate(self.value)]

    def members(self) -> Iterator[tuple[str, "Reply"]]:
        """The members of an object."""
        if not isinstance(self.value, dict):
            raise self.wrong("must be an object")
        return ((key, Reply(value, self.source, self, key)) for key, value in self.value.items())

    def text(self) -> str:
        """A string."""
        if not isinstance(self.value, str):
            raise self.wrong("must be a string")
        return self.value

    def integer(self) -> int:
        """A whole number."""
        if not isinstance(self.value, int) or isinstance(self.value, bool):
            raise self.wrong("must be a whole number")
        return self.value

    def number(self) -> float:
        """A number that is no NaN; it may be infinite."""
        if self.value is None:
            raise self.wrong("is null")
        if not isinstance(self.value, int | float) or isinstance(self.value, bool):
            raise self.wrong("must be a number")
        if math.isnan(self.value):
            raise self.wrong("is NaN")
        return float(self.value)

    def wrong(self, what: str) -> ServerNonsense:
        """An error that says what is wrong with this value."""
        return ServerNonsense(f"{self.source}: {self.where} {what}; {LOOK}")

    def _child(self, key: str | int) -> "Reply | None":
        value = self.value
        if isinstance(value, dict) and key in value:
            return Reply(value[str(key)], self.source, self, key)
        if isinstance(value, list) and isinstance(key, int) and key < len(value):
            return Reply(value[key], self.source, self, key)
        return None


LOOK = "see the server's log, and any gateway on the way"
"""What to do about an answer that cannot be right."""


def parse_reply(text: str, source: str) -> Reply:
    """The answer to ``source``; NaN and Infinity, which JSON lacks, are read as numbers.

    Raises:
        ServerNonsense: not JSON, or an object that names a member twice.
    """
    try:
        return Reply(json.loads(text, object_pairs_hook=_members), source)
    except (ValueError, RecursionError) as exc:
        start = " ".join(text[:60].split())
        raise ServerNonsense(f"{source}: not whole JSON ({exc}): {start!r}; {LOOK}") from exc


def _members(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    """A table of log-probs keyed by token that lists one twice would silently lose the first."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the member {twice!r} stands there twice")
    return found
