import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, TypeVar

import numpy as np
import pytest

from sampler_audit.errors import ServerError, ServerNonsense
from sampler_audit.servers import Connection, Method, Row, Server, connect
from sampler_scenarios.params import SamplingParams

Serve = Callable[[Mapping[str, object]], str]
T = TypeVar("T")

# The engine's one row: .30 .22 .16 .12 .08 .06 .04 .02, for tokens 0 to 7.
PROBS = [0.30, 0.22, 0.16, 0.12, 0.08, 0.06, 0.04, 0.02]


class Engine(Protocol):
    """The healthy engine of the fixture ``make_engine``."""

    bodies: list[dict[str, object]]

    def script(self) -> dict[str, object]:
        """What it answers."""


Make = Callable[..., Engine]


def with_server(url: str, work: Callable[[Server], Awaitable[T]]) -> T:
    """The result of ``work`` on the server at ``url``."""

    async def run() -> T:
        server = await connect(Connection(url=url))
        try:
            return await work(server)
        finally:
            await server.close()

    return asyncio.run(run())


@pytest.mark.parametrize("method", ["sentinel", "output"])
@pytest.mark.parametrize("mode", ["raw", "after temperature", "after filters"])
def test_a_row_is_the_models_own(
    serve: Serve, make_engine: Make, method: Method, mode: str
) -> None:
    """Whatever the log-probs beside draws are: it is asked for without filters at temperature 1."""
    url = serve(make_engine(mode=mode).script())
    row = with_server(url, lambda server: server.reference_row((3, 1), k=4, method=method))
    assert row.token_ids.tolist() == [0, 1, 2, 3]
    assert np.exp(row.logprobs).tolist() == pytest.approx(PROBS[:4])
    assert row.tail == pytest.approx(0.2)


def test_the_sentinel_is_not_in_the_row(serve: Serve, make_engine: Make) -> None:
    """Token 7, the last of the prompt, is put behind it again and ranks eighth."""
    engine = make_engine()
    row = with_server(serve(engine.script()), lambda server: server.reference_row((3, 7), k=3))
    assert engine.bodies[-1]["prompt"] == [3, 7, 7]
    assert (row.token_ids.tolist(), row.own) == ([0, 1, 2], None)


