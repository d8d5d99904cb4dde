"""A small HTTP server whose every answer is scripted, and a healthy engine to put behind it."""

import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypedDict, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from sampler_reference.conventions import CONVENTIONS
from sampler_reference.distribution import reference_distribution
from sampler_scenarios.params import SamplingParams

Serve = Callable[..., str]
Body = dict[str, object]
Floats = NDArray[np.float64]


class Scripted(ThreadingHTTPServer):
    """Answers ``METHOD /path`` by its script; what is not in it is a 404.

    An answer is JSON, a text, (status, JSON or text, headers), bytes for the whole of a raw answer
    after which the connection is closed, or a function of the request's body that returns one.
    """

    daemon_threads = True
    script: Mapping[str, object]

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that gave up is part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body are two writes, and the second would wait 40 ms for the first's receipt.
    disable_nagle_algorithm = True
    server: Scripted

    def do_GET(self) -> None:
        self._answer("GET", b"")

    def do_POST(self) -> None:
        self._answer("POST", self.rfile.read(int(self.headers["Content-Length"])))

    def log_message(self, format: str, *args: object) -> None:
        """Stay silent."""

    def _answer(self, method: str, sent: bytes) -> None:
        answer = self.server.script.get(f"{method} {self.path}", (404, {"error": "no such path"}))
        if callable(answer):
            body = json.loads(sent) if sent else {}
            answer = answer({**body, "_headers": dict(self.headers)})
        if isinstance(answer, bytes):
            self.wfile.write(answer)
            self.close_connection = True
            return
        status, content, *rest = answer if isinstance(answer, tuple) else (200, answer)
        text = content if isinstance(content, str) else json.dumps(content)
        self.send_response(status)
        for name, value in (rest[0] if rest else {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def version_string(self) -> str:
        return str(self.server.script.get("Server", "scripted"))


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts a scripted server on 127.0.0.1, with or without TLS, and returns its URL."""
    running: list[tuple[Scripted, threading.Thread]] = []

    def start(script: Mapping[str, object], tls: ssl.SSLContext | None = None) -> str:
        server = Scripted(("127.0.0.1", 0), _Handler)
        server.script = script
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        running.append((server, thread))
        return f"http{'s' * (tls is not None)}://127.0.0.1:{server.server_port}"

    yield start
    for server, thread in running:
        server.shutdown()
        thread.join()
        server.server_close()


CAP = 4
PROBS = (0.30, 0.22, 0.16, 0.12, 0.08, 0.06, 0.04, 0.02)


class Asked(TypedDict, total=False):
    """The fields of a completion that the engine below knows."""

    prompt: list[int]
    max_tokens: int
    n: int
    seed: int
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    logit_bias: dict[str, float]
    allowed_token_ids: list[int]
    logprobs: int
    prompt_logprobs: int
    logprob_token_ids: list[int]


class Engine:
    """A vLLM of eight tokens with one row for every position, on the reference's own law.

    ``ignored`` are fields that it takes and does nothing with; ``mode`` is what its log-probs are;
    ``refuses`` is what it says of a list that is too long.
    """

    def __init__(
        self,
        ignored: tuple[str, ...] = (),
        mode: str = "raw",
        probs: tuple[float, ...] = PROBS,
        refuses: str = f"greater than max allowed: {CAP}",
    ) -> None:
        self.ignored, self.mode, self.refuses = ignored, mode, refuses
        self.logits = np.log(np.array(probs, np.float64))
        self.rng = np.random.default_rng(20260921)
        self.bodies: list[Body] = []

    def script(self) -> dict[str, object]:
        """What it answers."""
        models = {"data": [{"id": "eight", "owned_by": "vllm", "max_model_len": 64}]}
        return {
            "GET /v1/models": models,
            "GET /version": {"version": "0.32.0"},
            "POST /tokenize": {"tokens": [3, 1], "count": 2},
            "POST /v1/completions": self.complete,
        }

    def complete(self, body: Body) -> object:
        """Answer ``/v1/completions``."""
        self.bodies.append(body)
        asked = cast("Asked", {k: v for k, v in body.items() if k not in self.ignored})
        if asked.get("logprob_token_ids") == [2**31 - 1]:
            return 400, {"error": {"message": "out-of-vocab token ids. Vocabulary size: 8"}}
        if max(asked.get("logprobs", 0), asked.get("prompt_logprobs", 0)) > CAP:
            return 400, {"error": {"message": self.refuses}}
        choices = [self._choice(i, asked, self._law(asked)) for i in range(asked.get("n", 1))]
        return {"model": "eight", "system_fingerprint": "vllm-0.32.0-1", "choices": choices}

    def _choice(self, index: int, asked: Asked, probs: Floats) -> Body:
        seed = asked.get("seed")
        rng = self.rng if seed is None else np.random.default_rng(seed + index)
        ids = [int(token) for token in rng.choice(8, asked["max_tokens"], p=probs)]
        choice: Body = {"index": index, "token_ids": ids, "text": "", "logprobs": None}
        if "logprobs" in asked:
            choice["logprobs"] = self._listed(asked, probs, ids)
        if "prompt_logprobs" in asked:
            length = asked["prompt_logprobs"]
            rows = [self._prompt_row(token, length) for token in asked["prompt"][1:]]
            choice["prompt_logprobs"] = [None, *rows]
        return choice

    def _listed(self, asked: Asked, probs: Floats, ids: list[int]) -> Body:
        with np.errstate(divide="ignore"):
            kinds = {"raw": self.logits, "after filters": np.log(probs)}
        row = kinds.get(self.mode, self.logits / asked.get("temperature", 1.0))
        row = np.maximum(row - np.logaddexp.reduce(row), -9999.0)
        best = np.argsort(-row, kind="stable")[: asked["logprobs"]].tolist()
        best = asked.get("logprob_token_ids", best)
        tables = [{f"token_id:{t}": row[t] for t in dict.fromkeys([own, *best])} for own in ids]
        return {
            "tokens": [f"token_id:{token}" for token in ids],
            "token_logprobs": [row[token] for token in ids],
            "top_logprobs": tables,
        }

    def _law(self, asked: Asked) -> Floats:
        logits = self.logits.copy()
        for token, bias in asked.get("logit_bias", {}).items():
            logits[int(token)] += bias
        if "allowed_token_ids" in asked:
            logits[np.setdiff1d(np.arange(8), asked["allowed_token_ids"])] = -np.inf
        params = SamplingParams(
            temperature=asked.get("temperature", 1.0),
            top_k=asked.get("top_k", -1),
            top_p=asked.get("top_p", 1.0),
            min_p=asked.get("min_p", 0.0),
        )
        rules = CONVENTIONS["vllm-pytorch"]
        return reference_distribution(logits.astype(np.float32), params, rules).probs

    def _prompt_row(self, token: int, length: int) -> Body:
        """The prompt's own token first, then the best."""
        return {
            str(t): {"logprob": self.logits[t], "rank": t + 1, "decoded_token": f"<{t}>"}
            for t in dict.fromkeys([token, *range(length)])
        }


@pytest.fixture
def make_engine() -> Callable[..., Engine]:
    """Makes an Engine."""
    return Engine
