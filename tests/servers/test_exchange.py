import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TypeVar

import numpy as np
import pytest

from sampler_audit.errors import ServerChanged, ServerError, ServerNonsense, ServerRefused
from sampler_audit.servers import ENDED, Connection, Draws, Server, connect
from sampler_scenarios.params import SamplingParams

Serve = Callable[[Mapping[str, object]], str]
Body = dict[str, object]
T = TypeVar("T")
MODELS = {"GET /v1/models": {"data": [{"id": "m", "owned_by": "vllm"}]}}
PLAIN = SamplingParams()


def with_server(url: str, work: Callable[[Server], Awaitable[T]], **how: object) -> T:
    """The result of ``work`` on the server at ``url``."""

    async def run() -> T:
        server = await connect(Connection(url=url, **how))  # type: ignore[arg-type]  # any field
        try:
            return await work(server)
        finally:
            await server.close()

    return asyncio.run(run())


def vllm(answer: Callable[[Body], object]) -> dict[str, object]:
    """A vLLM that says how large its vocabulary is, and then answers as scripted."""

    def complete(body: Body) -> object:
        if "logprob_token_ids" in body:
            return 400, {"message": "Vocabulary size: 8"}
        return answer(body)

    return MODELS | {"POST /v1/completions": complete}


def choices(*tokens: list[int], **more: object) -> dict[str, object]:
    """An answer with these tokens."""
    listed = [{"index": i, "token_ids": ids} for i, ids in enumerate(tokens)]
    return {"model": "m", "choices": listed, **more}


def test_draws_carry_their_labels(serve: Serve) -> None:
    """Request, choice within it, and seed; an early end is no token."""
    bodies: list[Body] = []

    def answer(body: Body) -> object:
        bodies.append(body)
        seed, n = body["seed"], body["n"]
        assert isinstance(seed, int)
        assert isinstance(n, int)
        return choices(*([seed + i, 1] if seed + i < 5 else [seed + i] for i in range(n)))

    def work(server: Server) -> Awaitable[Draws]:
        return server.draw((1, 2), PLAIN, 4, seeds=[3, 4, 5, 7], max_tokens=2)

    draws = with_server(serve(vllm(answer)), work, concurrency=1)
    assert draws.token_ids.tolist() == [[3, 1], [4, 1], [5, ENDED], [7, ENDED]]
    assert draws.requests.tolist() == [0, 0, 0, 1]
    assert draws.choices.tolist() == [0, 1, 2, 0]
    assert draws.seeds == (3, 4, 5, 7)
    assert [(body["n"], body["seed"], body["max_tokens"]) for body in bodies] == [
        (3, 3, 2),
        (1, 7, 2),
    ]


def test_draws_are_handed_on_as_they_come(serve: Serve) -> None:
    """So that a run which is killed, or a server which dies, loses none of them."""
    answers: Iterator[object] = iter([choices([1], [2]), choices([3], [4]), (404, {})])
    kept: list[int] = []

    def work(server: Server) -> Awaitable[Draws]:
        def keep(draws: Draws) -> None:
            kept.extend(draws.token_ids[:, 0].tolist())

        return server.draw((1,), PLAIN, 6, per_request=2, arrived=keep)

    with pytest.raises(ServerRefused):
        with_server(serve(vllm(lambda _: next(answers))), work, concurrency=1)
    assert kept == [1, 2, 3, 4]


def test_greedy_draws_are_single_choices(serve: Serve) -> None:
    """Engines refuse n > 1 at temperature 0."""
    sizes: list[object] = []

    def answer(body: Body) -> object:
        sizes.append(body["n"])
        return choices([1])

    greedy = SamplingParams(temperature=0)
    with_server(serve(vllm(answer)), lambda server: server.draw((1,), greedy, 3))
    assert sizes == [1, 1, 1]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (choices([1], [2]), "3 choices were asked for, and 2 came"),
        (choices([1], [2], [3], [4]), "3 choices were asked for, and 4 came"),
        (choices([1], [2, 3], [3]), "1 tokens were asked for, and 2 came"),
        (choices([1], [2], [8]), r"token id 8 lies outside the vocabulary \(8 tokens"),
        (choices([1], [2], [-1]), "token id -1 lies outside"),
        ({"choices": [{"index": i, "text": " a"} for i in range(3)]}, "' a' is told by text"),
        ({"hello": "world"}, "choices is missing"),
        ([], "choices is missing"),
    ],
)
def test_an_answer_that_was_not_asked_for_is_refused(
    serve: Serve, answer: object, words: str
) -> None:
    """A gateway that drops n or the wish for ids, an id beyond the vocabulary, nonsense."""
    with pytest.raises(ServerNonsense, match=words):
        with_server(serve(vllm(lambda _: answer)), lambda server: server.draw((1,), PLAIN, 3))


