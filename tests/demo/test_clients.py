"""Our own client detects each style as the engine that it speaks like, and reads all of it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import numpy as np
import pytest

from sampler_audit.demo import MODEL as MODEL_NAME
from sampler_audit.demo import RunningServer
from sampler_audit.demo.model import DemoModel
from sampler_audit.errors import ServerError
from sampler_audit.servers import ENDED, Connection, Server, connect
from sampler_scenarios.params import SamplingParams

Start = Callable[..., RunningServer]
T = TypeVar("T")

MODEL = DemoModel()
TEXT = "She opened the door and saw"
PROMPT = MODEL.tokenizer.encode(TEXT)
ROW = MODEL.row(PROMPT).astype(np.float64)
LOGPROBS = ROW - np.logaddexp.reduce(ROW)
# Log-probs travel as float32 of numbers below 32.
ROUNDING = 4e-6

ENGINES = {"vllm": "vllm", "llama": "llama_server", "openai20": "openai"}


def with_client(server: RunningServer, use: Callable[[Server], Awaitable[T]]) -> T:
    """What ``use`` returns of a client that has found out what the server is."""

    async def run() -> T:
        client = await connect(Connection(url=server.url))
        try:
            return await use(client)
        finally:
            await client.close()

    return asyncio.run(run())


async def _info(client: Server) -> tuple[str, str, int | None, bool]:
    info = client.info
    assert not info.warnings
    return info.engine, info.model, info.vocab_size, info.ids


@pytest.mark.parametrize("style", ENGINES)
def test_the_engine_is_detected(start: Start, style: str) -> None:
    """By its own signs, without a warning; only openai20 tells no ids and no vocabulary."""
    found = with_client(start(style=style), _info)
    ids = style != "openai20"
    assert found == (ENGINES[style], MODEL_NAME, 4096 if ids else None, ids)


@pytest.mark.parametrize("style", ENGINES)
def test_the_probe_finds_every_field_acting(start: Start, style: str) -> None:
    """Of those that one token can tell; seeds act, log-probs are raw, nothing is dropped."""

    async def probe(client: Server) -> tuple[object, ...]:
        found = await client.capabilities(PROMPT if client.profile.prompt_ids else TEXT)
        acting = {name for name, acts in found.acts.items() if acts}
        assert not found.refused
        return acting, found.seeds, found.logprobs, found.dropped, found.logprob_cap

    filters = {"temperature", "top_k", "top_p", "min_p", "logit_bias"}
    acting = {
        "vllm": filters | {"allowed_token_ids"},
        "llama": filters,
        "openai20": {"temperature", "top_p"},
    }[style]
    cap = {"vllm": 20, "llama": 1000, "openai20": 20}[style]
    assert with_client(start(style=style), probe) == (acting, True, "raw", (), cap)


@pytest.mark.parametrize(
    ("style", "method"),
    [("vllm", "sentinel"), ("vllm", "chosen_ids"), ("vllm", "output"), ("llama", "output")],
)
def test_reference_rows_are_the_models(start: Start, style: str, method: str) -> None:
    """Token by token; chosen ids and llama's lists hold the whole vocabulary."""

    async def row(client: Server) -> tuple[list[int], list[float], bool]:
        k = 20 if style == "vllm" else 4096
        found = await client.reference_row(PROMPT, method=method, k=k)  # type: ignore[arg-type]  # a literal
        return found.token_ids.tolist(), found.logprobs.tolist(), found.complete

    token_ids, logprobs, complete = with_client(start(style=style), row)
    assert complete == ((style, method) not in (("vllm", "sentinel"), ("vllm", "output")))
    assert len(token_ids) == (4096 if complete else 20)
    assert np.abs(LOGPROBS[token_ids] - logprobs).max() < ROUNDING
    assert min(logprobs) >= np.sort(LOGPROBS)[-len(token_ids)] - ROUNDING


def test_strings_stand_for_the_same_rows(start: Start) -> None:
    """Of openai20: the names are the tokenizer's, the values the model's."""

    async def row(client: Server) -> dict[str, float]:
        found = await client.reference_row(TEXT)
        names = map(client.name, found.token_ids.tolist())
        return dict(zip(names, found.logprobs.tolist(), strict=True))

    listed = with_client(start(style="openai20"), row)
    assert len(listed) == 20
    for name, logprob in listed.items():
        (token_id,) = MODEL.tokenizer.encode(name)
        assert abs(LOGPROBS[token_id] - logprob) < ROUNDING


