import asyncio
import subprocess
import sys
from collections.abc import Callable, Mapping

import pytest

from sampler_audit.errors import (
    ServerError,
    ServerNonsense,
    ServerRefused,
    ServerUnreachable,
    UsageError,
)
from sampler_audit.servers import Connection, ServerInfo, connect, profile_of, server_names

Serve = Callable[[Mapping[str, object]], str]
CHAT = "POST /v1/chat/completions"
COMPLETIONS = "POST /v1/completions"
FINE = {"choices": [{"index": 0, "text": "a", "message": {"content": "a"}}]}


def models(owner: str | None, **more: object) -> dict[str, object]:
    """What ``GET /v1/models`` answers."""
    entry = {"id": "m", **({} if owner is None else {"owned_by": owner}), **more}
    return {"GET /v1/models": {"object": "list", "data": [entry]}}


def info(url: str, **how: object) -> ServerInfo:
    """What ``connect`` finds out."""

    async def run() -> ServerInfo:
        server = await connect(Connection(url=url, **how))  # type: ignore[arg-type]  # any field
        await server.close()
        return server.info

    return asyncio.run(run())


# What each engine is told by, from the sources that its file names.
SIGNS: dict[str, dict[str, object]] = {
    "vllm": models("vllm"),
    "sglang": models("sglang"),
    "llama_server": models("llamacpp"),
    "llama_cpp_python": models("me"),
    "tensorrt_llm": models("tensorrt_llm"),
    "lmdeploy": models("lmdeploy"),
    "tabby_api": models("tabbyAPI"),
    "aphrodite": models("aphrodite"),
    "ollama": models("someone") | {"GET /": "Ollama is running"},
    "tgi": models("org/model") | {"GET /info": {"router": "text-generation-router"}},
    "mlx_lm": models(None)
    | {CHAT: FINE | {"system_fingerprint": "0.32.2-0.32.4-Linux-6.18-x86_64-with-glibc2.36"}},
    "openai": models("system") | {CHAT: FINE, COMPLETIONS: FINE},
    "openai_completions": models("organization") | {COMPLETIONS: FINE},
}


@pytest.mark.parametrize("name", server_names())
def test_an_engine_is_recognised_by_its_sign(serve: Serve, name: str) -> None:
    """Every profile has one; what matched is printed."""
    found = info(serve(SIGNS[name]))
    assert (found.engine, found.model) == (name, "m")
    assert len(found.evidence) == 2
    assert found.warnings == ()


@pytest.mark.parametrize(
    ("script", "name"),
    [
        (models("org") | {"Server": "llama.cpp"}, "llama_server"),
        (models("org") | {"GET /props": {"default_generation_settings": {}}}, "llama_server"),
        (models("org") | {"GET /server_info": {"sampling_backend": "flashinfer"}}, "sglang"),
        (models("org") | {CHAT: FINE | {"system_fingerprint": "vllm-0.33.0-tp2-ab"}}, "vllm"),
        (
            models("org") | {COMPLETIONS: FINE | {"system_fingerprint": "b6543-0a1b2c3"}},
            "llama_server",
        ),
        (models("org") | {CHAT: FINE | {"system_fingerprint": "fp_ollama"}}, "ollama"),
        # SGLang imitates Ollama's pages, so the owner of the model goes first.
        (models("sglang") | {"GET /": "Ollama is running"}, "sglang"),
    ],
)
def test_weaker_signs_are_asked_for_in_turn(
    serve: Serve, script: dict[str, object], name: str
) -> None:
    """A gateway may rewrite the owner."""
    assert info(serve(script)).engine == name


def test_an_engine_can_be_named(serve: Serve) -> None:
    """--engine goes before every sign, and the evidence says so."""
    found = info(serve(models("vllm")), engine="sglang")
    assert (found.engine, found.evidence[-1]) == ("sglang", "--engine sglang")


def test_an_engine_that_is_not_known_is_a_usage_error() -> None:
    """Before anything is sent."""
    with pytest.raises(UsageError, match="unknown engine 'vlm'; known: auto, aphrodite"):
        info("http://127.0.0.1:9", engine="vlm")


