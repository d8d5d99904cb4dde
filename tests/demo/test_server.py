"""Everything that is not an answer to a good request: an error in words, with the right status."""

import json
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import pytest

from sampler_audit.demo import MODEL, STYLES, DemoSettings, RunningServer, start_demo_server
from sampler_audit.demo.drawing import Drawing
from sampler_audit.demo.server import MOST_BYTES
from sampler_audit.errors import AddressUnavailable, UsageError

Start = Callable[..., RunningServer]
Ask = Callable[..., tuple[int, Any]]

PATHS = {
    "vllm": "/v1/completions",
    "llama": "/completion",
    "openai20": "/v1/chat/completions",
}
GOOD: dict[str, dict[str, object]] = {
    "vllm": {"prompt": "A"},
    "llama": {"prompt": "A", "n_predict": 4},
    "openai20": {"messages": [{"role": "user", "content": "A"}]},
}


def words(reply: Any) -> str:
    """The message of an error."""
    message: str = reply["error"]["message"]
    return message


@pytest.mark.parametrize("style", STYLES)
def test_errors_name_what_was_asked_for(start: Start, ask: Ask, style: str) -> None:
    """A path, a method, a body and a field that the server does not take."""
    server, path = start(style=style), PATHS[style]
    assert words(_with_status(404, ask(server, "/nonsense"))).startswith("no such path /nonsense")
    wrong = ask(server, path, method="GET")
    assert words(_with_status(405, wrong)) == f"{path} takes POST, got GET"
    assert "JSON" in words(_with_status(400, ask(server, path, b"{")))
    assert "JSON object" in words(_with_status(400, ask(server, path, b"[1]")))
    hot = ask(server, path, {**GOOD[style], "temperature": "hot"})
    assert words(_with_status(400, hot)) == "temperature must be a number, got 'hot'"
    assert ask(server, path, GOOD[style])[0] == 200


def _with_status(status: int, reply: tuple[int, Any]) -> Any:
    assert reply[0] == status, reply
    return reply[1]


BAD_FIELDS: tuple[tuple[str, dict[str, object], str], ...] = (
    ("vllm", {"prompt": []}, "prompt must hold at least one token"),
    ("vllm", {"prompt": 5}, "prompt must be a text or a list of token ids, got 5"),
    ("vllm", {"prompt": [4096]}, "prompt_token_ids must be token ids in [0, 4096), got 4096"),
    ("vllm", {"top_p": 0}, "top_p must be in (0, 1], got 0"),
    (
        "vllm",
        {"temperature": float("nan")},
        "temperature must be finite as float32 and >= 0, got nan",
    ),
    ("vllm", {"temperature": 2.5}, "refuses temperature=2.5: its maximum is 2"),
    ("vllm", {"temperature": 0, "n": 2}, "n must be 1 where temperature is 0"),
    ("vllm", {"top_k": 1.5}, "top_k must be a whole number, got 1.5"),
    ("vllm", {"top_k": 2**40}, "top_k must be a whole number of 32 bits"),
    ("vllm", {"seed": 2**70}, "seed must be a whole number of 64 bits"),
    ("vllm", {"ignore_eos": 1}, "ignore_eos must be true or false, got 1"),
    ("vllm", {"logit_bias": {"x": 1}}, "logit_bias must be a whole number, got 'x'"),
    ("vllm", {"logit_bias": 3}, "logit_bias must be an object of biases by token id, got 3"),
    ("vllm", {"bad_words": "no"}, "bad_words must be a list of words, got 'no'"),
    ("vllm", {"allowed_token_ids": []}, "allowed_token_ids must be at least one token id"),
    ("vllm", {"logprobs": 21}, "logprobs must be at most 20"),
    ("vllm", {"prompt_logprobs": 21}, "prompt_logprobs must be at most 20"),
    ("vllm", {"logprob_token_ids": [1]}, "logprob_token_ids needs logprobs too"),
    ("vllm", {"logprobs": 1, "logprob_token_ids": [9999]}, "Vocabulary size: 4096"),
    ("vllm", {"stream": True}, "stream must be False on this server, got True"),
    ("vllm", {"max_tokens": 0}, "max_tokens must be >= 1, or None, got 0"),
    ("vllm", {"max_tokens": 4096}, "at most max_model_len=4096 tokens together"),
    ("llama", {"n": 65}, "n must be at most 64, got 65"),
    ("llama", {"mirostat": 2}, "mirostat must be 0 on this server, got 2"),
    ("llama", {"samplers": ["temperature", "top_k"]}, "samplers must be"),
    ("llama", {"logit_bias": [[1]]}, "logit_bias must be pairs of a token id and a bias"),
    ("openai20", {"top_k": 5}, "Unrecognized request argument supplied: top_k"),
    ("openai20", {"top_logprobs": 5}, "top_logprobs needs logprobs to be true"),
    ("openai20", {"logprobs": True, "top_logprobs": 21}, "logprobs must be at most 20"),
    ("openai20", {"n": 129}, "n must be at most 128, got 129"),
    ("openai20", {"messages": []}, "messages must be a list of messages"),
    ("openai20", {"messages": ["A"]}, "a message must be an object, got 'A'"),
    ("openai20", {"messages": [{"content": 4}]}, "content must be a string, got 4"),
)


