import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol

import pytest

from sampler_audit.errors import ServerNonsense
from sampler_audit.servers import Capabilities, Connection, connect

Serve = Callable[[Mapping[str, object]], str]
Answer = Callable[[dict[str, object]], object]


class Engine(Protocol):
    """The healthy engine of the fixture ``make_engine``."""

    def script(self) -> dict[str, object]:
        """What it answers."""


Make = Callable[..., Engine]
ACTING = ("temperature", "top_k", "top_p", "min_p", "logit_bias", "allowed_token_ids")


def probed(
    serve: Serve, engine: Engine, change: Callable[[Answer], Answer] | None = None
) -> Capabilities:
    """What the probe finds at an engine, or at one whose answers something changes."""
    script = engine.script()
    complete = script["POST /v1/completions"]
    assert callable(complete)
    if change is not None:
        script["POST /v1/completions"] = change(complete)

    async def run() -> Capabilities:
        server = await connect(Connection(url=serve(script)))
        try:
            return await server.capabilities((3, 1))
        finally:
            await server.close()

    return asyncio.run(run())


def test_a_healthy_engine(serve: Serve, make_engine: Make) -> None:
    """Every field acts; lists of four (the refusal says so); ids, n and seeds as promised."""
    found = probed(serve, make_engine())
    assert {name: found.acts[name] for name in ACTING} == dict.fromkeys(ACTING, True)
    assert found.methods == ("sentinel", "chosen_ids", "output")
    assert (found.logprob_cap, found.logprobs, found.seeds) == (4, "raw", True)
    # ln(1e-6) / ln(.3) = 11.5: so many equal draws of the likeliest token are no chance.
    assert found.n_per_request == 12
    assert (found.constant, found.dropped, found.refused) == (False, (), {})
    assert found.n_requests <= 20


@pytest.mark.parametrize("name", ACTING)
def test_a_field_that_is_ignored(serve: Serve, make_engine: Make, name: str) -> None:
    """Accepted without a word, as many servers do; the others still act."""
    found = probed(serve, make_engine(ignored=(name,)))
    assert {field: found.acts[field] for field in ACTING} == {f: f != name for f in ACTING}


@pytest.mark.parametrize("mode", ["raw", "after temperature", "after filters"])
def test_what_log_probs_are(serve: Serve, make_engine: Make, mode: str) -> None:
    """By the same list at T = 1 and T = .5, and by its length under top_k = 2."""
    assert probed(serve, make_engine(mode=mode)).logprobs == mode


def test_seeds_that_are_ignored(serve: Serve, make_engine: Make) -> None:
    """Equal seeds give other draws."""
    assert probed(serve, make_engine(ignored=("seed",))).seeds is False


def test_a_server_that_repeats_itself(serve: Serve, make_engine: Make) -> None:
    """All draws equal, though none was seeded: it has a seed of its own for every request."""

    def fixed(complete: Answer) -> Answer:
        def answer(body: dict[str, object]) -> object:
            sizes = body.get("n", 1)
            assert isinstance(sizes, int)
            reply = complete({**body, "n": 1, "seed": 11})
            if isinstance(reply, dict):
                (choice,) = reply["choices"]
                reply["choices"] = [{**choice, "index": i} for i in range(sizes)]
            return reply

        return answer

    found = probed(serve, make_engine(), fixed)
    assert found.constant
    assert found.seeds is False


def test_a_gateway_that_drops_fields(serve: Serve, make_engine: Make) -> None:
    """What did not come back is named, and the ways that work are left; n becomes 1."""
    found = probed(serve, make_engine(ignored=("prompt_logprobs", "logprob_token_ids", "n")))
    assert found.methods == ("output",)
    assert [line.split(":")[0] for line in found.dropped] == ["sentinel", "n"]
    assert found.n_per_request == 1


@pytest.mark.parametrize("name", ["min_p", "seed"])
def test_a_field_that_is_refused(serve: Serve, make_engine: Make, name: str) -> None:
    """As vLLM refuses min_p beside speculative decoding: it is no fault, and it is said."""

    def refusing(complete: Answer) -> Answer:
        return lambda body: (400, {"message": "not this"}) if body.get(name) else complete(body)

    found = probed(serve, make_engine(), refusing)
    assert found.acts.get(name) is None
    assert found.seeds is (None if name == "seed" else True)
    assert "not this" in found.refused[name]
    assert found.acts["top_p"]


def test_a_server_without_any_log_probs(serve: Serve, make_engine: Make) -> None:
    """Nothing to hold its draws against: the reason is what came of the best way."""
    engine = make_engine(ignored=("prompt_logprobs", "logprob_token_ids", "logprobs"))
    with pytest.raises(ServerNonsense, match="prompt_logprobs is missing"):
        probed(serve, engine)


def test_a_prompt_whose_next_token_is_certain_tells_nothing(
    serve: Serve, make_engine: Make
) -> None:
    """At .9 even 64 equal draws have a chance of .0012; rare tokens can still be forced."""
    probs = (0.9, 0.03, 0.02, 0.01, 0.01, 0.01, 0.01, 0.01)
    found = probed(serve, make_engine(probs=probs))
    assert {found.acts[name] for name in ("temperature", "top_k", "top_p", "min_p")} == {None}
    assert found.acts["logit_bias"]
    assert (found.seeds, found.constant) == (None, False)


def test_tokens_that_are_all_alike_do_not_tell_what_log_probs_are(
    serve: Serve, make_engine: Make
) -> None:
    """A flat row is the same at any temperature; and of two ties in bf16 any may be the best."""
    found = probed(serve, make_engine(probs=(0.125,) * 8))
    assert found.logprobs == "unknown"
    assert found.acts["top_k"] is None


@pytest.mark.parametrize("words", ["too many", "at most 999, or 3 in 7 requests"])
def test_a_refusal_that_names_no_length_that_works(
    serve: Serve, make_engine: Make, words: str
) -> None:
    """What it names is tried, then what nobody refuses; this engine takes up to four."""
    found = probed(serve, make_engine(refuses=words))
    assert found.logprob_cap == (1 if words == "too many" else 3)


def test_log_probs_that_have_nothing_to_do_with_the_draws(serve: Serve, make_engine: Make) -> None:
    """Neither raw nor divided: a list of another model."""

    def skewed(complete: Answer) -> Answer:
        def answer(body: dict[str, object]) -> object:
            body = {**body, "temperature": 1.7} if body.get("temperature") == 0.5 else body
            return complete(body)

        return answer

    found = probed(serve, make_engine(mode="after temperature"), skewed)
    assert found.logprobs == "unknown"
