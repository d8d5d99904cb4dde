"""Demo servers in this process, and a way to ask them that shares no code with our client."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest

from sampler_audit.demo import DemoSettings, RunningServer, start_demo_server

Start = Callable[..., RunningServer]
Ask = Callable[..., tuple[int, Any]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a server with these settings; it runs until the test ends."""
    with ExitStack() as running:
        yield lambda **settings: running.enter_context(
            start_demo_server(DemoSettings(**{"seed": 1, **settings}))
        )


@pytest.fixture(scope="session")
def ask() -> Ask:
    """The status and the JSON with which a server answers a body."""
    return _send


def _send(
    server: RunningServer,
    path: str,
    body: Mapping[str, object] | bytes | None = None,
    *,
    method: str = "POST",
    headers: Mapping[str, str] | None = None,
) -> tuple[int, Any]:
    parts = urlsplit(server.url)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    data = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
    try:
        connection.request(method, path, data, dict(headers or {}))
        reply = connection.getresponse()
        text = reply.read().decode()
        return reply.status, json.loads(text) if text[:1] in ("{", "[") else text
    finally:
        connection.close()
