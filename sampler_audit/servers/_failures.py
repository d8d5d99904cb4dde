"""Every way in which a request fails, as one error of ours with one line of words.

Knows httpx and HTTP; knows no engine. What it is handed of an answer has no secret in it.
"""

import json
import socket
import ssl
from collections.abc import Iterator

import httpx

from sampler_audit.errors import ServerError, ServerFailed, ServerRefused, ServerUnreachable

LONGEST_WORDS = 300
"""How many characters of a server's own words are shown."""

_ADVICE = {
    401: "name the environment variable that holds the API key with --api-key-env",
    403: "the API key may not do this; name another with --api-key-env",
    404: "check the URL and --model",
    405: "check the URL: this path is something else here",
    413: "the request is too large for it; use shorter prompts, or fewer draws a request",
    429: "lower --concurrency, or raise --retries",
}


def transport_failure(exc: httpx.RequestError, source: str, root: str) -> ServerUnreachable:
    """No answer came: why, and what to do."""
    causes = list(_causes(exc))
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        words = "no such host name; check the URL"
    elif any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes):
        words = "its certificate is not trusted; --insecure goes on without that check"
    elif isinstance(exc, httpx.ConnectError) and any(isinstance(c, ssl.SSLError) for c in causes):
        words = "no TLS came about; is it http:// and not https://?"
    elif any(isinstance(cause, ConnectionRefusedError) for cause in causes):
        words = "connection refused; is it running? --wait S waits until it is"
    elif isinstance(exc, httpx.TimeoutException):
        words = "no answer in time; raise --timeout, or lower --concurrency"
    else:
        words = f"the connection broke ({type(exc).__name__}); see the server's log"
    return ServerUnreachable(f"{source} at {root}: {words}")


def may_pass(exc: httpx.RequestError) -> bool:
    """Whether another attempt makes sense: not where the name, or TLS as such, is wrong."""
    lasting = (socket.gaierror, ssl.SSLError)
    connecting = isinstance(exc, httpx.ConnectError)
    return not (connecting and any(isinstance(cause, lasting) for cause in _causes(exc)))


def status_failure(source: str, status: int, body: str, attempts: int) -> ServerError:
    """The error for an answer that is no success, after so many attempts."""
    words = server_words(body)
    said = f"{source}: status {status}" + (f" ({words})" if words else "")
    if status == 429 or status >= 500:
        advice = _ADVICE.get(status, "see the server's log")
        return ServerFailed(f"{said}, after {attempts} attempts; {advice}")
    if 300 <= status < 400:
        return ServerRefused(f"{said}: it points elsewhere; give that URL", status)
    advice = _ADVICE.get(status, "the server does not take this request")
    return ServerRefused(f"{said}; {advice}", status)


def server_words(body: str) -> str:
    """What an error's body says, on one line: its message where it is JSON, else its text."""
    try:
        value: object = json.loads(body)
    except ValueError:
        value = body
    for key in ("error", "message", "detail", "msg"):
        if isinstance(value, list) and value:
            value = value[0]
        if isinstance(value, dict) and value.get(key):
            value = value[key]
    words = " ".join((value if isinstance(value, str) else json.dumps(value)).split())
    return words if len(words) <= LONGEST_WORDS else f"{words[:LONGEST_WORDS]}..."


def _causes(exc: BaseException | None) -> Iterator[BaseException]:
    """The exception and all that it came from."""
    if exc is None:
        return
    yield exc
    if isinstance(exc, BaseExceptionGroup):
        for member in exc.exceptions:
            yield from _causes(member)
    yield from _causes(exc.__cause__ or exc.__context__)
