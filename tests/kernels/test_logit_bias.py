"""logit_bias against the reference, row by row."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from sampler_kernels import History, apply_logit_bias, apply_logit_bias_torch
from sampler_scenarios.params import SamplingParams

Scene = tuple[NDArray[np.float32], torch.Tensor, History, Callable[..., NDArray[np.float32]]]
MakeScene = Callable[..., Scene]
MakeTable = Callable[..., torch.Tensor]

CAP = 140


def _biases(vocab_size: int, rng: np.random.Generator) -> list[dict[int, float]]:
    """None, one, a whole table, some outside the vocabulary, and what overflows."""
    token_ids = rng.permutation(max(vocab_size, 200))[:CAP].tolist()
    return [
        {token: float(rng.normal(0, 30)) for token in token_ids},
        {},
        {vocab_size - 1: -100.0},
        {-1: 5.0, 0: 3e38, vocab_size: 7.0, 2**31 - 1: 1.0},
        {0: 1.0},
    ]


@pytest.mark.parametrize("vocab_size", [1, 127, 128, 129, 4097])
def test_listed_tokens_are_biased(
    vocab_size: int,
    make_scene: MakeScene,
    make_table: MakeTable,
    assert_edits: Callable[..., None],
) -> None:
    """Every listed token gets its bias with one rounding; -inf and NaN stay; no other moves."""
    biases = _biases(vocab_size, np.random.default_rng(vocab_size))
    params = [SamplingParams(logit_bias=bias) for bias in biases]
    logits, slots, _, processed = make_scene(vocab_size, vocab_size, params)
    token_ids = make_table([list(bias) for bias in biases], torch.int32, CAP)
    values = make_table([list(bias.values()) for bias in biases], torch.float32, CAP)
    counts = torch.tensor([len(bias) for bias in biases], dtype=torch.int32)
    assert_edits(
        lambda x: apply_logit_bias(x, slots, token_ids, values, counts),
        lambda x: apply_logit_bias_torch(x, slots, token_ids, values, counts),
        logits,
        processed("logit_bias"),
    )


@pytest.mark.parametrize("apply", [apply_logit_bias, apply_logit_bias_torch])
def test_counts_beyond_the_table_mean_the_table(apply: Callable[..., None]) -> None:
    """A count above the table's width reads no further, and a negative one reads nothing."""
    logits, slots = torch.zeros(2, 5), torch.tensor([0, 1])
    token_ids = torch.tensor([[1, 3], [1, 3]], dtype=torch.int32)
    apply(logits, slots, token_ids, torch.ones(2, 2), torch.tensor([9, -1], dtype=torch.int32))
    assert logits.tolist() == [[0, 1, 0, 1, 0], [0, 0, 0, 0, 0]]


@pytest.mark.parametrize("apply", [apply_logit_bias, apply_logit_bias_torch])
@pytest.mark.parametrize(("n_rows", "n_slots", "cap"), [(0, 2, 3), (2, 0, 3), (2, 2, 0)])
def test_nothing_to_do(n_rows: int, n_slots: int, cap: int, apply: Callable[..., None]) -> None:
    """Without rows, slots or room in the table there is nothing to do."""
    logits = torch.ones(n_rows, 5)
    slots = torch.zeros(n_rows, dtype=torch.int64)
    token_ids = torch.zeros((n_slots, cap), dtype=torch.int32)
    apply(logits, slots, token_ids, token_ids.float(), torch.ones(n_slots, dtype=torch.int32))
    assert (logits == 1).all()


@pytest.mark.parametrize("apply", [apply_logit_bias, apply_logit_bias_torch])
def test_biases_of_another_shape_are_refused(apply: Callable[..., None]) -> None:
    """There is one bias for each listed token."""
    token_ids = torch.zeros((2, 3), dtype=torch.int32)
    zeros = torch.zeros(2, dtype=torch.int64)
    with pytest.raises(ValueError, match=r"biases has shape \(2, 2\); \[2, 3\] is expected"):
        apply(torch.zeros(2, 5), zeros, token_ids, torch.zeros(2, 2), zeros.int())
