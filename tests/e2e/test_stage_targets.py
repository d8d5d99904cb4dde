"""Engines with stages, each examined under its own convention and under another engine's."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from sampler_audit.draws import Stepped, Target
from sampler_audit.examine import examine
from sampler_audit.plan import build_plan
from sampler_audit.results import CellResult
from sampler_audit.state_probe import expected_row
from sampler_audit.targets import open_target
from sampler_reference.conventions import CONVENTIONS
from sampler_scenarios.batches import Batch
from sampler_scenarios.params import SamplingParams
from sampler_scenarios.requests import Request

ROOT = Path(__file__).parents[2]
VLLM = str(ROOT / ".venv-vllm" / "bin" / "python")
TRANSFORMERS = str(ROOT / ".venv-transformers" / "bin" / "python")
LIB = {"lib": str(ROOT / ".venv-llama-cpp" / "libllama.so")}

pytestmark = pytest.mark.e2e

Opened = Callable[[str], Target]


class Under:
    """A target that declares another convention than its own."""

    def __init__(self, target: Target, convention: str) -> None:
        self._target = target
        self.info = replace(target.info, convention=convention)

    def kept(self, batch: Batch) -> NDArray[np.bool_]:
        """The target's."""
        return self._target.kept(batch)

    def filtered(self, batch: Batch) -> NDArray[np.float32]:
        """The target's."""
        return self._target.filtered(batch)

    def step(self, batch: Batch, seeds: NDArray[np.int64]) -> Stepped:
        """The target's."""
        return self._target.step(batch, seeds)

    def draw(
        self,
        batch: Batch,
        seeds: NDArray[np.int64],
        positions: NDArray[np.int64],
        *,
        kernel: bool = False,
    ) -> NDArray[np.int64]:
        """The target's."""
        return self._target.draw(batch, seeds, positions, kernel=kernel)

    def close(self) -> None:
        """The target is closed by who opened it."""


@pytest.fixture(scope="module")
def opened() -> Iterator[Opened]:
    """``opened("vllm_v2")``: the engine, in one worker that all tests of this file share."""
    targets: dict[str, Target] = {}

    def target(name: str) -> Target:
        if name not in targets:
            python = VLLM if name.startswith("vllm") else TRANSFORMERS
            where = LIB if name == "llama_cpp" else {}
            targets[name] = open_target(
                name, python=None if where else python, options=where, workers=1
            )
        return targets[name]

    yield target
    for each in targets.values():
        each.close()


def examined(target: Target, cell: str) -> CellResult:
    """What the audit says of one cell."""
    plan = build_plan(only=cell, seed=1)
    return examine(plan.cells[0], target, plan).result


def reasons(result: CellResult) -> dict[str, str]:
    """Of every failing check its reason; ``kept`` is the kept set's."""
    found = {c.check: c.reason for c in result.checks if c.outcome == "fail"}
    kept = result.kept
    return found | ({"kept": kept.rule} if kept is not None and kept.verdict == "FAIL" else {})


BIASED = "logit_bias+repetition_penalty"
COUNTED = "frequency_penalty+presence_penalty"
MASKED = "grammar+allowed_token_ids+min_tokens+bad_words"
PASS = {
    "vllm_v2": (
        f"dense-normal@257/temperature=0.6/batch=alone/stages={BIASED}",
        f"bf16-rounded@257/min_p=0.05/batch=alone/stages={COUNTED}",
        f"dense-normal@257/top_p=0.9/batch=alone/stages={MASKED}",
        "dense-normal@257/temperature=0.6/batch=alone/stages=thinking_budget",
        f"dense-normal@64/temperature=0.6,min_p=0.05/batch=mixed-8/stages={BIASED}",
    ),
    "vllm_v1": (
        f"dense-normal@257/temperature=0.6/batch=alone/stages={BIASED}",
        f"bf16-rounded@257/min_p=0.05/batch=alone/stages={COUNTED}",
        f"dense-normal@257/top_k=20,top_p=0.9/batch=mixed-8/stages={MASKED}",
    ),
    "transformers": (
        f"dense-normal@257/temperature=0.6/batch=alone/stages={BIASED}",
        f"bf16-rounded@257/top_k=20,top_p=0.9/batch=mixed-8/stages={MASKED}",
        "finite-20-spread@257/temperature=0.0/batch=alone/stages=logit_bias+bad_words",
    ),
    "llama_cpp": (
        f"dense-normal@257/temperature=0.6,top_p=0.9/batch=alone/stages={BIASED}",
        f"bf16-rounded@257/temperature=0.6,min_p=0.05/batch=mixed-8/stages={COUNTED}",
    ),
}


@pytest.mark.parametrize(
    ("name", "cell"), [(n, cell) for n, cells in PASS.items() for cell in cells]
)
def test_stages_are_those_of_its_own_convention(opened: Opened, name: str, cell: str) -> None:
    """Kept sets, logits, draws, and where it has them seeds, steps and lists."""
    result = examined(opened(name), cell)
    assert reasons(result) == {}
    assert result.outcome == "pass"


