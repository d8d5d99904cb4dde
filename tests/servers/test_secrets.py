import asyncio
import logging
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from sampler_audit.errors import SamplerAuditError, UsageError
from sampler_audit.servers import Connection
from sampler_audit.servers._client import Client

Serve = Callable[[Mapping[str, object]], str]
KEY, PASSWORD, HEADER = "sk-0123456789abcdef", "open-sesame", "Token team-secret"
BASIC = b64encode(f"user:{PASSWORD}".encode()).decode()
SECRETS = (KEY, PASSWORD, BASIC, HEADER, "team-secret")


@pytest.fixture
def connection(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> Connection:
    """A server that repeats every header it is sent, in the body and in a header of its own."""
    monkeypatch.setenv("RENTED_KEY", KEY + "\n")

    def echo(body: dict[str, dict[str, str]]) -> object:
        said = " ".join(body["_headers"].values())
        return 401, {"error": said}, {"X-Echo": said}

    url = serve({"POST /v1/completions": echo})
    return Connection(
        url=url.replace("//", f"//user:{PASSWORD}@"),
        api_key_env="RENTED_KEY",
        headers=(("X-Team", HEADER),),
    )


def everything_seen(connection: Connection) -> str:
    """All that a caller of the client could print."""

    async def run() -> list[str]:
        async with Client(connection) as client:
            document = await client.look("/v1/completions", {})
            with pytest.raises(SamplerAuditError) as caught:
                await client.ask("/v1/completions", {})
            return [repr(document), str(caught.value), repr(caught.value), repr(vars(client))]

    return " ".join([*asyncio.run(run()), repr(connection)])


def test_the_key_is_sent_and_never_seen(
    connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    """Not in the error with the server's words, nor in any repr, nor in what httpx logs."""
    caplog.set_level(logging.INFO)
    seen = everything_seen(connection) + caplog.text
    assert "Bearer ***" in seen
    assert [secret for secret in SECRETS if secret in seen] == []


def test_the_login_of_the_url_is_sent_and_never_seen(connection: Connection) -> None:
    """Where there is no key; a base64 of it is as good as the password itself."""
    seen = everything_seen(replace(connection, api_key_env=""))
    assert "Basic ***" in seen
    assert [secret for secret in SECRETS if secret in seen] == []


def test_a_key_that_is_not_there_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable is named, and what it holds is not."""
    monkeypatch.setenv("BROKEN_KEY", "pâssword")
    for name, words in (("NO_SUCH_KEY", "is not set"), ("BROKEN_KEY", "does not hold an API key")):
        with pytest.raises(UsageError, match=f"'{name}'.*{words}") as caught:
            Client(Connection(url="http://host", api_key_env=name))
        assert "ssword" not in str(caught.value)
