"""Time per stage of one step of 64 mixed requests, on the CPU: torch twins, then the kernels.

Run it by hand: ``python tests/benchmarks/sampler_step.py [vocab_size] [n_requests]``. Without a GPU
the kernels run under Triton's interpreter, whose times say nothing about a device.
"""

import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from statistics import median
from typing import ParamSpec, TypeVar
from unittest.mock import patch

import numpy as np
import torch

from sampler_audit.sampler.batched import BatchedSampler
from sampler_audit.sampler.launches import Launches
from sampler_audit.sampler.pipeline import Path
from sampler_audit.sampler.processors.examples.dry import Dry
from sampler_scenarios.params import STAGES, SamplingParams
from sampler_scenarios.requests import Request
from sampler_scenarios.stages import audit_model, build_request

P = ParamSpec("P")
R = TypeVar("R")

FILTERS = (
    SamplingParams(),
    SamplingParams(temperature=0),
    SamplingParams(temperature=0.7, top_k=50),
    SamplingParams(top_p=0.9),
    SamplingParams(temperature=0.6, top_k=20, top_p=0.95, min_p=0.05),
    SamplingParams(temperature=1.3, min_p=0.02, logprobs=5),
)
N_REPEATS: dict[Path, int] = {"twin": 5, "kernel": 1}


class TimedLaunches(Launches):
    """Launches that also keep the seconds that each name took."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def of(self, kernel: Callable[P, R], twin: Callable[..., R]) -> Callable[P, R]:
        """See ``Launches.of``."""
        run = super().of(kernel, twin)

        def timed(*args: P.args, **kwargs: P.kwargs) -> R:
            start = time.perf_counter()
            result = run(*args, **kwargs)
            self.seconds[kernel.__name__] += time.perf_counter() - start
            return result

        return timed


def mixed_requests(logits: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> list[Request]:
    """One a row, in turn: each stage alone, then none, then all of them; and each of FILTERS."""
    turns = [*((stage,) for stage in STAGES), (), STAGES]
    requests = []
    for i, row in enumerate(logits):
        params = replace(FILTERS[i % len(FILTERS)], seed=i)
        requests.append(build_request(row, params, turns[i % len(turns)]))
    return requests


def time_step(path: Path, vocab_size: int, n_requests: int) -> dict[str, float]:
    """Milliseconds by what ran, of the median step."""
    rng = np.random.default_rng(1)
    logits = rng.normal(0, 3, (n_requests, vocab_size)).astype(np.float32)
    requests = mixed_requests(logits)
    with patch("sampler_audit.sampler.batched.Launches", TimedLaunches):
        sampler = BatchedSampler(
            audit_model(vocab_size),
            path=path,
            processors=[Dry],
            rng=rng,
            max_requests=n_requests,
        )
    launches = sampler._launches
    assert isinstance(launches, TimedLaunches)
    slots = [sampler.add(request) for request in requests]
    grammar = [request.grammar for request in requests]
    steps: list[dict[str, float]] = []
    for _ in range(1 + N_REPEATS[path]):
        launches.seconds.clear()
        start = time.perf_counter()
        sampler.step(torch.from_numpy(logits), slots, grammar=grammar)
        whole = time.perf_counter() - start
        parts = dict(launches.seconds)
        steps.append(
            parts | {"processors and the rest": whole - sum(parts.values()), "the step": whole}
        )
    # The first step brings the state to the device and warms up.
    names = [*steps[0]]
    return {name: 1e3 * median(s.get(name, 0.0) for s in steps[1:]) for name in names}


def main() -> None:
    """Print one table, a line for each thing that ran."""
    # One core, so that the figures do not depend on who else is using the others.
    torch.set_num_threads(1)
    vocab_size, n_requests = (*map(int, sys.argv[1:]), *(32768, 64)[len(sys.argv) - 1 :])
    times = {path: time_step(path, vocab_size, n_requests) for path in N_REPEATS}
    print(f"{n_requests} mixed requests, vocabulary {vocab_size}, milliseconds a step")  # noqa: T201
    for name, twin in times["twin"].items():
        print(f"{name:32} twin {twin:9.1f}   kernel {times['kernel'][name]:9.1f}")  # noqa: T201


if __name__ == "__main__":
    main()
