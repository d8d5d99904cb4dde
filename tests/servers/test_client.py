import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from sampler_audit.errors import (
    ServerError,
    ServerFailed,
    ServerNonsense,
    ServerRefused,
    ServerUnreachable,
    UsageError,
)
from sampler_audit.servers import Connection
from sampler_audit.servers._client import Client
from sampler_audit.servers._reply import Json

Serve = Callable[[Mapping[str, object]], str]
PATH = "/v1/completions"
FINE: Json = {"choices": []}


def ask(
    url: str, *, times: int = 1, paused: list[float] | None = None, **how: object
) -> list[Json]:
    """What the server answers to ``times`` requests at once; pauses are noted and not made."""
    connection = Connection(url=url, **{"timeout_s": 20.0, **how})  # type: ignore[arg-type]  # any field

    async def sleep(seconds: float) -> None:
        if paused is not None:
            paused.append(seconds)

    async def run() -> list[Json]:
        async with Client(connection, sleep=sleep) as client:
            replies = await asyncio.gather(*(client.ask(PATH, {"n": 1}) for _ in range(times)))
        return [reply.value for reply in replies]

    return asyncio.run(run())


def failure(
    url: str, kind: type[ServerError], *, paused: list[float] | None = None, **how: object
) -> str:
    """The one line that a failing request ends in; exit code 3, as for every server."""
    with pytest.raises(kind) as caught:
        ask(url, times=1, paused=paused, **how)
    assert caught.value.exit_code == 3
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port at which nobody listens: it is bound, and stays so while the test runs."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


def test_connection_refused(closed_port: int) -> None:
    """The line says what to check; a server may be restarting, so it is tried again first."""
    paused: list[float] = []
    words = failure(f"http://127.0.0.1:{closed_port}", ServerUnreachable, paused=paused)
    assert "connection refused; is it running?" in words
    assert paused == [0.5, 1.0, 2.0, 4.0]


def test_a_name_that_nobody_has() -> None:
    """RFC 6761 reserves .invalid; no second attempt can help."""
    paused: list[float] = []
    words = failure("http://no-such-host.invalid", ServerUnreachable, paused=paused)
    assert words.endswith("at http://no-such-host.invalid: no such host name; check the URL")
    assert paused == []


def test_a_host_that_is_no_name_is_a_usage_error() -> None:
    """What only the HTTP library finds wrong with a URL still ends in 2."""
    with pytest.raises(UsageError, match=r"http://é\.\.b is no URL"):
        ask("http://é..b")


def test_https_at_a_server_that_speaks_http(serve: Serve) -> None:
    """The commonest of TLS errors."""
    url = serve({}).replace("http://", "https://")
    assert "no TLS came about" in failure(url, ServerUnreachable)


@pytest.fixture
def https(serve: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> str:
    """A server with a certificate that nobody trusts."""
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(Path(__file__).parent / "self_signed.pem")
    return serve({f"POST {PATH}": FINE}, context)


def test_a_certificate_that_is_not_trusted(https: str) -> None:
    """The way around it is named."""
    assert "certificate is not trusted; --insecure" in failure(https, ServerUnreachable)


def test_insecure_takes_any_certificate(https: str) -> None:
    """The twin: the same server, and only the check is off."""
    assert ask(https, verify=False) == [FINE]


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (401, {"error": "Unauthorized"}, r"401 \(Unauthorized\); .*--api-key-env"),
        (403, {"error": {"message": "no"}}, r"403 \(no\); the API key may not"),
        (404, {"detail": "Not Found"}, r"404 \(Not Found\); check the URL and --model"),
        (405, {"detail": "Method Not Allowed"}, "405 .* this path is something else here"),
        (413, "<html>too large</html>", "413 .*; the request is too large"),
        (
            422,
            {"detail": [{"msg": "extra fields not permitted"}]},
            "422 .extra fields not permitted",
        ),
        (400, {"message": "max 20"}, r"400 \(max 20\); the server does not take this request"),
        (302, "", "302: it points elsewhere"),
    ],
)
def test_a_refusal_is_said_once_with_the_servers_words(
    serve: Serve, status: int, body: object, words: str
) -> None:
    """No retry: the same request would be refused again."""
    paused: list[float] = []
    with pytest.raises(ServerRefused, match=words) as caught:
        ask(serve({f"POST {PATH}": (status, body)}), paused=paused)
    assert (caught.value.status, caught.value.exit_code, paused) == (status, 3, [])


def test_429_waits_as_long_as_the_server_says(serve: Serve) -> None:
    """Retry-After 3, then none, then an answer."""
    answers: Iterator[object] = iter([(429, {}, {"Retry-After": "3"}), (429, {}), FINE])
    paused: list[float] = []
    assert ask(serve({f"POST {PATH}": lambda _: next(answers)}), paused=paused) == [FINE]
    assert paused == [3.0, 1.0]


def test_429_to_the_end_names_the_remedy(serve: Serve) -> None:
    """Two retries make three attempts."""
    words = failure(serve({f"POST {PATH}": (429, {})}), ServerFailed, retries=2)
    assert words.endswith(
        "status 429 ({}), after 3 attempts; lower --concurrency, or raise --retries"
    )


