"""Which targets a command line asks for."""

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from sampler_audit.audit import TargetRequest
from sampler_audit.requests import choose_requests
from sampler_audit.targets import target_names

choose = partial(choose_requests, python=None, device="cpu", defect=None, when=None, timeout_s=9.0)


def names(requests: Sequence[TargetRequest]) -> list[str]:
    """Their names, in order."""
    return [request.name for request in requests]


def test_without_a_name_builtin_and_every_engine_are_tried() -> None:
    """``torch`` is no engine: it is the built-in sampler's twin."""
    assert names(choose([]))[0] == "builtin"
    assert set(names(choose([]))) == set(target_names()) - {"torch"}


def test_a_target_named_twice_is_audited_once() -> None:
    """In the order of the command line."""
    assert names(choose(["torch", "builtin", "torch"])) == ["torch", "builtin"]


def test_python_is_for_engines_only() -> None:
    """Ours would not be installed there."""
    requests = choose(["builtin", "some:function"], python=sys.executable)
    assert [request.python for request in requests] == [None, sys.executable]


@pytest.mark.parametrize(
    ("when", "options"),
    [
        (None, {"defect": "weakest-dropped"}),
        ("min_p+top_k", {"defect": "weakest-dropped", "when": "top_k+min_p"}),
    ],
)
def test_a_defect_is_planted_in_builtin_alone(when: str | None, options: dict[str, str]) -> None:
    """Without a name it means builtin, and filters are put in their order."""
    (request,) = choose([], defect="weakest-dropped", when=when)
    assert request.name == "builtin"
    assert request.options == options
    assert (request.device, request.timeout_s) == ("cpu", 9.0)


def test_a_library_is_for_llama_cpp_alone(tmp_path: Path) -> None:
    """Whether it is named or found."""
    lib = tmp_path / "libllama.so"
    lib.touch()
    with_lib = [r for r in choose([], lib=str(lib)) if r.options]
    assert [(r.name, r.options) for r in with_lib] == [("llama_cpp", {"lib": str(lib)})]