# The prompt counts in transformers' bad words and in llama.cpp's penalties, not in vLLM's; vLLM
# multiplies by 1/r; llama.cpp divides by the temperature last.
WORDS = "dense-normal@257/neutral/batch=alone/stages=bad_words"
COUNTS = "dense-normal@257/neutral/batch=alone/stages=frequency_penalty"
REPEATS = "dense-normal@257/neutral/batch=alone/stages=repetition_penalty"
LAST = "dense-normal@257/temperature=0.6,min_p=0.05/batch=alone/stages=logit_bias"
SEEDED = "dense-normal@64/neutral/batch=mixed-8"


@pytest.mark.parametrize(
    ("name", "other", "cell", "check"),
    [
        ("vllm_v2", "huggingface", WORDS, "kept"),
        ("vllm_v2", "llama.cpp", COUNTS, "logits"),
        ("vllm_v2", "sampler-audit", SEEDED, "noise"),
        ("vllm_v1", "huggingface", WORDS, "kept"),
        ("vllm_v1", "llama.cpp", COUNTS, "logits"),
        ("transformers", "vllm-triton", WORDS, "kept"),
        ("transformers", "vllm-pytorch", REPEATS, "logits"),
        ("transformers", "llama.cpp", LAST, "kept"),
        ("llama_cpp", "vllm-triton", COUNTS, "logits"),
        ("llama_cpp", "huggingface", LAST, "kept"),
    ],
)
def test_stages_are_not_those_of_another(
    opened: Opened, name: str, other: str, cell: str, check: str
) -> None:
    """The twin: the same cell passes under its own convention and fails under the other's."""
    assert reasons(examined(opened(name), cell)) == {}
    result = examined(Under(opened(name), other), cell)
    assert check in reasons(result)
    assert result.outcome == "fail"


def test_llama_cpp_looks_64_tokens_back(opened: Opened) -> None:
    """Of 70 tokens the first six are forgotten: token 1 is as it was, tokens 2 and 3 are not."""
    prompt = (*[1] * 6, *[2] * 34, *[3] * 30)
    params = SamplingParams(presence_penalty=0.5)
    logits = np.array([[4, 3, 2, 1, 0]], np.float32)
    batch = Batch(logits, (Request(params, prompt),), 0)
    found = opened("llama_cpp").filtered(batch)
    assert found.tolist() == [[4, 3, 1.5, 0.5, 0]]
    assert expected_row(batch, 0, CONVENTIONS["llama.cpp"]).tolist() == found[0].tolist()


@pytest.mark.parametrize(
    ("name", "cell", "check", "reason"),
    [
        # One request's list by name takes the others' lists away.
        ("vllm_v1", "dense-normal@128/neutral/batch=recycled", "log-probs", "request 1: "),
        # The rank of a token that the grammar refused, forced by a spent budget.
        (
            "vllm_v2",
            "dense-normal@128/neutral/batch=recycled",
            "log-probs",
            "request 2: token 42 has rank 8192 instead of 128",
        ),
        # A logit of 1e9 leaves the search for the 20th no resolution: tokens of no mass stay.
        (
            "vllm_v2",
            "dense-normal@128/top_k=20/batch=alone/stages=thinking_budget",
            "kept",
            "tokens too many",
        ),
        # And with top_p none at all stays: token 0 is drawn in place of the forced one.
        (
            "vllm_v2",
            "dense-normal@16/top_p=0.9/batch=alone/stages=thinking_budget",
            "kept",
            "kept nothing, where 1 token should stay",
        ),
        (
            "vllm_v2",
            "dense-normal@16/top_p=0.9/batch=alone/stages=thinking_budget",
            "support",
            "must be dropped, as 0",
        ),
        # 1 - 1e-8 is 1 in float32.
        (
            "vllm_v2",
            "dense-normal@129/top_k=2,top_p=1e-08/batch=alone",
            "kept",
            "kept nothing, where 1 token should stay",
        ),
        ("vllm_v2", "finite-0@16/neutral/batch=alone", "support", "must be dropped, as 0"),
        ("vllm_v1", "finite-0@16/neutral/batch=alone", "support", "must be dropped, as 0"),
    ],
)
def test_faults_of_vllm(opened: Opened, name: str, cell: str, check: str, reason: str) -> None:
    """Each in one cell, by the check that sees it."""
    assert reason in reasons(examined(opened(name), cell))[check]


@pytest.mark.parametrize("name", ["vllm_v1", "vllm_v2"])
@pytest.mark.parametrize("pattern", ["recycled", "swapped", "staggered"])
def test_but_for_lists_a_past_changes_nothing(opened: Opened, name: str, pattern: str) -> None:
    """Logits of every row, tokens of every request, and the audited row's draws are right."""
    cell = f"dense-normal@64/temperature=0.6/batch={pattern}/stages={COUNTED}"
    assert set(reasons(examined(opened(name), cell))) <= {"log-probs"}