@pytest.mark.parametrize(("style", "fields", "told"), BAD_FIELDS, ids=lambda value: str(value)[:40])
def test_a_bad_field_is_400_with_its_name(
    start: Start, ask: Ask, style: str, fields: dict[str, object], told: str
) -> None:
    """What was given and what is allowed."""
    reply = ask(start(style=style), PATHS[style], {**GOOD[style], **fields})
    assert told in words(_with_status(400, reply))


@pytest.mark.parametrize("style", ["vllm", "openai20"])
def test_another_model_is_404(start: Start, ask: Ask, style: str) -> None:
    """llama-server does not look at the name."""
    reply = ask(start(style=style), PATHS[style], {**GOOD[style], "model": "gpt-9"})
    assert words(_with_status(404, reply)) == f"the model 'gpt-9' does not exist; use {MODEL}"
    assert ask(start(style="llama"), "/completion", {**GOOD["llama"], "model": "x"})[0] == 200


def test_a_body_too_large_is_413(start: Start, ask: Ask) -> None:
    """Its sender hears of it, and the server goes on."""
    server = start()
    reply = ask(server, PATHS["vllm"], b" " * (MOST_BYTES + 1))
    assert words(_with_status(413, reply)).startswith(f"the body must be at most {MOST_BYTES}")
    assert ask(server, PATHS["vllm"], GOOD["vllm"])[0] == 200


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"POST /v1/completions HTTP/1.1\r\nContent-Length: x\r\n\r\n", 400),
        (b"POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 411),
        (b"BREW /v1/completions HTTP/1.1\r\n\r\n", 501),
    ],
)
def test_what_is_no_http_is_answered_and_hung_up_on(start: Start, sent: bytes, status: int) -> None:
    """With JSON, after which the connection ends."""
    parts = urlsplit(start().url)
    with socket.create_connection((parts.hostname, parts.port), timeout=10) as connection:
        connection.sendall(sent)
        answer = b"".join(iter(lambda: connection.recv(4096), b"")).decode()
    head, _, body = answer.partition("\r\n\r\n")
    assert head.split()[1] == str(status)
    assert words(json.loads(body))


