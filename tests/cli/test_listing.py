"""sampler-audit list."""

import pytest

from sampler_audit.__main__ import main
from sampler_audit.plan import build_plan
from sampler_reference.conventions import CONVENTIONS
from sampler_reference.defects import DEFECTS
from sampler_scenarios.real_rows import REAL_ROWS
from sampler_scenarios.rows import KINDS


def names(what: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The first word of each line."""
    assert main(["list", what]) == 0
    return [line.split()[0] for line in capsys.readouterr().out.splitlines()]


def test_rows_are_the_sets_the_kinds_and_the_real_ones(capsys: pytest.CaptureFixture[str]) -> None:
    """Each can be given to --rows."""
    listed = names("rows", capsys)
    assert listed == ["quick", "core", "full", "real", *(k.name for k in KINDS), *REAL_ROWS]
    assert all(build_plan(combos="top_k", rows=name, seed=1).cells for name in listed)


def test_combos_are_the_sets_and_the_sixteen_subsets(capsys: pytest.CaptureFixture[str]) -> None:
    """Each can be given to --combos."""
    listed = names("combos", capsys)
    assert listed[:5] == ["core", "singles", "pairs", "triples", "all"]
    assert len(listed) == 5 + 16
    assert all(build_plan(combos=name, rows="constant", seed=1).cells for name in listed)


def test_targets_end_with_anybodys_function(capsys: pytest.CaptureFixture[str]) -> None:
    """Beside the engines that have a name."""
    vllm = {"vllm", "vllm_torch", "vllm_v1", "vllm_v2"}
    named = {"builtin", "llama_cpp", "torch", "transformers", *vllm}
    assert named <= set(names("targets", capsys))
    assert names("targets", capsys)[-1] == "module:attr"


def test_checks_defects_and_conventions(capsys: pytest.CaptureFixture[str]) -> None:
    """Everything that the report may name."""
    assert {"kept_set", "histogram", "seeds"} <= set(names("checks", capsys))
    assert names("defects", capsys) == list(DEFECTS)
    assert names("conventions", capsys) == list(CONVENTIONS)
