"""Where a server is and how it is to be asked, checked before anything is sent.

Holds the name of the environment variable with the API key, never the key.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, unquote, urlsplit

from sampler_audit.errors import UsageError
from sampler_audit.servers._reply import Json


@dataclass(frozen=True, kw_only=True)
class Connection:
    """Everything that the command line says about a server.

    Attributes:
        url: With or without ``/v1`` at the end.
        api_key_env: Name of the environment variable that holds the API key; empty sends none.
        headers: Sent with every request. They may be secrets, and are treated as such.
        extra_body: Merged into every request for tokens, last; a null takes a field out.
        model: Empty is the first that the server lists.
        engine: Name of a profile, or ``auto``.
        concurrency: The most requests in flight.
        timeout_s: Longest silence that is waited for.
        retries: How often a request is repeated after 429, 5xx or a lost connection.
        wait_s: How long the server may take to become ready.
        verify: Whether certificates are checked.

    Raises:
        UsageError: a value that cannot work.
    """

    url: str = field(repr=False)
    api_key_env: str = ""
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    extra_body: Mapping[str, Json] = field(default_factory=dict)
    model: str = ""
    engine: str = "auto"
    concurrency: int = 8
    timeout_s: float = 60.0
    retries: int = 4
    wait_s: float = 0.0
    verify: bool = True

    def __post_init__(self) -> None:
        parts = _split(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError("a server's URL begins with http:// or https:// and names a host")
        if parts.query or parts.fragment:
            raise UsageError("a server's URL ends before ? and #; send such settings by --header")
        for name, value, least in (
            ("concurrency", self.concurrency, 1),
            ("retries", self.retries, 0),
            ("wait", self.wait_s, 0),
        ):
            if value < least:
                raise UsageError(f"--{name} must be at least {least}, got {value:g}")
        if self.timeout_s <= 0:
            raise UsageError(f"--timeout must be above 0, got {self.timeout_s:g}")

    @property
    def root(self) -> str:
        """The URL without user, password and ``/v1``: what paths are appended to, and shown."""
        parts = _split(self.url)
        host = parts.netloc.rpartition("@")[2]
        path = parts.path.rstrip("/").removesuffix("/v1")
        return f"{parts.scheme}://{host}{path}"

    @property
    def login(self) -> tuple[str, str] | None:
        """User and password, where the URL has them."""
        parts = _split(self.url)
        if parts.username is None:
            return None
        return unquote(parts.username), unquote(parts.password or "")


def parse_header(text: str) -> tuple[str, str]:
    """Name and value of ``NAME=VALUE`` or ``NAME: VALUE``.

    Raises:
        UsageError: neither. The text is not repeated: it may be a secret.
    """
    cut = min((at for at in (text.find("="), text.find(":")) if at > 0), default=0)
    name, value = text[:cut].strip(), text[cut + 1 :].strip()
    if not name or not value or not text.isascii() or not text.isprintable():
        raise UsageError("a header is NAME=VALUE, in printable ASCII")
    return name, value


def parse_extra_body(text: str) -> dict[str, Json]:
    """The object in ``text``.

    Raises:
        UsageError: not JSON, or no object.
    """
    try:
        value = json.loads(text)
    except json.JSONDecodeError as exc:
        raise UsageError(f"--extra-body must be a JSON object: {exc}") from exc
    if not isinstance(value, dict):
        raise UsageError(f"--extra-body must be a JSON object, got {text}")
    return value


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        # Read here: a port that is no number raises only when it is asked for.
        _ = parts.port
    except ValueError as exc:
        raise UsageError(f"a server's URL cannot be read: {exc}") from exc
    return parts