def test_a_fault_of_ours_is_500_in_one_line(
    start: Start, ask: Ask, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """No traceback anywhere, and the next request is served."""

    def broken(*_: object) -> None:
        raise ArithmeticError("no kernel image")

    server = start()
    with monkeypatch.context() as patch:
        patch.setattr(Drawing, "plain", broken)
        reply = ask(server, PATHS["vllm"], GOOD["vllm"])
    assert words(_with_status(500, reply)) == "internal error: ArithmeticError: no kernel image"
    assert ask(server, PATHS["vllm"], GOOD["vllm"])[0] == 200
    assert capfd.readouterr() == ("", "")


def test_requests_side_by_side_get_what_they_get_alone(start: Start, ask: Ask) -> None:
    """Twelve at once, of different filters, seeds and lengths, on one engine."""
    server = start(vocab_size=512)
    bodies = [
        {**GOOD["vllm"], "seed": i, "n": 1 + i % 3, "max_tokens": 1 + i % 4, "top_k": 3 * i}
        for i in range(12)
    ]
    alone = [ask(server, PATHS["vllm"], body)[1]["choices"] for body in bodies]
    with ThreadPoolExecutor(12) as pool:
        replies = list(pool.map(lambda body: ask(server, PATHS["vllm"], body), bodies))
    assert [reply["choices"] for _, reply in replies] == alone


def test_closing_answers_what_is_still_running(start: Start, ask: Ask) -> None:
    """With 503, at once."""
    server, replies = start(vocab_size=512), list[tuple[int, Any]]()
    endless = {**GOOD["vllm"], "max_tokens": 4000, "ignore_eos": True}
    request = threading.Thread(
        target=lambda: replies.append(ask(server, PATHS["vllm"], endless)), daemon=True
    )
    request.start()
    while request.is_alive() and not server.service.counters.n_running:
        request.join(0.01)
    server.service.close()
    request.join()
    assert words(_with_status(503, replies[0])) == "the server is shutting down"


def test_a_kept_connection_does_not_hold_up_the_end() -> None:
    """A client that keeps its connection for later is hung up on."""
    with start_demo_server() as server:
        parts = urlsplit(server.url)
        connection = socket.create_connection((parts.hostname, parts.port), timeout=10)
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert connection.recv(15) == b"HTTP/1.1 200 OK"
    with connection:
        while connection.recv(4096):
            pass


def test_a_taken_port_and_an_unknown_style_are_told(start: Start) -> None:
    """The message names the way out."""
    port = urlsplit(start().url).port or 0
    with (
        pytest.raises(AddressUnavailable, match=f"port {port}: .*in use; choose another --port"),
        start_demo_server(port=port),
    ):
        pass
    with (
        pytest.raises(UsageError, match="unknown style 'x'; known: vllm, llama, openai20"),
        start_demo_server(DemoSettings(style="x")),
    ):
        pass


def test_ids_words_and_stops_in_vllms_answers(start: Start, ask: Ask) -> None:
    """Texts read back; a stop token of the request's own is named, the model's ends are not."""
    server = start()
    status, both = ask(server, "/tokenize", {"prompt": "The weather today is"})
    assert (status, both["count"]) == (200, len(both["tokens"]))
    body = {"prompt": both["tokens"], "allowed_token_ids": [1], "max_tokens": 3}
    ended = ask(server, PATHS["vllm"], body)[1]["choices"][0]
    assert (ended["finish_reason"], ended["stop_reason"]) == ("stop", None)
    own = {**body, "allowed_token_ids": [9], "stop_token_ids": [9]}
    stopped = ask(server, PATHS["vllm"], own)[1]["choices"][0]
    assert (stopped["finish_reason"], stopped["stop_reason"]) == ("stop", 9)
    goes_on = ask(server, PATHS["vllm"], {**own, "min_tokens": 2, "allowed_token_ids": [9, 8]})[1]
    assert goes_on["usage"] == {"prompt_tokens": 4, "completion_tokens": 3, "total_tokens": 7}
    back = ask(server, "/detokenize", {"tokens": [9, 9]})[1]["prompt"]
    assert ask(server, "/tokenize", {"prompt": back})[1]["tokens"] == [9, 9]


def test_llamas_defaults_are_not_neutral(start: Start, ask: Ask) -> None:
    """An empty request is that of top_k 40, top_p .95, min_p .05 and temperature .8."""
    server = start(style="llama", vocab_size=512)
    body = {"prompt": "She opened the door and saw", "n": 60, "n_predict": 1, "seed": 1}
    empty, neutral, same = (
        ask(server, "/completion", {**body, **fields})[1]
        for fields in (
            {},
            {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "temperature": 1.0},
            {"top_k": 40, "top_p": 0.95, "min_p": 0.05, "temperature": 0.8},
        )
    )
    assert empty == same != neutral
