import sys
from pathlib import Path

import numpy as np
import pytest

from sampler_audit.errors import TargetRaised, TargetUnavailable, UsageError
from sampler_audit.targets import FUNCTION, describe, open_target, target_names
from sampler_scenarios.batches import Batch, plain_batch
from sampler_scenarios.params import SamplingParams

SOURCE = """
import torch

def without_k(logits, k, p):
    assert k is None and p.dtype == torch.float32 and p.tolist() == [1.0, 0.5]
    assert logits.stride(0) == 8
    logits[:, 0] = -torch.inf
    return logits

without_k.sampler_audit_convention = "huggingface"

def without_p(logits, k, p):
    assert p is None and k.dtype == torch.int32 and k.tolist() == [5, 2]
    return logits

def flat(logits, k, p):
    return logits[0]

def mask(logits, k, p):
    return logits > 0

def array(logits, k, p):
    return logits.numpy()

constant = 3
"""


@pytest.fixture
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current folder holds the module."""
    (tmp_path / "functions_under_audit.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)


def batch(*params: SamplingParams) -> Batch:
    """Two rows of five zeros with a stride of eight."""
    return plain_batch(np.zeros((2, 8), np.float32)[:, :5], params, 0)


@pytest.mark.usefixtures("functions")
def test_a_function_gets_its_arguments_as_vllm_passes_them() -> None:
    """A filter that no row uses is None, the other is neutral where off, and rows stay strided."""
    target = open_target("functions_under_audit:without_k", workers=1)
    mask = target.kept(batch(SamplingParams(), SamplingParams(top_p=0.5)))
    assert mask.tolist() == [[False, True, True, True, True]] * 2
    assert target.info.convention == "huggingface"
    assert not target.info.draws
    target.close()


@pytest.mark.usefixtures("functions")
def test_a_function_with_k_alone() -> None:
    """A row whose top_k is off gets the vocabulary size."""
    target = open_target("functions_under_audit:without_p", workers=1)
    assert target.kept(batch(SamplingParams(), SamplingParams(top_k=2))).all()
    assert target.info.convention == "sampler-audit"
    target.close()


@pytest.mark.usefixtures("functions")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("functions_under_audit:missing", "AttributeError.*'missing'"),
        ("functions_under_audit:constant", "TypeError.*is no function but int"),
    ],
)
def test_what_is_no_function_is_named(name: str, message: str) -> None:
    """At the start, with the exception."""
    with pytest.raises(TargetRaised, match=message):
        open_target(name, workers=1)


@pytest.mark.usefixtures("functions")
@pytest.mark.parametrize(
    ("function", "got"),
    [("flat", r"torch.float32 \[5\]"), ("mask", r"torch.bool \[2, 5\]"), ("array", "ndarray")],
)
def test_a_function_that_returns_something_else_is_refused(function: str, got: str) -> None:
    """One row where two were asked, a mask, whose False is above -inf too, and no tensor."""
    target = open_target(f"functions_under_audit:{function}", workers=1)
    with pytest.raises(TargetRaised, match=rf"a float tensor \[2, 5\] .* got {got}"):
        target.kept(batch(SamplingParams(top_k=2), SamplingParams()))
    target.close()


def test_a_module_that_does_not_exist_is_unavailable() -> None:
    """With the interpreter that was tried."""
    with pytest.raises(TargetUnavailable, match=r"No module named 'no_such_module'.*--python PATH"):
        open_target("no_such_module:f")


@pytest.mark.parametrize("name", ["a:b:c", ":f", "m:", "m:1", "-m:f"])
def test_a_misspelt_function_is_a_usage_error(name: str) -> None:
    """Before any process starts."""
    with pytest.raises(UsageError, match="is named module:attr"):
        open_target(name)


def test_an_unknown_target_lists_the_known() -> None:
    """All of them, and how a function is spelt."""
    with pytest.raises(
        UsageError, match=r"unknown target 'vlm'; known: builtin, .*, and module:attr"
    ):
        open_target("vlm")


def test_every_target_describes_itself() -> None:
    """In one line; files that are no engines are not listed."""
    vllm = {"vllm", "vllm_torch", "vllm_v1", "vllm_v2"}
    named = {"builtin", "llama_cpp", "torch", "transformers", *vllm}
    assert named <= set(target_names())
    assert not any(name.startswith("_") or name == "function" for name in target_names())
    assert all("\n" not in describe(name) for name in (*target_names(), FUNCTION))


@pytest.mark.parametrize(
    ("python", "message"),
    [("/no/such/python", "cannot be run"), ("/bin/echo", "is no Python interpreter")],
)
def test_a_wrong_python_is_a_usage_error(python: str, message: str) -> None:
    """A path without a file, and a file that is another program."""
    with pytest.raises(UsageError, match=message):
        open_target("vllm", python=python)


def test_an_old_python_is_a_usage_error(tmp_path: Path) -> None:
    """Workers are written for 3.9; a script that claims to be 3.8 stands in for one."""
    (tmp_path / "python").write_text("#!/bin/sh\necho hello\necho python 3 8\n")
    (tmp_path / "python").chmod(0o755)
    with pytest.raises(UsageError, match=r"is Python 3\.8; engines run in 3\.9 or newer"):
        open_target("vllm", python=str(tmp_path / "python"))


def test_our_own_sampler_stays_in_our_interpreter() -> None:
    """Another one has nothing of ours."""
    with pytest.raises(UsageError, match="cannot run with --python"):
        open_target("builtin", python=sys.executable)