def test_what_the_server_tells_is_kept(serve: Serve) -> None:
    """llama-server: build, slots and the size of the vocabulary."""
    script = models("llamacpp", meta={"n_vocab": 49152}) | {
        "GET /props": {"build_info": "b6543-0a1b2c3", "total_slots": 4},
    }
    found = info(serve(script))
    assert (found.version, found.vocab_size) == ("b6543-0a1b2c3", 49152)
    assert found.facts["n_limit"] == 4


@pytest.mark.parametrize(
    ("name", "path", "words", "size"),
    [
        ("vllm", "/v1/completions", "out-of-vocab token ids. Vocabulary size: 49152", 49152),
        ("sglang", "/generate", "logit_bias must has keys in [0, 151935], got 2147483647.", 151936),
        ("sglang", "/generate", "something else is wrong", None),
    ],
)
def test_a_refusal_tells_the_size_of_the_vocabulary(
    serve: Serve, name: str, path: str, words: str, size: int | None
) -> None:
    """An impossible token id is asked about; the words are vllm 0.32.0's and sglang 0.5.23's."""
    script = SIGNS[name] | {f"POST {path}": (400, {"error": {"message": words}})}
    assert info(serve(script)).vocab_size == size


def test_200_to_nonsense_is_said(serve: Serve) -> None:
    """LM Studio answers 200 to any path, so only the words of a page count."""

    class Anything(dict[str, object]):
        def get(self, key: str, default: object = None) -> object:
            return super().get(
                key, default if key == "Server" else {"error": "Unexpected endpoint"}
            )

    found = info(serve(Anything(models("vllm"))))
    assert found.engine == "vllm"
    assert found.warnings == (
        "it answers 200 to a path that does not exist, so a status says nothing",
    )


def test_a_gateway_is_said(serve: Serve) -> None:
    """It may drop fields."""
    answer = (200, models("vllm")["GET /v1/models"], {"x-litellm-version": "1.80"})
    (warning,) = info(serve({"GET /v1/models": answer})).warnings
    assert warning.startswith("a gateway stands before it (header x-litellm-version)")


def test_a_named_model_is_looked_up(serve: Serve) -> None:
    """The owner of that model counts, where a gateway lists models of several engines."""
    data = [{"id": "a", "owned_by": "vllm"}, {"id": "b", "owned_by": "sglang"}]
    url = serve({"GET /v1/models": {"data": data}, CHAT: FINE})
    assert info(url, model="b").engine == "sglang"
    found = info(url, model="c", engine="vllm")
    assert found.warnings == ("GET /v1/models does not list the model 'c'",)


@pytest.mark.parametrize(
    ("script", "kind", "words"),
    [
        (
            {"GET /v1/models": (401, {"error": "Unauthorized"})},
            ServerRefused,
            "401 .*--api-key-env",
        ),
        ({}, ServerRefused, "status 404, and no model is listed; check the URL"),
        ({"GET /v1/models": {"data": []}}, ServerRefused, "name one with --model"),
        ({"GET /v1/models": "<html>"}, ServerRefused, "name one with --model"),
        (models("org"), ServerRefused, "POST /v1/chat/completions: status 404"),
        (models("org") | {CHAT: {"hello": 1}}, ServerNonsense, "choices is missing"),
        ({"GET /v1/models": b""}, ServerUnreachable, "the connection broke"),
    ],
)
def test_what_is_no_server_of_models_ends_in_one_line(
    serve: Serve, script: dict[str, object], kind: type[ServerError], words: str
) -> None:
    """With the exit code of "could not audit"."""
    with pytest.raises(kind, match=words) as caught:
        info(serve(script))
    assert caught.value.exit_code == 3


def test_every_engine_is_listed_by_its_file() -> None:
    """And only engines are."""
    assert all(profile_of(name).name == name for name in server_names())
    assert {"vllm", "sglang", "llama_server", "openai"} <= set(server_names())


def test_listing_engines_imports_no_http() -> None:
    """So that ``sampler-audit --help`` stays quick."""
    code = (
        "import sys, sampler_audit.servers as s; s.profile_of('tgi'); print('httpx' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "False\n"
