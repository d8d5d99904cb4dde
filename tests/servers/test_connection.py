from collections.abc import Callable

import pytest

from sampler_audit.errors import UsageError
from sampler_audit.servers import Connection, parse_extra_body, parse_header


@pytest.mark.parametrize(
    ("url", "root"),
    [
        ("http://host:8000", "http://host:8000"),
        ("http://host:8000/v1/", "http://host:8000"),
        ("https://openrouter.ai/api/v1", "https://openrouter.ai/api"),
        ("https://me:secret@host/v1", "https://host"),
        ("http://[::1]:8000", "http://[::1]:8000"),
    ],
)
def test_the_root_has_neither_v1_nor_a_login(url: str, root: str) -> None:
    """Both spellings of a base URL lead to the same paths, and what is shown is not secret."""
    assert Connection(url=url).root == root


def test_a_login_in_the_url_is_unquoted() -> None:
    """RFC 3986: a colon in a password is %3A."""
    assert Connection(url="http://me:a%3Ab@host").login == ("me", "a:b")


@pytest.mark.parametrize(
    "url",
    ["host:8000", "ftp://host", "http://", "http://host:port", "http://h/v1?key=1", "http://[::1"],
)
def test_a_url_that_cannot_be_one_is_a_usage_error(url: str) -> None:
    """Before anything is sent, with exit code 2."""
    with pytest.raises(UsageError, match="URL") as caught:
        Connection(url=url)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"concurrency": 0}, "--concurrency must be at least 1, got 0"),
        ({"retries": -1}, "--retries must be at least 0, got -1"),
        ({"wait_s": -1.0}, "--wait must be at least 0, got -1"),
        ({"timeout_s": 0.0}, "--timeout must be above 0, got 0"),
    ],
)
def test_a_number_out_of_range_is_a_usage_error(wrong: dict[str, float], words: str) -> None:
    """Given, allowed."""
    with pytest.raises(UsageError, match=words):
        Connection(url="http://host", **wrong)  # type: ignore[arg-type]  # one of several fields


def test_repr_shows_no_secret() -> None:
    """A connection may end up in a message, a log or a crash report."""
    connection = Connection(url="http://me:hush@host", headers=(("X-Api-Key", "whisper"),))
    assert "hush" not in repr(connection)
    assert "whisper" not in repr(connection)


@pytest.mark.parametrize("text", ["X-Team=a=b", "X-Team: a=b"])
def test_a_header_is_split_at_its_first_sign(text: str) -> None:
    """Both spellings of vllm bench and curl."""
    assert parse_header(text) == ("X-Team", "a=b")


def test_an_extra_body_is_an_object() -> None:
    """Nested as the engine wants it."""
    assert parse_extra_body('{"options": {"num_ctx": 64}}') == {"options": {"num_ctx": 64}}


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_header, "secret-without-a-name"),
        (parse_header, "X: a\r\nY: b"),
        (parse_header, "=secret"),
        (parse_extra_body, "{"),
        (parse_extra_body, "[1]"),
    ],
)
def test_what_cannot_be_read_is_a_usage_error(parse: Callable[[str], object], text: str) -> None:
    """A header is not repeated in the message, since it may be a secret."""
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert "secret" not in str(caught.value)
