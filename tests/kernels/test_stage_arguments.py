"""What every stage refuses of logits and slots, and what it says."""

from collections.abc import Callable

import pytest
import torch

from sampler_kernels import apply_logit_bias, apply_logit_bias_torch

LOGITS = torch.zeros(2, 8)
SLOTS = torch.zeros(2, dtype=torch.int64)

REFUSED: dict[str, tuple[object, object, type[Exception], str]] = {
    "no tensor": ([[0.0]], SLOTS, TypeError, "logits are list; a tensor of"),
    "dtype": (LOGITS.bfloat16(), SLOTS, TypeError, "bfloat16; float32 is edited in place"),
    "vocabulary stride": (
        torch.zeros(8, 2).T,
        SLOTS,
        ValueError,
        r"stride 2 along the vocabulary; 1 is expected.*logits\.contiguous\(\)",
    ),
    "one row twice": (
        LOGITS[:1].expand(2, 8),
        SLOTS,
        ValueError,
        r"row stride of 0 for a vocabulary of 8, so rows share.*logits\.clone\(\)",
    ),
    "one row": (LOGITS[0], SLOTS, ValueError, r"shape \(8,\); \[batch, vocab_size\]"),
    "slots' dtype": (LOGITS, SLOTS.int(), TypeError, "slots is torch.int32; a tensor of int64"),
    "slots' number": (LOGITS, SLOTS[:1], ValueError, r"slots has shape \(1,\); \[2\], .* each row"),
    "slots' device": (LOGITS, SLOTS.to("meta"), ValueError, r"slots is on meta but logits are on"),
}


@pytest.mark.parametrize("apply", [apply_logit_bias, apply_logit_bias_torch])
@pytest.mark.parametrize(
    ("logits", "slots", "error", "message"), REFUSED.values(), ids=REFUSED.keys()
)
def test_refused(
    logits: object,
    slots: object,
    error: type[Exception],
    message: str,
    apply: Callable[..., None],
) -> None:
    """The message says what was given, what is expected, and what to do."""
    token_ids, counts = torch.zeros((1, 2), dtype=torch.int32), torch.ones(1, dtype=torch.int32)
    with pytest.raises(error, match=message):
        apply(logits, slots, token_ids, torch.zeros(1, 2), counts)