def test_prompt_rows_hold_each_own_token(start: Start) -> None:
    """The row before each token of the prompt is the model's, with that token's log-prob."""

    async def rows(client: Server) -> list[float]:
        return [row.own_logprob for row in await client.prompt_rows(PROMPT, start=1, k=5)]

    own = with_client(start(), rows)
    for end, logprob in enumerate(own, start=1):
        row = MODEL.row(PROMPT[:end]).astype(np.float64)
        assert abs(row[PROMPT[end]] - np.logaddexp.reduce(row) - logprob) < ROUNDING
    assert len(own) == len(PROMPT) - 1


@pytest.mark.parametrize("style", ["vllm", "llama"])
def test_draws_repeat_by_their_seed_however_they_are_shared_out(start: Start, style: str) -> None:
    """Choice i of a request with seed s is the only choice of a request with seed s + i."""

    async def draws(client: Server) -> list[list[list[int]]]:
        params = SamplingParams(top_k=50)
        asked = [
            client.draw(PROMPT, params, 12, seeds=range(5, 17), max_tokens=3, per_request=most)
            for most in (12, 5, 1)
        ]
        return [(await each).token_ids.tolist() for each in asked]

    together, apart, alone = with_client(start(style=style), draws)
    assert together == apart == alone
    assert len({tuple(tokens) for tokens in together}) > 6


def test_the_styles_draw_alike_where_their_rules_agree(start: Start) -> None:
    """One filter at temperature 1 has one meaning; seeds and ids are the same ones."""

    async def draws(client: Server) -> list[list[int]]:
        found = await client.draw(PROMPT, SamplingParams(top_p=0.9), 30, seeds=range(30))
        tokens: list[list[int]] = found.token_ids.tolist()
        return tokens

    assert with_client(start(), draws) == with_client(start(style="llama"), draws)


@pytest.mark.parametrize("style", ENGINES)
def test_each_draw_lists_the_row_of_its_own_step(start: Start, style: str) -> None:
    """Also of later tokens: the row after the prompt and what was drawn before it."""

    def ids_of(client: Server, tokens: list[int]) -> tuple[int, ...]:
        if client.profile.ids:
            return tuple(tokens)
        return MODEL.tokenizer.encode("".join(map(client.name, tokens)))

    async def draws(client: Server) -> list[tuple[tuple[int, ...], list[list[float]]]]:
        asked = {"seeds": range(6), "max_tokens": 3, "logprobs": 9}
        prompt = PROMPT if client.profile.prompt_ids else TEXT
        found = await client.draw(prompt, SamplingParams(), 6, **asked)  # type: ignore[arg-type]  # a mixed dict
        tokens = [ids_of(client, own[own != ENDED].tolist()) for own in found.token_ids]
        rows = [[row.logprobs.tolist() for row in rows] for rows in found.rows]
        return list(zip(tokens, rows, strict=True))

    for tokens, rows in with_client(start(style=style), draws):
        for i, logprobs in enumerate(rows):
            row = MODEL.row((*PROMPT, *tokens[:i])).astype(np.float64)
            expected = np.sort(row)[::-1][:9] - np.logaddexp.reduce(row)
            assert np.abs(expected - logprobs).max() < ROUNDING


def test_noise_and_offset_part_the_yardstick_from_the_draws(start: Start) -> None:
    """A constant offset shows in no repetition of the yardstick, and in every draw's own row."""

    async def spread(client: Server) -> tuple[float, float]:
        first, again = [await client.reference_row(PROMPT, k=5) for _ in range(2)]
        ((own,),) = (await client.draw(PROMPT, SamplingParams(), 1, logprobs=20)).rows
        _, here, there = np.intersect1d(first.token_ids, own.token_ids, return_indices=True)
        repeated = np.abs(first.logprobs - again.logprobs).max()
        return float(repeated), float(np.abs(first.logprobs[here] - own.logprobs[there]).max())

    repeated, apart = with_client(start(offset=0.3), spread)
    assert repeated == 0
    assert 0.05 < apart < 0.6
    repeated, apart = with_client(start(noise=0.3), spread)
    assert min(repeated, apart) > 0.05
    assert max(with_client(start(), spread)) < ROUNDING


def test_the_acceptance_rate_of_drafts_is_told(start: Start) -> None:
    """By the metrics, once drafts were verified; without speculation there is none."""

    async def rate(client: Server) -> float | None:
        await client.draw(PROMPT, SamplingParams(top_k=5), 50, max_tokens=2)
        return await client.acceptance_rate()

    told = with_client(start(speculative=True), rate)
    assert told is not None
    assert 0.3 < told < 1
    assert with_client(start(), rate) is None


def test_a_token_that_does_not_exist_is_nonsense_to_the_client(start: Start) -> None:
    """Every sixteenth draw of that defect is one."""

    async def draws(client: Server) -> None:
        await client.draw(PROMPT, SamplingParams(), 40)

    with pytest.raises(ServerError, match="token id 4096 lies outside the vocabulary"):
        with_client(start(defect="outside-vocabulary"), draws)
