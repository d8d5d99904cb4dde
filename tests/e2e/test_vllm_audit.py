"""The field report on vLLM, told by the command line on the same kernel and real rows."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PYTHON = Path(__file__).parents[2] / ".venv-vllm" / "bin" / "python"
NEVER = "real-you-should-never@49152"
DOOR = "real-she-opened-the-door-and-saw@49152"
ROSES = "real-roses-are-red-violets-are@49152"

pytestmark = pytest.mark.e2e

Cells = dict[str, dict[str, Any]]


def audit(out: Path, *arguments: str) -> tuple[int, dict[str, Cells]]:
    """The exit code, and of every target its cells by id."""
    command = [sys.executable, "-m", "sampler_audit", "local", "--python", str(PYTHON)]
    done = subprocess.run([*command, *arguments, "--quiet", "--json", str(out)], check=False)
    report = json.loads(out.read_text())
    cells = {t["info"]["name"]: {c["cell"]: c for c in t["cells"]} for t in report["targets"]}
    return done.returncode, cells


@pytest.fixture(scope="module")
def real_rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Cells]:
    """Every subset of temperature .6, top_k 20, top_p .95, min_p .05 on three full rows."""
    targets = ["--target", "vllm", "--target", "vllm_torch", "--target", "torch"]
    rows = ["--combos", "all", "--rows", f"{NEVER},{DOOR},{ROSES}", "--seed", "1"]
    code, cells = audit(tmp_path_factory.mktemp("audit") / "run.json", *targets, *rows)
    assert code == 1
    return cells


# Kept and expected counts and lost mass as in the field report and its seed documents.
@pytest.mark.parametrize(
    ("cell", "n_kept", "n_expected", "lost_mass"),
    [
        (f"{NEVER}/top_k=20,min_p=0.05/batch=alone", 15, 20, 0.066),
        (f"{DOOR}/top_k=20,top_p=0.95,min_p=0.05/batch=alone", 3, 4, 0.054),
        # 18 of 38 tied tokens where 4 are needed: 14 too many.
        (f"{ROSES}/top_p=0.95/batch=alone", 635, 621, 0.0),
    ],
)
def test_the_field_report(
    real_rows: dict[str, Cells], cell: str, n_kept: int, n_expected: int, lost_mass: float
) -> None:
    """What the Triton kernel keeps, with the command that repeats it."""
    found = real_rows["vllm"][cell]
    assert found["outcome"] == "fail"
    kept = found["kept"]
    assert (kept["n_kept"], kept["n_expected"]) == (n_kept, n_expected)
    assert kept["lost_mass"] == pytest.approx(lost_mass, abs=5e-4)
    assert f"--only {cell}" in found["repeat"].replace("'", "")


@pytest.mark.parametrize("filters", ["top_k=20", "top_k=20,top_p=0.95"])
@pytest.mark.parametrize("row", [NEVER, DOOR, ROSES])
def test_what_the_kernel_gets_right(real_rows: dict[str, Cells], row: str, filters: str) -> None:
    """top_k alone and with top_p, on all three rows."""
    assert real_rows["vllm"][f"{row}/{filters}/batch=alone"]["outcome"] == "pass"


@pytest.mark.parametrize("name", ["vllm_torch", "torch"])
def test_other_paths_are_right(real_rows: dict[str, Cells], name: str) -> None:
    """The PyTorch path, by its own tie convention, and our own sampler: no cell fails."""
    outcomes = {cell["outcome"] for cell in real_rows[name].values()}
    assert "pass" in outcomes
    assert outcomes <= {"pass", "not_applicable"}


def test_all_combinations(tmp_path: Path) -> None:
    """The plan of an upgrade check: the kernel fails on rows of every documented kind."""
    code, cells = audit(tmp_path / "run.json", "--target", "vllm", "--combos", "all", "--seed", "1")
    failed = {c["row_kind"] for c in cells["vllm"].values() if c["outcome"] == "fail"}
    assert code == 1
    assert {"finite-2-front", "bottom-ties", "constant", "one-1e30", "scale-1e-8"} <= failed
