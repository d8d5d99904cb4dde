"""Client: JSON over HTTP with bounded concurrency, retries and redaction. Knows no engine.

Secrets are blotted out of every answer before anybody reads it, so that no message, report or file
can repeat what a server echoes.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType

import httpx

from sampler_audit.errors import (
    ServerError,
    ServerFailed,
    ServerNonsense,
    ServerUnreachable,
    UsageError,
)
from sampler_audit.servers._connection import Connection
from sampler_audit.servers._failures import may_pass, status_failure, transport_failure
from sampler_audit.servers._reply import Json, Reply, parse_reply
from sampler_audit.servers._retry import RETRIED, Backoff
from sampler_audit.servers._secrets import read_key, secrets_of

Sleep = Callable[[float], Awaitable[None]]

POLL_S = 1.0
"""Pause between two looks at a server that is not ready."""

CONNECT_S = 10.0
"""Longest wait for a connection; the timeout of the connection counts from then on."""


@dataclass(frozen=True)
class Document:
    """An answer of any status. ``headers`` have names in lower case."""

    status: int
    headers: Mapping[str, str]
    text: str
    source: str

    @property
    def reply(self) -> Reply | None:
        """The answer as JSON, or None where it is none."""
        try:
            return parse_reply(self.text, self.source)
        except ServerNonsense:
            return None


class Client:
    """A server's address, key and habits. Use it as an async context manager, or ``close`` it.

    Raises:
        UsageError: the API key is not where the connection says.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        sleep: Sleep = asyncio.sleep,
        backoff: Backoff | None = None,
    ) -> None:
        key = read_key(connection)
        self.connection = connection
        self._secrets = secrets_of(connection, key)
        self._sleep = sleep
        self._backoff = backoff or Backoff()
        self._slots = asyncio.Semaphore(connection.concurrency)
        bearer = [("Authorization", f"Bearer {key}")] if key else []
        self._http = httpx.AsyncClient(
            headers=[*bearer, *connection.headers],
            # httpx would let the login of the URL overwrite the key.
            auth=None if key else connection.login,
            verify=connection.verify,
            timeout=httpx.Timeout(
                connection.timeout_s, connect=min(CONNECT_S, connection.timeout_s), pool=None
            ),
        )

    async def ask(self, path: str, body: Mapping[str, Json]) -> Reply:
        """The answer to a request for tokens.

        Raises:
            ServerError: every attempt failed, or the answer is no JSON.
        """
        merged = _merge(body, self.connection.extra_body)
        document = await self._persist("POST", path, json.dumps(merged).encode())
        if document.status >= 300:
            raise status_failure(
                document.source, document.status, document.text, self.connection.retries + 1
            )
        return parse_reply(document.text, document.source)

    async def look(self, path: str, body: Mapping[str, Json] | None = None) -> Document:
        """The answer at ``path``, of whatever status; a body makes it a POST.

        Raises:
            ServerUnreachable: every attempt failed.
        """
        if body is None:
            return await self._persist("GET", path)
        return await self._persist("POST", path, json.dumps(body).encode())

    async def ready(self, path: str = "/v1/models") -> Document:
        """The answer at ``path`` as soon as the server gives one, within the connection's wait.

        Raises:
            ServerError: it gave none, or was still loading.
        """
        waited = 0.0
        while True:
            try:
                document = await self._once("GET", path, None)
                if document.status != 503:
                    return document
                problem: ServerError = ServerFailed(
                    f"GET {path} at {self.connection.root}: status 503: it is still loading, or"
                    " has no worker; --wait S waits longer"
                )
            except httpx.RequestError as exc:
                problem = self._unreachable(exc, f"GET {path}")
            if waited >= self.connection.wait_s:
                raise problem
            await self._sleep(POLL_S)
            waited += POLL_S

    async def close(self) -> None:
        """Let go of every connection."""
        await self._http.aclose()

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _persist(self, method: str, path: str, body: bytes | None = None) -> Document:
        """The first answer that is worth having, or the last one; a slot is held throughout."""
        async with self._slots:
            for attempt in range(self.connection.retries):
                retry_after = ""
                try:
                    document = await self._once(method, path, body)
                except httpx.RequestError as exc:
                    if not may_pass(exc):
                        raise self._unreachable(exc, f"{method} {path}") from exc
                else:
                    if document.status not in RETRIED:
                        return document
                    retry_after = document.headers.get("retry-after", "")
                delay_s = self._backoff.delay_s(attempt, retry_after, datetime.now(UTC))
                if delay_s is None:
                    raise ServerFailed(
                        f"{method} {path}: status {document.status}, and it asks to wait for"
                        f" {retry_after!r}; try again then"
                    )
                await self._sleep(delay_s)
            try:
                return await self._once(method, path, body)
            except httpx.RequestError as exc:
                raise self._unreachable(exc, f"{method} {path}") from exc

    async def _once(self, method: str, path: str, body: bytes | None) -> Document:
        kind = {"Content-Type": "application/json"} if body is not None else {}
        url = self.connection.root + path
        try:
            response = await self._http.request(method, url, content=body, headers=kind)
        except httpx.InvalidURL as exc:
            raise UsageError(f"{self.connection.root} is no URL: {exc}") from exc
        headers = {name.lower(): self._secrets.hide(v) for name, v in response.headers.items()}
        text = self._secrets.hide(response.text)
        return Document(response.status_code, headers, text, f"{method} {path}")

    def _unreachable(self, exc: httpx.RequestError, source: str) -> ServerUnreachable:
        return transport_failure(exc, source, self.connection.root)


def _merge(body: Mapping[str, Json], extra: Mapping[str, Json]) -> dict[str, Json]:
    """``extra`` over ``body``, object by object; a null takes a member out."""
    merged = dict(body)
    for key, value in extra.items():
        inner = merged.get(key)
        if isinstance(inner, dict) and isinstance(value, dict):
            merged[key] = _merge(inner, value)
        elif value is None:
            merged.pop(key, None)
        else:
            merged[key] = value
    return merged
