"""vLLM 0.32.0's kernel and PyTorch path, in the environment of tests/e2e/vllm_environment.sh."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sampler_audit.draws import Target
from sampler_audit.targets import open_target
from sampler_reference.conventions import CONVENTIONS
from sampler_reference.kept_sets import Judgement, judge_kept
from sampler_scenarios.batches import build_batch
from sampler_scenarios.cells import parse_cell

PYTHON = Path(__file__).parents[2] / ".venv-vllm" / "bin" / "python"

pytestmark = pytest.mark.e2e

# What the reference keeps is in the ids and the filters; the second number is what this release
# was first seen to keep. Its cause by its own source, v1/sample/ops/topk_topp_triton.py: the search
# for the pivot is bracketed below by the smallest finite value, compares with >, and gives up after
# 18 halvings.
FAULTS = {
    # The lowest finite token is lost, though top_p needs it.
    "finite-2-front@4096/top_k=50,top_p=0.9/batch=alone": (2, 1),
    "finite-4-spread@4096/top_k=50,top_p=0.95/batch=alone": (4, 3),
    "runner-up-0.4@1024/top_k=50,top_p=0.9/batch=alone": (2, 1),
    # The tie group at the bottom is lost by top_k alone.
    "bottom-ties@1024/top_k=50/batch=alone": (50, 40),
    "one-high@1024/top_k=20/batch=alone": (20, 1),
    # A top_p below every probability leaves nothing at all.
    "dense-normal@129/top_k=2,top_p=1e-08/batch=alone": (1, 0),
    # Tails behind a peak are out of reach of arithmetic halving.
    "peaked-2@32768/top_k=32767,top_p=0.999/batch=alone": (9420, 1053),
    "flat-tail@32768/top_k=32767,top_p=0.9/batch=alone": (25744, 13150),
    "dense-normal@32768/top_k=32767,top_p=0.999/batch=alone": (28287, 28422),
    # No pivot lies strictly between equal values: nothing is masked.
    "constant@4096/top_k=50/batch=alone": (50, 4096),
    "constant@4096/top_p=0.5/batch=alone": (2048, 4096),
    # 18 steps do not cross the range; and distinct values within 1e-9 count as ties.
    "one-1e30@4096/top_k=50/batch=alone": (50, 1),
    "scale-1e-8@4096/top_p=0.9/batch=alone": (3687, 4096),
}
SOUND = (
    "finite-2-front@4096/top_p=0.9/batch=alone",
    "finite-20-spread@4096/top_k=50,top_p=0.9/batch=alone",
    "dense-normal@4096/top_k=50,top_p=0.9/batch=alone",
    "dense-normal@4096/top_k=50/batch=strided",
    "dense-normal@4096/top_p=0.9/batch=mixed-8",
    "real-the-weather-today-is@49152/top_k=20,top_p=0.95/batch=alone",
)


@pytest.fixture(scope="module", params=["vllm", "vllm_torch"])
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    """Both targets of the release."""
    opened = open_target(request.param, python=str(PYTHON), device="cpu")
    yield opened
    opened.close()


def judged(target: Target, cell_id: str) -> tuple[Judgement, int]:
    """The verdict by the target's declared convention, and how many tokens it kept."""
    cell = parse_cell(cell_id)
    batch = build_batch(cell)
    mask = target.kept(batch)[batch.index]
    info = target.info
    row = build_batch(cell).logits[batch.index]
    verdict = judge_kept(mask, row, cell.params, CONVENTIONS[info.convention], info.mass_error)
    return verdict, int(mask.sum())


@pytest.mark.parametrize("cell_id", FAULTS)
def test_known_faults(target: Target, cell_id: str) -> None:
    """The Triton kernel shows each; the PyTorch path is right on the same rows."""
    verdict, n_kept = judged(target, cell_id)
    if target.info.name == "vllm_torch":
        assert verdict.verdict in ("EXACT", "BAND")
    else:
        assert verdict.verdict == "FAIL"
        assert (verdict.n_expected, n_kept) == FAULTS[cell_id]


@pytest.mark.parametrize("cell_id", SOUND)
def test_sound_cells(target: Target, cell_id: str) -> None:
    """The twin: neighbours of the faults, which both paths get right."""
    assert judged(target, cell_id)[0].verdict in ("EXACT", "BAND")


def test_what_the_installation_would_do_is_said(target: Target) -> None:
    """The version, that a kernel is interpreted, and which path is taken without us."""
    info = target.info
    assert info.engine.startswith("vllm 0.32.0 (torch ")
    assert info.slow == (info.name == "vllm") == ("interpreter" in info.device)
    assert "this installation" in info.path
