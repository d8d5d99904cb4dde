"""The field report on vLLM, told by the command line on the same kernel and real rows."""

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-vllm" / "bin" / "python"
NEVER = "real-you-should-never@49152"
DOOR = "real-she-opened-the-door-and-saw@49152"
ROSES = "real-roses-are-red-violets-are@49152"

pytestmark = pytest.mark.e2e

Cells = dict[str, dict[str, Any]]


def audit(out: Path, *arguments: str) -> tuple[int, dict[str, Cells]]:
    """The exit code, and of every target its cells by id."""
    command = [sys.executable, "-m", "sampler_audit", "local", "--python", str(PYTHON)]
    done = subprocess.run([*command, *arguments, "--quiet", "--json", str(out)], check=False)
    return done.returncode, read_cells(out)


def read_cells(out: Path) -> dict[str, Cells]:
    """Of every target its cells by id."""
    report = json.loads(out.read_text())
    return {t["info"]["name"]: {c["cell"]: c for c in t["cells"]} for t in report["targets"]}


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


@pytest.fixture(scope="module")
def upgrade_check(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Cells]:
    """The README's command for an installed vLLM, run as it stands there."""
    listed = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "e2e" / "readme_commands.py")],
        capture_output=True,
        text=True,
        check=True,
    )
    (line,) = [line for line in listed.stdout.splitlines() if "--target vllm " in line]
    out = tmp_path_factory.mktemp("upgrade") / "run.json"
    program = [sys.executable, "-m", "sampler_audit"]
    words = [*program, *shlex.split(line)[1:], "--quiet", "--json", str(out), "--seed", "1"]
    done = subprocess.run(words, cwd=ROOT, check=False)
    assert done.returncode == 1
    return read_cells(out)


def failing(cells: Cells) -> list[dict[str, Any]]:
    """The cells that fail."""
    return [cell for cell in cells.values() if cell["outcome"] == "fail"]


def test_an_upgrade_check_names_every_documented_fault(upgrade_check: dict[str, Cells]) -> None:
    """Kinds of row on which this release is known to be wrong (see test_vllm_kernel.py)."""
    assert {
        "finite-2-front",
        "finite-3-spread",
        "runner-up-0.49",
        "bottom-ties",
        "one-high",
        "flat-tail",
        "constant",
        "one-1e30",
        "scale-1e-8",
    } <= {cell["row_kind"] for cell in failing(upgrade_check["vllm"])}
    deep = "dense-normal@32768/top_k=32767,top_p=0.999/batch=alone"
    assert upgrade_check["vllm"][deep]["outcome"] == "fail"


def test_every_failure_says_how_much_and_how_to_repeat(upgrade_check: dict[str, Cells]) -> None:
    """Kept and expected counts, lost or gained mass, the rule, and the command."""
    for cell in failing(upgrade_check["vllm"]):
        kept = cell["kept"]
        assert kept["n_lost"] + kept["n_gained"] > 0
        assert kept["n_kept"] - kept["n_expected"] == kept["n_gained"] - kept["n_lost"]
        assert kept["rule"]
        assert f"--only {cell['cell']}" in cell["repeat"].replace("'", "")


def test_the_pytorch_path_passes_the_same_check(upgrade_check: dict[str, Cells]) -> None:
    """Under its own tie convention, on every cell that applies."""
    assert not failing(upgrade_check["vllm_torch"])
    assert sum(c["outcome"] == "pass" for c in upgrade_check["vllm_torch"].values()) > 1000
