"""The words that the styles of the demo server are made of: bodies, refusals, routes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sampler_audit.sampler.admission import Limits
from sampler_reference.conventions import Conventions

if TYPE_CHECKING:
    from sampler_audit.demo.service import Service

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

Body = dict[str, Json]

Route = Callable[["Service", Body], "Body | list[Json] | str"]
"""Answers a request: with JSON, or with plain text."""


class Refused(Exception):
    """A request that gets no answer but an error: its HTTP status, and why."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


@dataclass(frozen=True, kw_only=True)
class Style:
    """How an engine behind HTTP speaks.

    Attributes:
        name: The argument of ``--engine-style``.
        server: The Server header.
        conventions: By which rules it samples.
        limits: What a request may ask.
        most_choices: Largest number of choices of a request.
        routes: ``METHOD /path`` to what answers there.
        error: The body of an error with this status.
    """

    name: str
    server: str
    conventions: Conventions
    limits: Limits
    most_choices: int
    routes: Mapping[str, Route]
    error: Callable[[int, str], Body]