@pytest.mark.parametrize("name", ["model", "provider"])
def test_an_answerer_that_changes_ends_the_run(serve: Serve, name: str) -> None:
    """Draws of two models have no common law; both are named."""
    answers = iter([choices([1], **{name: "one"}), choices([1], **{name: "two"})])

    def work(server: Server) -> Awaitable[Draws]:
        return server.draw((1,), PLAIN, 2, per_request=1)

    with pytest.raises(ServerChanged, match=f"the {name} was 'one', and is now 'two'"):
        with_server(serve(vllm(lambda _: next(answers))), work, concurrency=1)


def test_an_alias_is_no_change(serve: Serve) -> None:
    """A hosted model answers with its dated name, each time."""
    url = serve(vllm(lambda _: choices([1], model="m-2026-09-21")))
    assert len(with_server(url, lambda server: server.draw((1,), PLAIN, 2, per_request=1))) == 2


def test_a_fleet_of_several_versions_is_said(serve: Serve) -> None:
    """By the fingerprints of its answers."""
    answers = iter([choices([1], system_fingerprint=f"vllm-0.3{v}.0") for v in (2, 3, 2)])

    async def work(server: Server) -> tuple[str, ...]:
        await server.draw((1,), PLAIN, 3, per_request=1)
        return server.info.warnings

    (warning,) = with_server(serve(vllm(lambda _: next(answers))), work, concurrency=1)
    assert warning.startswith("answers come from 2 versions (vllm-0.32.0, vllm-0.33.0)")


def test_a_prompt_without_its_cache_has_a_salt_of_its_own(serve: Serve) -> None:
    """A prefix cache is keyed by it; with the cache there is none."""
    salts: list[object] = []

    def answer(body: Body) -> object:
        salts.append(body.get("cache_salt"))
        return choices([1])

    async def work(server: Server) -> None:
        for cached in (True, False, False):
            await server.draw((1,), PLAIN, 1, cached=cached)

    with_server(serve(vllm(answer)), work)
    assert salts[0] is None
    assert len(set(salts)) == 3


def test_llama_servers_cache_has_a_switch(serve: Serve) -> None:
    """And it is set either way, since the server's own default may be either."""
    seen: list[object] = []

    def answer(body: Body) -> object:
        seen.append(body["cache_prompt"])
        return {"tokens": [1]}

    script = {"GET /v1/models": {"data": [{"id": "m", "owned_by": "llamacpp"}]}}

    async def work(server: Server) -> None:
        await server.draw((1,), PLAIN, 1)
        await server.draw((1,), PLAIN, 1, cached=False)

    with_server(serve(script | {"POST /completion": answer}), work)
    assert seen == [True, False]


def test_a_text_is_tokenized_where_the_server_can(serve: Serve) -> None:
    """With the ids inside the vocabulary; an engine without such a route says nothing."""
    url = serve(vllm(lambda _: choices([1])) | {"POST /tokenize": {"tokens": [5, 7]}})
    assert with_server(url, lambda server: server.tokenize("a b")) == (5, 7)
    deaf = serve({"GET /v1/models": {"data": [{"id": "m", "owned_by": "me"}]}})
    assert with_server(deaf, lambda server: server.tokenize("a b")) is None
    assert with_server(deaf, lambda server: server.acceptance_rate()) is None


def test_what_a_server_cannot_be_asked_is_not_sent(serve: Serve) -> None:
    """The reason is the profile's; seeds beyond its range are the caller's mistake."""
    url = serve(vllm(lambda _: choices([1])))
    words = SamplingParams(bad_words=((1,),))
    with pytest.raises(ServerError, match="vLLM cannot be sent bad_words"):
        with_server(url, lambda server: server.draw((1,), words, 1))
    with pytest.raises(ValueError, match=r"seeds must be in \[0, 9223372036854775807\]"):
        with_server(url, lambda server: server.draw((1,), PLAIN, 1, seeds=[-1]))


def test_seeded_requests_go_one_by_one_where_a_batch_has_one_seed(serve: Serve) -> None:
    """TensorRT-LLM takes the seed of the first request of a batch: no second is ever in flight."""
    flying, most = [0], [0]

    def answer(body: Body) -> object:
        flying[0] += 1
        most[0] = max(most[0], flying[0])
        tokens = choices([int(np.uint8(len(str(body["seed"]))))])
        flying[0] -= 1
        return tokens

    script = {"GET /v1/models": {"data": [{"id": "m", "owned_by": "tensorrt_llm"}]}}
    url = serve(script | {"POST /v1/completions": answer})
    draws = with_server(url, lambda server: server.draw((1,), PLAIN, 4, seeds=[1, 22, 333, 4444]))
    assert draws.token_ids[:, 0].tolist() == [1, 2, 3, 4]
    assert most == [1]
