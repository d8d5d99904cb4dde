"""Our client and a real vLLM 0.32.0: SmolLM2-135M on the CPU, at the server's default settings."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

import numpy as np
import pytest

from sampler_audit.errors import ServerUnreachable
from sampler_audit.servers import Connection, Draws, Server, connect
from sampler_scenarios.params import SamplingParams

WEATHER = "The weather today is"

pytestmark = pytest.mark.e2e

T = TypeVar("T")


class VllmServer(Protocol):
    """What conftest.py's fixture hands out."""

    def url(self) -> str:
        """Where it is ready to answer."""

    def kill(self) -> None:
        """End it by SIGKILL."""


def ask(url: str, question: Callable[[Server, tuple[int, ...]], Awaitable[T]]) -> T:
    """What comes of a question to the server about the text above, given as token ids."""

    async def main() -> T:
        server = await connect(Connection(url=url, retries=1))
        try:
            token_ids = await server.tokenize(WEATHER)
            assert token_ids is not None
            return await question(server, token_ids)
        finally:
            await server.close()

    return asyncio.run(main())


def test_it_is_recognised(vllm_server: VllmServer) -> None:
    """By its own words, with its version and the size of its vocabulary."""

    async def question(server: Server, token_ids: tuple[int, ...]) -> tuple[str, ...]:
        await server.draw(token_ids, SamplingParams(), 1)
        info = server.info
        # The size is that of the GGUF file's token list.
        assert (info.engine, info.version, info.vocab_size) == ("vllm", "0.32.0", 49152)
        assert info.conventions[0] == "vllm-pytorch"
        assert info.warnings == ()
        return info.fingerprints

    (fingerprint,) = ask(vllm_server.url(), question)
    assert fingerprint.startswith("vllm-0.32.0-")


def test_what_it_can_do(vllm_server: VllmServer) -> None:
    """Every field that one token can show acts; the cap and the raw log-probs are the default."""
    found = ask(vllm_server.url(), lambda server, ids: server.capabilities(ids))
    shown = {name for name, acts in found.acts.items() if acts}
    assert shown == {"temperature", "top_k", "top_p", "min_p", "logit_bias", "allowed_token_ids"}
    assert found.methods == ("sentinel", "chosen_ids", "output")
    assert (found.logprob_cap, found.logprobs, found.seeds) == (20, "raw", True)
    assert (found.constant, found.refused, found.dropped) == (False, {}, ())


def test_three_ways_to_the_reference_row_agree(vllm_server: VllmServer) -> None:
    """The prompt's row with a sentinel, the list beside a draw, and the same tokens chosen."""

    async def question(server: Server, token_ids: tuple[int, ...]) -> None:
        row = await server.reference_row(token_ids, method="sentinel")
        assert len(row.token_ids) == 20
        output = await server.reference_row(token_ids, method="output")
        listed = row.token_ids.tolist()
        chosen = await server.reference_row(token_ids, method="chosen_ids", token_ids=listed)
        # One step of bf16 at the logits of 16 to 32 that lead this row; 0 was seen.
        np.testing.assert_allclose(output.logprobs, row.logprobs, rtol=0, atol=0.125)
        np.testing.assert_allclose(chosen.logprobs, output.logprobs, rtol=0, atol=1e-4)

    ask(vllm_server.url(), question)


def test_ties_at_rank_20_are_all_kept(vllm_server: VllmServer) -> None:
    """What top_k 20 draws beyond the 20 tokens of the list has the log-prob of the 20th."""

    async def question(server: Server, token_ids: tuple[int, ...]) -> None:
        row = await server.reference_row(token_ids)
        drawn = await server.draw(token_ids, SamplingParams(top_k=20), 400, seeds=range(400))
        beyond = np.setdiff1d(drawn.token_ids, row.token_ids).tolist()
        assert beyond
        tied = await server.reference_row(token_ids, method="chosen_ids", token_ids=beyond)
        np.testing.assert_allclose(tied.logprobs, row.logprobs[-1], rtol=0, atol=1e-4)

    ask(vllm_server.url(), question)


def test_draws_have_the_rows_frequencies(vllm_server: VllmServer) -> None:
    """Of 400 draws without filters, the share of the two likeliest is theirs; halved it is not."""

    async def question(server: Server, token_ids: tuple[int, ...]) -> tuple[float, float]:
        row = await server.reference_row(token_ids)
        drawn = await server.draw(token_ids, SamplingParams(), 400, seeds=range(1000, 1400))
        share = np.isin(drawn.token_ids, row.token_ids[:2]).mean()
        return float(share), float(np.exp(row.logprobs[:2]).sum())

    share, expected = ask(vllm_server.url(), question)
    # 5 standard errors of a share of .32 in 400 draws: a false alarm in 2 million.
    assert share == pytest.approx(expected, abs=0.117)
    assert share != pytest.approx(expected / 2, abs=0.117)


def test_a_seed_repeats_its_tokens(vllm_server: VllmServer) -> None:
    """Alone as among the choices of a request, whose seeds count up; tokens are told by id."""

    async def question(server: Server, token_ids: tuple[int, ...]) -> tuple[Draws, Draws]:
        params = SamplingParams(top_k=50)
        together = await server.draw(token_ids, params, 6, seeds=range(5, 11), max_tokens=3)
        alone = await server.draw(
            token_ids, params, 6, seeds=range(5, 11), max_tokens=3, per_request=1
        )
        return together, alone

    together, alone = ask(vllm_server.url(), question)
    assert (len(set(together.requests)), len(set(alone.requests))) == (1, 6)
    assert together.token_ids[:, 0].tolist() == alone.token_ids[:, 0].tolist()
    assert len(np.unique(together.token_ids[:, 0])) > 1
    assert together.token_ids.min() >= 0
    assert together.token_ids.max() < 49152


def test_kill_9_of_the_server_is_one_clear_line(vllm_server: VllmServer) -> None:
    """And an error that ends in 3; the draws that had come are kept."""
    url = vllm_server.url()
    kept: list[Draws] = []

    def arrived(draws: Draws) -> None:
        kept.append(draws)
        if len(kept) == 5:
            vllm_server.kill()

    with pytest.raises(ServerUnreachable) as failure:
        ask(
            url,
            lambda server, ids: server.draw(
                ids, SamplingParams(), 4000, per_request=10, arrived=arrived
            ),
        )
    assert failure.value.exit_code == 3
    assert url in str(failure.value)
    assert "connection refused" in str(failure.value)
    assert "\n" not in str(failure.value)
    assert 50 <= sum(map(len, kept)) < 4000
