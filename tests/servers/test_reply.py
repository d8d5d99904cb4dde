import math

import pytest

from sampler_audit.errors import ServerNonsense
from sampler_audit.servers._reply import Reply, parse_reply

TEXT = (
    '{"choices": [{"index": 0, "top": {"a": NaN, "b": null, "c": -Infinity, "d": "x", "e": true}}]}'
)


@pytest.fixture
def top() -> Reply:
    """The table of log-probs in TEXT."""
    return parse_reply(TEXT, "POST /p")["choices"][0]["top"]


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("a", "choices[0].top.a is NaN"),
        ("b", "choices[0].top.b is null"),
        ("d", "choices[0].top.d must be a number"),
        ("e", "choices[0].top.e must be a number"),
        ("f", "choices[0].top.f is missing"),
    ],
)
def test_a_number_that_is_none_is_said_with_its_place(top: Reply, key: str, words: str) -> None:
    """The line says which request, where, what, and where to look."""
    with pytest.raises(ServerNonsense) as caught:
        top[key].number()
    assert str(caught.value).startswith(f"POST /p: {words}; see the server's log")
    assert caught.value.exit_code == 3


def test_an_infinite_number_is_one(top: Reply) -> None:
    """Python's JSON writes -Infinity for the log-prob of a masked token."""
    assert top["c"].number() == -math.inf


def test_null_is_as_good_as_absent_where_a_value_is_optional(top: Reply) -> None:
    """Servers write null for what was not asked for."""
    assert top.get("b") is None
    assert top.get("f") is None


@pytest.mark.parametrize("read", [Reply.items, Reply.members, Reply.text, Reply.integer])
def test_a_value_of_the_wrong_kind_is_said(read: object) -> None:
    """A boolean is none of these, though Python takes it for a number."""
    assert callable(read)
    with pytest.raises(ServerNonsense, match="POST /p: the answer must be a"):
        read(Reply(True, "POST /p"))


def test_a_list_ends_where_it_ends() -> None:
    """An index beyond it is a missing value, and no IndexError."""
    with pytest.raises(ServerNonsense, match=r"POST /p: \[1\] is missing"):
        Reply([7], "POST /p")[1]


def test_a_member_that_stands_twice_is_refused() -> None:
    """Of a table keyed by token the first value would be lost without a word."""
    with pytest.raises(ServerNonsense, match="'token_id:5' stands there twice"):
        parse_reply('{"token_id:5": -1.0, "token_id:5": -2.0}', "POST /p")
