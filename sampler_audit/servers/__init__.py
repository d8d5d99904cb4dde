"""Servers: the engines that can be audited over HTTP, one file each, found by listing this folder.

A file without a leading underscore is an engine. It provides PROFILE, and the functions by which
its requests and answers differ from OpenAI's. httpx is imported where a connection is opened, so
that listing engines costs nothing.
"""

import importlib
from pathlib import Path

from sampler_audit.errors import UsageError
from sampler_audit.servers._connection import Connection, parse_extra_body, parse_header
from sampler_audit.servers._draws import ENDED, Draws
from sampler_audit.servers._profile import Method, Profile, Prompt
from sampler_audit.servers._protocol import Capabilities, Kind, Server, ServerInfo
from sampler_audit.servers._rows import Row

__all__ = [
    "ENDED",
    "Capabilities",
    "Connection",
    "Draws",
    "Kind",
    "Method",
    "Profile",
    "Prompt",
    "Row",
    "Server",
    "ServerInfo",
    "connect",
    "parse_extra_body",
    "parse_header",
    "profile_of",
    "server_names",
]


def server_names() -> tuple[str, ...]:
    """The engines that have a profile, sorted."""
    return tuple(sorted(file.stem for file in Path(__file__).parent.glob("[!_]*.py")))


def profile_of(name: str) -> Profile:
    """The profile of an engine of ``server_names()``.

    Raises:
        UsageError: an unknown engine.
    """
    if name not in server_names():
        raise UsageError(f"unknown engine {name!r}; known: auto, {', '.join(server_names())}")
    profile: Profile = importlib.import_module(f"{__name__}.{name}").PROFILE
    return profile


async def connect(connection: Connection) -> Server:
    """Reach the server, wait until it is ready, and recognise its engine.

    Raises:
        UsageError: an unknown engine, or no API key where the connection says.
        ServerError: it cannot be reached, lets nobody in, or is no server of language models.
    """
    from sampler_audit.servers._opening import open_server

    if connection.engine != "auto":
        profile_of(connection.engine)
    return await open_server(connection, {name: profile_of(name) for name in server_names()})