def test_429_with_an_hours_pause_ends_at_once(serve: Serve) -> None:
    """A quota that is used up: waiting would look like hanging."""
    paused: list[float] = []
    answer: object = (429, {}, {"Retry-After": "3600"})
    words = failure(serve({f"POST {PATH}": answer}), ServerFailed, paused=paused)
    assert "asks to wait for '3600'" in words
    assert paused == []


def test_a_500_in_the_middle_is_survived(serve: Serve) -> None:
    """Engines answer 500 when something else in the batch fails."""
    answers: Iterator[object] = iter([FINE, (500, "boom"), FINE, (503, ""), FINE])
    url = serve({f"POST {PATH}": lambda _: next(answers)})
    assert ask(url, times=3, concurrency=1) == [FINE] * 3


def test_a_500_that_stays_ends_the_run(serve: Serve) -> None:
    """With the server's words."""
    words = failure(serve({f"POST {PATH}": (500, {"error": "NaN in logits"})}), ServerFailed)
    assert "status 500 (NaN in logits), after 5 attempts; see the server's log" in words


def test_a_server_that_stays_silent(serve: Serve) -> None:
    """The timeout is the connection's own; the server answers only after the test."""
    gate = threading.Event()
    url = serve({f"POST {PATH}": lambda _: gate.wait() and FINE})
    try:
        words = failure(url, ServerUnreachable, timeout_s=0.05, retries=0)
    finally:
        gate.set()
    assert "no answer in time; raise --timeout" in words


@pytest.mark.parametrize(
    "raw",
    [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{", b"\x16\x03\x01 not HTTP\r\n\r\n"],
)
def test_a_connection_that_breaks_is_tried_again(serve: Serve, raw: bytes) -> None:
    """As when the server is killed: no answer, half an answer, or no HTTP."""
    answers: Iterator[object] = iter([raw, FINE])
    assert ask(serve({f"POST {PATH}": lambda _: next(answers)})) == [FINE]
    words = failure(serve({f"POST {PATH}": raw}), ServerUnreachable, retries=1)
    assert "the connection broke" in words


@pytest.mark.parametrize(
    "body",
    ['{"choices": [{"ind', "<html>hello</html>", "", '{"a": 1, "a": 2}', "[" * 100_000],
    ids=["truncated", "html", "empty", "twice", "deep"],
)
def test_200_with_nonsense(serve: Serve, body: str) -> None:
    """A whole answer that is no JSON is not asked for again."""
    paused: list[float] = []
    words = failure(serve({f"POST {PATH}": (200, body)}), ServerNonsense, paused=paused)
    assert f"POST {PATH}: not whole JSON" in words
    assert paused == []


def test_no_more_requests_in_flight_than_allowed(serve: Serve) -> None:
    """Three meet at a barrier, so three are in flight; a fourth never is."""
    meeting, lock, now, most = threading.Barrier(3, timeout=20), threading.Lock(), [0], [0]

    def answer(_: object) -> object:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        meeting.wait()
        with lock:
            now[0] -= 1
        return FINE

    ask(serve({f"POST {PATH}": answer}), times=9, concurrency=3)
    assert most == [3]


def test_extra_body_is_merged_last_and_null_takes_out(serve: Serve) -> None:
    """Object by object, so that one nested setting can be changed."""
    seen: list[dict[str, object]] = []

    def answer(body: dict[str, object]) -> object:
        seen.append(body)
        return FINE

    url = serve({f"POST {PATH}": answer})
    connection = Connection(url=url, extra_body={"o": {"b": 3}, "max_tokens": None, "x": 1})

    async def run() -> None:
        async with Client(connection) as client:
            await client.ask(PATH, {"max_tokens": 1, "o": {"a": 1, "b": 2}})

    asyncio.run(run())
    del seen[0]["_headers"]
    assert seen == [{"o": {"a": 1, "b": 3}, "x": 1}]


def ready(url: str, wait_s: float, paused: list[float]) -> int:
    """The status with which the server becomes ready."""

    async def sleep(seconds: float) -> None:
        paused.append(seconds)

    async def run() -> int:
        async with Client(Connection(url=url, wait_s=wait_s), sleep=sleep) as client:
            return (await client.ready()).status

    return asyncio.run(run())


def test_wait_polls_until_the_model_is_loaded(serve: Serve) -> None:
    """llama-server answers 503 while it loads."""
    answers: Iterator[object] = iter([(503, "Loading model"), (503, "Loading model"), {"data": []}])
    paused: list[float] = []
    assert ready(serve({"GET /v1/models": lambda _: next(answers)}), 60.0, paused) == 200
    assert paused == [1.0, 1.0]


def test_wait_ends(serve: Serve, closed_port: int) -> None:
    """After so many seconds; without --wait after the first look."""
    paused: list[float] = []
    with pytest.raises(ServerUnreachable, match="--wait S waits until it is"):
        ready(f"http://127.0.0.1:{closed_port}", 3.0, paused)
    with pytest.raises(ServerFailed, match="503: it is still loading"):
        ready(serve({"GET /v1/models": (503, "")}), 0.0, paused)
    assert paused == [1.0] * 3
