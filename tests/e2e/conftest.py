"""vLLM's two samplers, called in their own interpreter, and how our requests are put to them."""

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sampler_scenarios.params import SamplingParams
from sampler_scenarios.requests import ModelConfig

PYTHON = Path(__file__).parents[2] / ".venv-vllm" / "bin" / "python"
DRIVER = Path(__file__).with_name("vllm_sampler_driver.py")

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
