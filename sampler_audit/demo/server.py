"""The demo server: HTTP, on the standard library, around a Service in one of the styles.

Every request ends in one answer: the style's, or its error in words; never a traceback.
"""

import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer

from sampler_audit.demo import llama, openai20, vllm
from sampler_audit.demo.service import DemoSettings, Service
from sampler_audit.demo.wire import Body, Json, Refused, Style
from sampler_audit.errors import AddressUnavailable, UsageError

STYLES: Mapping[str, Style] = {
    style.name: style for style in (vllm.STYLE, llama.STYLE, openai20.STYLE)
}
"""Every style by name."""

MOST_BYTES = 1 << 20
"""Largest body of a request."""

_MOST_DRAINED = 64 * MOST_BYTES
"""Of a larger body so much is read, so that its sender gets to hear of the error."""


@dataclass(frozen=True)
class RunningServer:
    """A demo server that answers at ``url``."""

    url: str
    service: Service


@contextmanager
def start_demo_server(
    settings: DemoSettings = DemoSettings(),  # noqa: B008 - frozen
    *,
    host: str = "127.0.0.1",
    port: int = 0,
) -> Iterator[RunningServer]:
    """A server that runs in threads of this process until the block ends; port 0 is a free one.

    Raises:
        UsageError: an unknown style, or a defect that cannot be planted here.
        AddressUnavailable: nothing can listen there.
    """
    if settings.style not in STYLES:
        raise UsageError(f"unknown style {settings.style!r}; known: {', '.join(STYLES)}")
    server = _listen(host, port)
    try:
        server.service = Service(settings, STYLES[settings.style])
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="demo-http")
        thread.start()
        try:
            shown = f"[{host}]" if ":" in host else host
            yield RunningServer(f"http://{shown}:{server.server_address[1]}", server.service)
        finally:
            server.shutdown()
            thread.join()
            server.service.close()
    finally:
        server.server_close()


class _Server(ThreadingHTTPServer):
    """One thread a connection; closing it ends them all."""

    daemon_threads = False
    request_queue_size = 128
    service: Service

    def __init__(self, host: str, port: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._open: set[socket.socket] = set()
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        """Without HTTPServer's look-up of the host's full name, which may take seconds."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def process_request(
        self, request: socket.socket | tuple[bytes, socket.socket], client_address: object
    ) -> None:
        """Remember the connection until it is closed."""
        if isinstance(request, socket.socket):
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: socket.socket | tuple[bytes, socket.socket]) -> None:
        """Forget it."""
        if isinstance(request, socket.socket):
            self._open.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        """Hang up on clients that keep a connection for a next request, and wait for threads."""
        for connection in list(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        super().server_close()

    def handle_error(self, request: object, client_address: object) -> None:
        """A client went away in the middle: there is nobody to tell."""


def _listen(host: str, port: int) -> _Server:
    try:
        return _Server(host, port)
    except (OSError, OverflowError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else str(exc)
        raise AddressUnavailable(
            f"cannot listen on {host} port {port}: {why}; choose another --port (0 is a free one)"
            " or --host"
        ) from exc


class _Handler(BaseHTTPRequestHandler):
    """Finds the route of a request, and sends what it answers."""

    protocol_version = "HTTP/1.1"
    # Headers and body leave in one segment, or each answer waits for an acknowledgement.
    wbufsize = -1
    disable_nagle_algorithm = True
    server: _Server

    def version_string(self) -> str:
        """The Server header."""
        return self.server.service.style.server

    def log_message(self, format: str, *args: object) -> None:
        """Stay silent."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer what is no HTTP at all."""
        self.close_connection = True
        # What cannot be parsed counts as HTTP/0.9, whose answers have no status.
        self.request_version = self.protocol_version
        self._send(int(code), self._error(int(code), message or explain or "not understood"))

    def _answer(self) -> None:
        try:
            status, content = 200, self._content()
        except Refused as exc:
            status, content = exc.status, self._error(exc.status, str(exc))
        # The boundary of a request: whatever went wrong, its sender hears one line.
        except Exception as exc:
            status, content = 500, self._error(500, f"internal error: {type(exc).__name__}: {exc}")
        self._send(status, content)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _answer  # noqa: N815

    def _content(self) -> Body | list[Json] | str:
        routes = self.server.service.style.routes
        path, raw = self.path.partition("?")[0], self._read()
        route = routes.get(f"{self.command} {path}")
        if route is not None:
            return route(self.server.service, _parse(raw) if self.command == "POST" else {})
        methods = [known.split()[0] for known in routes if known.split()[1] == path]
        if methods:
            raise Refused(405, f"{path} takes {', '.join(methods)}, got {self.command}")
        raise Refused(404, f"no such path {path}; known: {', '.join(routes)}")

    def _read(self) -> bytes:
        """The body, to its end, or the next request on this connection would begin in it."""
        if "Transfer-Encoding" in self.headers:
            self.close_connection = True
            raise Refused(411, "send the body with a Content-Length")
        length = self.headers.get("Content-Length", "0")
        if not length.isdecimal():
            self.close_connection = True
            raise Refused(400, f"Content-Length must be a whole number, got {length!r}")
        n_left = int(length)
        if n_left <= MOST_BYTES:
            return self.rfile.read(n_left)
        self.close_connection = True
        n_left = min(n_left, _MOST_DRAINED)
        while n_left > 0 and (part := self.rfile.read(min(n_left, MOST_BYTES))):
            n_left -= len(part)
        raise Refused(413, f"the body must be at most {MOST_BYTES} bytes, got {length}")

    def _error(self, status: int, words: str) -> Body:
        return self.server.service.style.error(status, words)

    def _send(self, status: int, content: Body | list[Json] | str) -> None:
        is_text = isinstance(content, str)
        data = content.encode() if isinstance(content, str) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain" if is_text else "application/json")
        self.send_header("Content-Length", str(len(data)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def _parse(raw: bytes) -> Body:
    try:
        body: Json = json.loads(raw)
    except (ValueError, RecursionError) as exc:
        raise Refused(400, f"the body must be JSON: {exc}") from exc
    if not isinstance(body, dict):
        raise Refused(400, f"the body must be a JSON object, got {type(body).__name__}")
    return body
