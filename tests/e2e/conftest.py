"""vLLM in its own interpreter: its two samplers, called with our requests, and its server."""

import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray

from sampler_scenarios.params import SamplingParams
from sampler_scenarios.requests import ModelConfig

PYTHON = Path(__file__).parents[2] / ".venv-vllm" / "bin" / "python"
DRIVER = Path(__file__).with_name("vllm_sampler_driver.py")

MODEL = PYTHON.parents[1] / "smollm2"
LEASH = '{ "$@" < /dev/null; kill -KILL 0; } & read -r _; kill -KILL 0'
"""Ends the server's engine with the server, and all of it when our end of the pipe is gone."""
READY_S = 300.0
"""Longest wait for the server; 30 to 50 s were seen on two busy cores."""

Arguments = dict[str, Any]
Calls = list[tuple[str, Arguments]]
Answers = list[dict[str, NDArray[Any]]]
Run = Callable[[str, list[tuple[Arguments, Calls]]], list[Answers]]


class Driver:
    """A process of vLLM's interpreter that calls one of its samplers; importing vLLM takes 6 s."""

    def __init__(self, name: str) -> None:
        self._stderr = tempfile.TemporaryFile("w+")  # noqa: SIM115 - lives as long as the process
        self._process = subprocess.Popen(
            [str(PYTHON), str(DRIVER), name],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
        )

    def answer(self, folder: Path) -> None:
        """Have it answer the calls in the folder."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(folder, file=self._process.stdin, flush=True)
        if self._process.stdout.readline() != "done\n":
            self._stderr.seek(0)
            pytest.fail(self._stderr.read()[-2000:])

    def close(self) -> None:
        """End it."""
        self._process.communicate()
        self._stderr.close()


@pytest.fixture(scope="session")
def run_vllm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """``run_vllm("v2", [(facts, calls), ...])``: what each call of each sampler returns."""
    drivers: dict[str, Driver] = {}

    def run(name: str, samplers: list[tuple[Arguments, Calls]]) -> list[Answers]:
        folder = tmp_path_factory.mktemp("vllm")
        _write(folder, samplers)
        if name not in drivers:
            drivers[name] = Driver(name)
        drivers[name].answer(folder)
        answers: list[Answers] = [[{} for _ in calls] for _, calls in samplers]
        for key, array in np.load(folder / "answers.npz").items():
            i, j, field = key.split("/")
            answers[int(i)][int(j)][field] = array
        return answers

    yield run
    for driver in drivers.values():
        driver.close()


def _write(folder: Path, samplers: list[tuple[Arguments, Calls]]) -> None:
    described: list[tuple[Arguments, Calls]] = []
    arrays: dict[str, NDArray[Any]] = {}
    for i, (facts, calls) in enumerate(samplers):
        plain: Calls = []
        for j, (method, arguments) in enumerate(calls):
            held = {k: v for k, v in arguments.items() if isinstance(v, np.ndarray)}
            arrays |= {f"{i}/{j}/{key}": array for key, array in held.items()}
            rest = {k: v for k, v in arguments.items() if k not in held}
            plain.append((method, rest | {"arrays": list(held)}))
        described.append((facts, plain))
    (folder / "calls.json").write_text(json.dumps(described))
    np.savez(folder / "arrays.npz", allow_pickle=False, **arrays)


@pytest.fixture(scope="session")
def vllm_facts() -> Callable[..., Arguments]:
    """What vLLM's samplers are told of a model, and whatever else is to hold for them."""

    def facts(model: ModelConfig, **others: Any) -> Arguments:
        return {
            "vocab_size": model.vocab_size,
            "max_model_len": model.max_model_len,
            "eos_token_ids": model.eos_token_ids,
            "reasoning_start": model.reasoning_start,
            "reasoning_end": model.reasoning_end,
            **others,
        }

    return facts


@pytest.fixture(scope="session")
def vllm_settings() -> Callable[[SamplingParams], Arguments]:
    """The parameters that differ from their defaults."""

    def settings(params: SamplingParams) -> Arguments:
        default = SamplingParams()
        values = {field.name: getattr(params, field.name) for field in fields(params)}
        return {k: v for k, v in values.items() if v != getattr(default, k)}

    return settings


class VllmServer:
    """vLLM's OpenAI-compatible server on the CPU, with a small model. Killed, it starts anew."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._url = ""

    def url(self) -> str:
        """Where it is ready to answer."""
        if self._process is None:
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = free.getsockname()[1]
            self._url = f"http://127.0.0.1:{port}"
            self._process = self._start(port)
            self._wait(self._process)
        return self._url

    def kill(self) -> None:
        """End it by SIGKILL, with every process that it started."""
        if self._process is not None:
            if self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()
            self._process = None

    def _start(self, port: int) -> subprocess.Popen[bytes]:
        server = [str(PYTHON), "-m", "vllm.entrypoints.openai.api_server", "--model", str(MODEL)]
        address = ["--served-model-name", "smollm2", "--host", "127.0.0.1", "--port", str(port)]
        # Nothing is compiled: it would take minutes, and a compiler.
        small = ["--dtype", "bfloat16", "--max-model-len", "512", "--enforce-eager"]
        with self._log.open("wb") as log:
            return subprocess.Popen(
                ["bash", "-c", LEASH, "vllm", *server, *address, *small],
                env={
                    **os.environ,
                    "HF_HUB_OFFLINE": "1",
                    "TORCHDYNAMO_DISABLE": "1",
                    "VLLM_CPU_KVCACHE_SPACE": "1",
                    "VLLM_NO_USAGE_STATS": "1",
                },
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + READY_S
        while process.poll() is None and time.monotonic() < deadline:
            try:
                if httpx.get(f"{self._url}/health").is_success:
                    return
            except httpx.TransportError:
                time.sleep(0.5)
        self.kill()
        pytest.fail(f"vLLM's server did not start:\n{self._log.read_text()[-3000:]}")


@pytest.fixture(scope="session")
def vllm_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmServer]:
    """The server, started when its URL is first asked for."""
    server = VllmServer(tmp_path_factory.mktemp("vllm-server") / "log.txt")
    yield server
    server.kill()
