import httpx
import pytest

from sampler_audit.servers._failures import may_pass, server_words, transport_failure


def test_a_cause_is_found_in_a_group() -> None:
    """A name with an IPv4 and an IPv6 address fails twice, and both are reported together."""
    causes = [ConnectionRefusedError("::1"), ConnectionRefusedError("127.0.0.1")]
    failed = httpx.ConnectError("All connection attempts failed")
    failed.__cause__ = ExceptionGroup("multiple connection attempts failed", causes)
    assert "connection refused" in str(transport_failure(failed, "GET /", "http://host"))
    assert may_pass(failed)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('{"error": {"message": "too\\n long", "code": 400}}', "too long"),
        ('{"error": "Unauthorized"}', "Unauthorized"),
        ('{"detail": [{"msg": "extra fields", "loc": ["body"]}]}', "extra fields"),
        ('{"object": "error", "message": "no such model"}', "no such model"),
        ("<h1>502</h1>\n", "<h1>502</h1>"),
        ("[]", "[]"),
        ("x" * 301, "x" * 300 + "..."),
    ],
)
def test_the_servers_own_words_are_found(body: str, words: str) -> None:
    """In the shapes of OpenAI, FastAPI, vLLM and proxies; one line, and no page."""
    assert server_words(body) == words
