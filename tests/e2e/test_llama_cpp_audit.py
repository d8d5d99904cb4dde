"""llama.cpp's own sampler chain, from a prebuilt libllama, audited with no model."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sampler_audit.draws import Target
from sampler_audit.errors import TargetUnavailable
from sampler_audit.targets import open_target
from sampler_scenarios.batches import plain_batch
from sampler_scenarios.params import SamplingParams, parse_params

ROOT = Path(__file__).parents[2]
LIB = ROOT / ".venv-llama-cpp" / "libllama.so"
KNOWN = Path(__file__).with_name("llama_cpp_known.toml")
P8 = np.log(np.array([0.4, 0.22, 0.14, 0.09, 0.06, 0.04, 0.03, 0.02])).astype(np.float32)

pytestmark = pytest.mark.e2e


def audit(out: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    """The exit code, and what the JSON says of the one target."""
    program = [sys.executable, "-m", "sampler_audit", "local", "--target", "llama_cpp"]
    options = ["--lib", str(LIB), "--seed", "1", "--quiet", "--json", str(out)]
    done = subprocess.run([*program, *options, *arguments], check=False)
    (target,) = json.loads(out.read_text())["targets"]
    return done.returncode, target


@pytest.fixture(scope="module")
def llama_cpp() -> Iterator[Target]:
    """The engine, in one worker."""
    target = open_target("llama_cpp", options={"lib": str(LIB)}, workers=1)
    yield target
    target.close()


def kept(target: Target, logits: NDArray[np.float32], params: str) -> list[int]:
    """The ids that stay of one row."""
    batch = plain_batch(logits[None], (parse_params(params),), 0)
    return [int(i) for i in np.flatnonzero(target.kept(batch)[0])]


def test_all_combinations_pass_but_for_two_known_faults(tmp_path: Path) -> None:
    """Under llama.cpp's own convention; both faults are there."""
    code, target = audit(tmp_path / "run.json", "--combos", "all", "--known", str(KNOWN))
    assert (code, target["outcome"]) == (0, "pass")
    assert len(target["known"]) == 2
    assert target["known_gone"] == []


def test_its_kept_sets_fit_no_other_convention(tmp_path: Path) -> None:
    """Filters before temperature, and ties wherever the sort leaves them."""
    plan = ["--combos", "all", "--rows", "real,ties-at-k", "--allow-inconclusive"]
    code, target = audit(tmp_path / "run.json", *plan)
    assert code == 0
    assert target["fitting_conventions"] == ["llama.cpp"]


# By hand: .4 .62 .76 .85 .91 of the renormalised best five (.91) is .440 .681 .835 .934; the 4th
# crosses .9. min_p = .05 keeps what is at least .02 = .05 * .4 (.02 itself is left to rounding, so
# .06 is used: .024). At temperature .1, filters still see .40 .22 ...; at top_k = 0 all 8 stay.
@pytest.mark.parametrize(
    ("params", "n_kept"),
    [
        ("top_k=5,top_p=0.9,min_p=0.05", 4),
        ("top_k=5", 5),
        ("top_p=0.61", 2),
        ("min_p=0.06", 7),
        ("temperature=0.1,min_p=0.06", 7),
        ("temperature=0.0", 1),
        ("neutral", 8),
    ],
)
def test_kept_sets_by_hand(llama_cpp: Target, params: str, n_kept: int) -> None:
    """The best few, of which the last crosses top_p."""
    assert kept(llama_cpp, P8, params) == list(range(n_kept))


def test_bulk_draws_are_those_of_the_whole_chain(llama_cpp: Target) -> None:
    """Filters once and then dist, or everything on the whole row for every token: one sequence."""
    params = SamplingParams(temperature=0.6, top_k=5, top_p=0.9, min_p=0.05)
    batch, seeds = plain_batch(P8[None], (params,), 0), np.arange(100)
    drawn = llama_cpp.draw(batch, seeds, seeds)
    assert drawn.tolist() == llama_cpp.draw(batch, seeds, seeds, kernel=True).tolist()
    assert set(drawn.tolist()) <= {0, 1, 2, 3}
    assert drawn.tolist() != llama_cpp.draw(batch, seeds + 1, seeds).tolist()


def test_a_nan_row_is_not_shown_to_the_library(llama_cpp: Target) -> None:
    """Nothing is kept or drawn of it."""
    row = np.where(np.arange(8) == 3, np.nan, P8).astype(np.float32)
    batch, seeds = plain_batch(row[None], (SamplingParams(top_k=2),), 0), np.arange(3)
    assert not llama_cpp.kept(batch).any()
    assert llama_cpp.draw(batch, seeds, seeds).tolist() == [-1, -1, -1]
    assert llama_cpp.draw(batch, seeds, seeds, kernel=True).tolist() == [-1, -1, -1]


# int(6.4 * 3.355e8 + 64) is below 2^31 = 2147483648 and int(6.4 * 3.356e8 + 64) is not.
@pytest.mark.parametrize(("logit", "stays"), [(3.355e8, True), (3.356e8, False)])
def test_the_largest_logit_overflows_its_bucket(
    llama_cpp: Target, logit: float, stays: bool
) -> None:
    """The smallest input of the known fault: 130 candidates of which 129 are sorted."""
    row = np.zeros(130, np.float32)
    row[7] = logit
    assert (7 in kept(llama_cpp, row, "top_k=129")) == stays


def test_ggml_beside_the_library_is_found(tmp_path: Path) -> None:
    """Where no search path leads: the run path of the copy is spoilt."""
    for name in ("libllama.v0.5.0.so", "libggml.v0.5.0.so", "libggml-base.so"):
        shutil.copy(LIB.with_name(name), tmp_path)
        binary = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(binary.replace(b"$ORIGIN:\0", b"/absent:\0"))
    target = open_target("llama_cpp", options={"lib": str(tmp_path / "libllama.v0.5.0.so")})
    assert target.info.engine == "llama.cpp 0.5.0-dev (ggml 0.25.1)"
    target.close()


@pytest.mark.parametrize("other", ["libggml-base.so", "installed.txt"])
def test_what_is_no_libllama_is_refused(other: str) -> None:
    """In one line, for a library without samplers and for a file that is no library."""
    with pytest.raises(TargetUnavailable, match=r"^llama_cpp: \S+ (is no libllama|cannot be)") as e:
        open_target("llama_cpp", options={"lib": str(LIB.with_name(other))})
    assert "\n" not in str(e.value)
