"""What the wrappers refuse, and what they say."""

import inspect
from collections.abc import Callable

import pytest
import torch

import sampler_kernels
from sampler_kernels import _arguments as arguments
from sampler_kernels import (
    apply_filters,
    apply_filters_torch,
    apply_temperature,
    gumbel_draw,
    log_probs_of,
    ranks_of,
)

TWINNED = [name for name in sampler_kernels.__all__ if f"{name}_torch" in sampler_kernels.__all__]

LOGITS = torch.zeros(2, 8)
ONE, TWO = torch.zeros(1, dtype=torch.int64), torch.zeros(2, dtype=torch.int64)

REFUSED: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "dtype": (lambda: apply_filters(LOGITS.double()), TypeError, r"float64; .*logits\.float\(\)"),
    "no tensor": (
        lambda: apply_filters([[0.0]]),  # type: ignore[arg-type]  # the error under test
        TypeError,
        r"logits are list; a tensor of float32.*torch\.as_tensor",
    ),
    "one row": (lambda: apply_filters(LOGITS[0]), ValueError, r"shape \(8,\); .*logits\[None, :\]"),
    "no tokens": (lambda: apply_filters(LOGITS[:, :0]), ValueError, "vocabulary of 0; 1 to 262144"),
    "too many tokens": (
        lambda: apply_filters(torch.zeros(1, 262145)),
        ValueError,
        "vocabulary of 262145; .*fixed-point",
    ),
    "k of another batch": (
        lambda: apply_filters(LOGITS, top_k=ONE),
        ValueError,
        r"top_k has shape \(1,\); \[2\].*expand\(2\)",
    ),
    "k of floats": (
        lambda: apply_filters(LOGITS, top_k=torch.zeros(2)),
        TypeError,
        "top_k is torch.float32; a tensor of int64 or int32",
    ),
    "p of doubles": (
        lambda: apply_filters_torch(LOGITS, top_p=torch.zeros(2).double()),
        TypeError,
        "top_p is torch.float64; a tensor of float32",
    ),
    "another device": (
        lambda: apply_filters(LOGITS, top_k=TWO.to("meta")),
        ValueError,
        r"top_k is on meta but logits are on cpu; .*top_k\.to",
    ),
    "tile": (
        lambda: apply_filters(LOGITS, block_size=100),
        ValueError,
        "block_size is 100; a power",
    ),
    "seeds": (
        lambda: gumbel_draw(LOGITS, TWO.int(), TWO),
        TypeError,
        "seeds is torch.int32; a tensor of int64",
    ),
    "rows": (
        lambda: gumbel_draw(LOGITS, TWO, TWO, ONE),
        ValueError,
        r"seeds has shape \(2,\); \[1\]",
    ),
    "rows without a length": (
        lambda: gumbel_draw(LOGITS, TWO, TWO, torch.tensor(0)),
        ValueError,
        r"rows has shape \(\); \[1\]",
    ),
    "token ids of another batch": (
        lambda: log_probs_of(LOGITS, ONE[None]),
        ValueError,
        r"token_ids has shape \(1, 1\); \[2, any\]",
    ),
    "token ids that are no tensor": (
        lambda: ranks_of(LOGITS, [[1], [2]]),  # type: ignore[arg-type]  # the error under test
        TypeError,
        "token_ids is list; a tensor of int64",
    ),
    "temperature": (
        lambda: apply_temperature(LOGITS, torch.tensor(1.0)),
        ValueError,
        r"temperature has shape \(\)",
    ),
}


@pytest.mark.parametrize(("call", "error", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(call: Callable[[], object], error: type[Exception], message: str) -> None:
    """The message says what was given, what is allowed, and what to do."""
    with pytest.raises(error, match=message):
        call()


def test_unknown_choices_are_refused() -> None:
    """A tie policy or path that does not exist names those that do."""
    with pytest.raises(ValueError, match="'by_id' and 'keep_all'"):
        apply_filters(LOGITS, ties="random")  # type: ignore[arg-type]  # the error under test
    with pytest.raises(ValueError, match="'auto' and 'radix'"):
        apply_filters(LOGITS, path="sort")  # type: ignore[arg-type]  # the error under test
    with pytest.raises(ValueError, match="min_p_arithmetic is 'exact'; 'float64' and 'float32'"):
        apply_filters(LOGITS, min_p_arithmetic="exact")  # type: ignore[arg-type]  # the error under test
    with pytest.raises(ValueError, match=r"noise is 'tl\.rand'; 'philox', .* and 'murmur-fp64'"):
        gumbel_draw(LOGITS, TWO, TWO, noise="tl.rand")  # type: ignore[arg-type]  # the error under test
    with pytest.raises(ValueError, match=r"domain is 4; 0 to 3 are allowed, one of the \*_DOMAIN"):
        gumbel_draw(LOGITS, TWO, TWO, domain=4)


def test_numbers_are_not_tensors() -> None:
    """A Python number where a tensor belongs is refused with the call that makes the tensor."""
    with pytest.raises(TypeError, match=r"top_k is int; .*torch\.full\(\(2,\), value"):
        apply_filters(LOGITS, top_k=5)  # type: ignore[arg-type]  # the error under test


@pytest.mark.parametrize("name", TWINNED)
def test_twins_have_the_kernels_signature(name: str) -> None:
    """But for how a kernel works, its tile and its path, which cannot change a result."""
    kernel, twin = getattr(sampler_kernels, name), getattr(sampler_kernels, f"{name}_torch")
    asked = dict(inspect.signature(kernel).parameters)
    for how in ("block_size", "path"):
        asked.pop(how, None)
    assert dict(inspect.signature(twin).parameters) == asked


def test_cpu_tensors_need_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where kernels are compiled, a CPU tensor is refused before Triton sees it."""
    monkeypatch.setattr(arguments, "INTERPRETED", False)
    with pytest.raises(ValueError, match="on the CPU but kernels are compiled"):
        apply_filters(LOGITS)


def test_int32_top_k_is_taken() -> None:
    """Engines keep top_k as int32."""
    result = apply_filters(LOGITS, top_k=torch.tensor([3, 1], dtype=torch.int32))
    assert result.n_kept.tolist() == [3, 1]
