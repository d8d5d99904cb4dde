"""transformers' warpers and draw, in the environment of tests/e2e/transformers_environment.sh."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sampler_audit.draws import Target
from sampler_audit.targets import open_target
from sampler_reference.conventions import CONVENTIONS
from sampler_reference.kept_sets import judge_kept
from sampler_scenarios.batches import Batch, build_batch, plain_batch
from sampler_scenarios.cells import parse_cell
from sampler_scenarios.params import SamplingParams

PYTHON = Path(__file__).parents[2] / ".venv-transformers" / "bin" / "python"
MASSES = (0.5, 0.25, 0.125, 0.125)
NEUTRAL = SamplingParams()
GREEDY = SamplingParams(temperature=0)
SEEDS = np.arange(4000, dtype=np.int64)

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The report on the target, by a command that must end 0."""
    out = tmp_path_factory.mktemp("audit") / "run.json"
    command = [sys.executable, "-m", "sampler_audit", "local", "--target", "transformers"]
    settings = ["--python", str(PYTHON), "--combos", "all", "--device", "cpu", "--seed", "1"]
    subprocess.run([*command, *settings, "--quiet", "--json", str(out)], check=True)
    (report,) = json.loads(out.read_text())["targets"]
    assert isinstance(report, dict)
    return report


def test_every_combination_passes(audited: dict[str, Any]) -> None:
    """Kept sets and draws; only rows with NaN or +inf are not judged."""
    outcomes = [cell["outcome"] for cell in audited["cells"]]
    assert set(outcomes) == {"pass", "not_applicable"}
    assert outcomes.count("pass") > 2000
    left_out = {c["row_kind"] for c in audited["cells"] if c["outcome"] == "not_applicable"}
    assert left_out == {"nan-one", "nan-tenth", "positive-infinity"}
    assert {combo["outcome"] for combo in audited["combos"]} == {"pass"}


def test_the_same_run_fails_under_every_other_convention(audited: dict[str, Any]) -> None:
    """The twin: no other engine's choices explain what it keeps."""
    assert audited["fitting_conventions"] == ["huggingface"]


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    """One worker of the engine."""
    opened = open_target("transformers", python=str(PYTHON), device="cpu", workers=1)
    yield opened
    opened.close()


def batch_of(row: list[float], params: SamplingParams) -> Batch:
    """The row alone."""
    return plain_batch(np.array([row], dtype=np.float32), (params,), 0)


def kept(target: Target, row: list[float], params: SamplingParams) -> list[int]:
    """The token ids that stay."""
    return np.flatnonzero(target.kept(batch_of(row, params))[0]).tolist()


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        # The mass of the first two is .75, which the second token reaches.
        (SamplingParams(top_p=0.75), [0, 1]),
        # The third place is shared: all of its ties stay.
        (SamplingParams(top_k=3), [0, 1, 2, 3]),
        (SamplingParams(top_k=2), [0, 1]),
        (SamplingParams(min_p=0.5), [0, 1]),
        # .5 .25 renormalise to 2/3 and 1/3 before top_p sees them; of the whole row .6 keeps both.
        (SamplingParams(top_k=2, top_p=0.6), [0]),
        # At T = 2 the masses are .37 .26 .18 .18: .45 needs two; of the undivided row one.
        (SamplingParams(temperature=2, top_p=0.45), [0, 1]),
        # At T = 1/2 the masses go with the squares, 16 4 1 1, and 1/4 stays; undivided, all do.
        (SamplingParams(temperature=0.5, min_p=0.25), [0, 1]),
        (SamplingParams(top_p=1e-8), [0]),
        (SamplingParams(top_k=0, min_p=0), [0, 1, 2, 3]),
        (GREEDY, [0]),
    ],
)
def test_kept_by_hand(target: Target, params: SamplingParams, expected: list[int]) -> None:
    """On masses .5 .25 .125 .125, by the rules that the warpers' documentation states."""
    assert kept(target, np.log(MASSES).tolist(), params) == expected


# One cell for each choice: a whole tie at k, one nucleus after temperature, min_p last.
@pytest.mark.parametrize(
    ("cell_id", "other"),
    [
        ("ties-at-k@1024/top_k=20/batch=alone", "vllm-triton"),
        ("dense-normal@4096/temperature=0.6,top_p=0.95/batch=alone", "llama.cpp"),
        ("dense-normal@4096/top_p=0.5,min_p=0.05/batch=alone", "vllm-pytorch"),
        ("ties-at-p@4096/top_p=0.5/batch=alone", "flashinfer"),
        ("dense-normal@4096/top_k=50,top_p=0.9/batch=alone", "flashinfer-joint"),
    ],
)
def test_a_choice_that_another_engine_does_not_make(
    target: Target, cell_id: str, other: str
) -> None:
    """Right by its own convention and wrong by the other's."""
    cell = parse_cell(cell_id)
    batch, info = build_batch(cell), target.info
    mask, row = target.kept(batch)[batch.index], batch.logits[batch.index]
    own, others = (
        judge_kept(mask, row, cell.params, CONVENTIONS[name], info.mass_error, info.min_p_error)
        for name in (info.convention, other)
    )
    assert own.verdict in ("EXACT", "BAND")
    assert others.verdict == "FAIL"


def test_a_draw_is_a_function_of_its_seeds(target: Target) -> None:
    """The same tokens for the same seeds, others for others."""
    batch = batch_of([0.0] * 100, NEUTRAL)
    first = target.draw(batch, SEEDS, SEEDS)
    np.testing.assert_array_equal(target.draw(batch, SEEDS, SEEDS), first)
    assert (target.draw(batch, SEEDS + 1, SEEDS) != first).any()


@pytest.mark.parametrize("vocab_size", [100, 1000])
def test_draws_follow_the_masses(target: Target, vocab_size: int) -> None:
    """Narrow rows are drawn from at full width, wide ones without their masked tokens."""
    logits = np.full(vocab_size, -np.inf)
    # Places of no order, the last of them at the end of the row.
    ids = [7, 3, 50, vocab_size - 1]
    logits[ids] = np.log(MASSES)
    tokens = target.draw(batch_of(logits.tolist(), NEUTRAL), SEEDS, SEEDS)
    counts = np.array([(tokens == token).sum() for token in ids])
    assert counts.sum() == SEEDS.size
    expected = SEEDS.size * np.array(MASSES)
    # Chi-square with 3 degrees of freedom exceeds 21.1 once in 10,000; uniform draws give 1500.
    assert ((counts - expected) ** 2 / expected).sum() < 21.1


@pytest.mark.parametrize("row", [[np.nan, 1, 2], [np.inf, 1, 2], [-np.inf] * 3, [3e38, 2e38, 0]])
def test_a_row_without_a_softmax_keeps_nothing(target: Target, row: list[float]) -> None:
    """Where generate would raise, no token is drawn; at T = 1/2 the last row overflows."""
    params = SamplingParams(temperature=0.5, top_k=2)
    assert kept(target, row, params) == []
    assert (target.draw(batch_of(row, params), SEEDS[:5], SEEDS[:5]) == -1).all()


@pytest.mark.parametrize(("row", "token"), [([1, 2, 2], 1), ([0, np.inf, 1], 1), ([-np.inf], -1)])
def test_greedy_takes_the_first_maximum(target: Target, row: list[float], token: int) -> None:
    """An infinite one too; a row that is masked whole has none."""
    assert kept(target, row, GREEDY) == ([token] if token >= 0 else [])
    assert (target.draw(batch_of(row, GREEDY), SEEDS[:5], SEEDS[:5]) == token).all()
