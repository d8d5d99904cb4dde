"""The cheaper launch under the interpreter: what it may not change, and what it leaves behind."""

import importlib
from collections.abc import Callable, Iterator
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from sampler_kernels import INTERPRETED, Path, apply_filters, gumbel_draw
from sampler_kernels._interpreter import language_patched_once
from sampler_kernels._triton import tl

pytestmark = pytest.mark.skipif(not INTERPRETED, reason="the kernels are compiled here")

HardRows = Callable[[int], dict[str, NDArray[np.float32]]]


@pytest.fixture
def logits(hard_rows: HardRows) -> torch.Tensor:
    """Every kind of row, ``[24, 300]``."""
    return torch.tensor(np.stack(list(hard_rows(300).values())))


@pytest.fixture
def patches(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The functions for which Triton patched its language, so far."""
    interpreter = importlib.import_module("triton.runtime.interpreter")
    original, patched = interpreter._patch_lang, []

    def count(function: object) -> object:
        patched.append(function)
        return original(function)

    monkeypatch.setattr(interpreter, "_patch_lang", count)
    return patched


def _plainly(*_: object) -> nullcontext[None]:
    """Stands in for ``language_patched_once``: the launch as Triton does it."""
    return nullcontext()


def _run(logits: torch.Tensor, path: Path = "auto") -> Iterator[torch.Tensor]:
    n = torch.arange(len(logits))
    result = apply_filters(logits, top_k=n, top_p=(n + 1) / 25, min_p=n % 2 * 0.01, path=path)
    yield from (result.logits, result.n_kept, result.flags, gumbel_draw(result.logits, n, n))


@pytest.mark.parametrize("path", ["auto", "radix"])
def test_results_are_those_of_the_plain_launch(
    path: Path, logits: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Masked logits, counts, flags and tokens are the same with Triton's own way of launching."""
    cheap = [*_run(logits, path)]
    monkeypatch.setattr("sampler_kernels._triton.language_patched_once", _plainly)
    plain = [*_run(logits, path)]
    assert all(map(torch.equal, cheap, plain))


def test_the_language_is_patched_a_few_times_a_launch(
    patches: list[object], logits: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six launches patch for at most four sets of modules each; the plain ones hundreds of times.

    It fails where an interpreter is built another way, so that the shortcut does nothing there.
    """
    list(_run(logits))
    assert 6 <= len(patches) <= 24
    monkeypatch.setattr("sampler_kernels._triton.language_patched_once", _plainly)
    patches.clear()
    list(_run(logits))
    assert len(patches) > 200


def test_the_language_is_restored(patches: list[object], logits: torch.Tensor) -> None:
    """After a launch ``triton.language`` is what it was, and so is the interpreter's own patch."""
    interpreter = importlib.import_module("triton.runtime.interpreter")
    before, patch = dict(vars(tl)), interpreter._patch_lang
    list(_run(logits))
    assert patches
    assert vars(tl) == before
    assert interpreter._patch_lang is patch


def test_a_failure_inside_restores_the_patch() -> None:
    """An exception of a kernel leaves nothing of ours behind."""
    interpreter = importlib.import_module("triton.runtime.interpreter")
    patch = interpreter._patch_lang
    with pytest.raises(ZeroDivisionError), language_patched_once(tl, tl.core):
        interpreter._patch_lang(1 / 0)
    assert interpreter._patch_lang is patch


def test_another_interpreter_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that patches in some other way is not touched."""
    interpreter = importlib.import_module("triton.runtime.interpreter")
    monkeypatch.delattr(interpreter, "_patch_lang")
    with language_patched_once(tl, tl.core):
        assert not hasattr(interpreter, "_patch_lang")
