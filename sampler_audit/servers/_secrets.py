"""Secrets: what must never be printed or stored, and the text in which it is blotted out."""

import os
from base64 import b64encode

from sampler_audit.errors import UsageError
from sampler_audit.servers._connection import Connection

SHORTEST = 6
"""Shorter values of headers are no secrets, and blotting them out would garble messages."""


class Secrets:
    """The key, password and header values of a connection; ``repr`` shows none of them."""

    def __init__(self, values: list[str]) -> None:
        # The longest first: one secret may begin with another.
        self._values = sorted((v for v in values if v), key=len, reverse=True)

    def hide(self, text: str) -> str:
        """The text with every secret replaced by ``***``."""
        for value in self._values:
            text = text.replace(value, "***")
        return text


def read_key(connection: Connection) -> str:
    """The API key in the environment, or an empty string where none is to be sent.

    Raises:
        UsageError: the variable is not set, or holds what no header can.
    """
    name = connection.api_key_env
    if not name:
        return ""
    key = os.environ.get(name, "").strip()
    if not key:
        raise UsageError(f"the environment variable {name!r} (--api-key-env) is not set")
    if not key.isascii() or not key.isprintable():
        raise UsageError(f"the environment variable {name!r} does not hold an API key")
    return key


def secrets_of(connection: Connection, key: str) -> Secrets:
    """Everything about a connection that must not be seen."""
    login = connection.login or ("", "")
    basic = b64encode(":".join(login).encode()).decode() if connection.login else ""
    headers = [value for _, value in connection.headers if len(value) >= SHORTEST]
    # Of "Bearer x" and the like a server may echo x alone.
    words = [value.split()[-1] for value in headers if len(value.split()[-1]) >= SHORTEST]
    return Secrets([key, login[1], basic, *headers, *words])