def test_chosen_ids_come_in_slices(
    serve: Serve, make_engine: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole row of eight, three ids a request; the drawn token, appended, is taken out."""
    engine = make_engine()

    async def work(server: Server) -> Row:
        monkeypatch.setitem(vars(server.profile), "chosen_ids", 3)
        return await server.reference_row((3, 1), method="chosen_ids")

    row = with_server(serve(engine.script()), work)
    assert row.complete
    assert np.exp(row.logprobs).tolist() == pytest.approx(PROBS)
    slices = [body["logprob_token_ids"] for body in engine.bodies[1:]]
    assert sorted(map(repr, slices)) == ["[0, 1, 2]", "[3, 4, 5]", "[6, 7]"]


def test_a_text_is_tokenized_first(serve: Serve, make_engine: Make) -> None:
    """A prompt as text might get a beginning-of-sequence token on one of two ways only."""
    engine = make_engine()
    with_server(serve(engine.script()), lambda server: server.reference_row("a text", k=4))
    assert engine.bodies[-1]["prompt"] == [3, 1, 1]


def test_every_token_of_a_prompt_has_its_row(serve: Serve, make_engine: Make) -> None:
    """For NLL and for greedy tokens that are scored again: own log-prob, beside a list of two."""
    url = serve(make_engine().script())
    rows = with_server(url, lambda server: server.prompt_rows((5, 7, 0), k=2))
    assert [row.own for row in rows] == [7, 0]
    assert [math.exp(row.own_logprob) for row in rows] == pytest.approx([0.02, 0.30])
    assert [row.token_ids.tolist() for row in rows] == [[0, 1], [0, 1]]


def test_draws_bring_the_rows_of_their_own_step(serve: Serve, make_engine: Make) -> None:
    """From the same forward pass: against these a fixed offset of the yardstick shows."""
    url = serve(make_engine().script())
    draws = with_server(url, lambda server: server.draw((3,), SamplingParams(), 30, logprobs=2))
    own = [row.own for (row,) in draws.rows]
    assert own == draws.token_ids[:, 0].tolist()
    expected = [PROBS[token] for token in draws.token_ids[:, 0]]
    assert [math.exp(row.own_logprob) for (row,) in draws.rows] == pytest.approx(expected)
    assert {tuple(row.token_ids.tolist()) for (row,) in draws.rows} == {(0, 1)}


def vllm(choice: Mapping[str, object]) -> dict[str, object]:
    """A vLLM that answers one choice to everything."""
    entry = {"id": "m", "owned_by": "vllm"}
    answer = {"choices": [{"index": 0, "token_ids": [1], **choice}]}
    return {"GET /v1/models": {"data": [entry]}, "POST /v1/completions": answer}


def listed(*pairs: tuple[int, object]) -> dict[str, object]:
    """Log-probs beside token 1."""
    table = {f"token_id:{token}": logprob for token, logprob in pairs}
    tokens = {"tokens": ["token_id:1"], "token_logprobs": [-1.0]}
    return {"logprobs": {**tokens, "top_logprobs": [table]}}


@pytest.mark.parametrize(
    ("method", "choice", "words"),
    [
        ("output", listed((1, -1.0), (2, float("nan"))), "token_id:2 is NaN"),
        ("output", listed((1, -1.0), (2, None)), "token_id:2 is null"),
        ("output", listed((1, -0.1), (2, -0.2)), "probabilities sum to 1.7236"),
        ("output", listed((1, 14.5), (2, 3.25)), "so these are logits"),
        ("output", {}, "log-probs were asked for, and none came"),
        ("output", {"token_ids": []}, "the model ended at once"),
        ("sentinel", {}, "prompt_logprobs is missing"),
        ("sentinel", {"prompt_logprobs": [None, {"1": {"logprob": None}}]}, "logprob is null"),
        ("chosen_ids", listed((1, -1.0)), "2 chosen tokens were asked for, and 1 came"),
    ],
)
def test_a_row_that_cannot_be_right_is_refused(
    serve: Serve, method: Method, choice: Mapping[str, object], words: str
) -> None:
    """Before any statistics: exp(-.1) + exp(-.2) is 1.7236; a dropped field leaves a gap."""

    def work(server: Server) -> Awaitable[Row]:
        return server.reference_row((1,), method=method, token_ids=(1, 5))

    with pytest.raises(ServerNonsense, match=words) as caught:
        with_server(serve(vllm(choice)), work)
    assert caught.value.exit_code == 3


def test_an_id_that_is_listed_twice_is_refused(serve: Serve) -> None:
    """A list that repeats the drawn token shifts every rank behind it."""
    twice = [[-1.0, 5, None], [-2.0, 5, None]]
    meta = {
        "input_token_logprobs": [[None, 1, None], [-3.0, 1, None]],
        "input_top_logprobs": [None, twice],
    }
    models = {"data": [{"id": "m", "owned_by": "sglang"}]}
    url = serve({"GET /v1/models": models, "POST /generate": {"meta_info": meta}})
    with pytest.raises(ServerNonsense, match="POST /generate: token '5' is listed twice"):
        with_server(url, lambda server: server.reference_row((1,)))


def test_a_way_that_an_engine_does_not_have_is_said(serve: Serve) -> None:
    """llama-server lists no prompts, and needs none for its rows."""
    url = serve({"GET /v1/models": {"data": [{"id": "m", "owned_by": "llamacpp"}]}})
    with pytest.raises(ServerError, match="llama-server gives no log-probs of a prompt"):
        with_server(url, lambda server: server.prompt_rows((1, 2)))
    with pytest.raises(ServerError, match="llama-server lists chosen token ids only where"):
        with_server(url, lambda server: server.reference_row((1,), method="chosen_ids"))


def test_the_share_of_accepted_drafts_is_read_where_it_is_told(serve: Serve) -> None:
    """63 of 100, of vLLM's counters; nothing without speculation."""
    text = (
        "vllm:spec_decode_num_accepted_tokens_total 63.0\n"
        "vllm:spec_decode_num_draft_tokens_total 100.0\n"
    )
    told = serve(vllm({}) | {"GET /metrics": (200, text)})
    assert with_server(told, lambda server: server.acceptance_rate()) == pytest.approx(0.63)
    assert with_server(serve(vllm({})), lambda server: server.acceptance_rate()) is None
