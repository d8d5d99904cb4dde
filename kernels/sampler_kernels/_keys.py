"""Logits as integers in the same order, so that selection compares and counts without rounding.

The key of a float is its bits with the sign turned into an offset. The order of keys is the order
of logits; equal logits, and both zeros, have one key. It knows nothing of rows or filters.
"""

import torch

from sampler_kernels._triton import jit, tl

LOWEST_FINITE_KEY = 0x00800000
"""Key of -FLT_MAX; masked tokens (-inf) lie below it."""

FLT_MAX = 3.4028234663852886e38

LOWEST_FINITE = tl.constexpr(LOWEST_FINITE_KEY)
_FLT_MAX = tl.constexpr(FLT_MAX)


@jit
def canonical_logits(x: tl.tensor) -> tl.tensor:
    """fp32 logits in which NaN is -inf, +inf is FLT_MAX and -0.0 is +0.0."""
    z = tl.where(x == x, x, -float("inf"))
    return tl.where(z == float("inf"), _FLT_MAX, z) + 0.0


@jit
def load_logits(row_ptr: tl.tensor, token_ids: tl.tensor, vocab_size: tl.tensor) -> tl.tensor:
    """Canonical logits of a tile; lanes beyond the vocabulary are masked tokens."""
    x = tl.load(row_ptr + token_ids, mask=token_ids < vocab_size, other=-float("inf"))
    return canonical_logits(x.to(tl.float32))


@jit
def ordered_key(z: tl.tensor) -> tl.tensor:
    """uint32 key of an fp32 logit."""
    bits = z.to(tl.uint32, bitcast=True)
    return tl.where((bits >> 31) != 0, bits ^ 0xFFFFFFFF, bits | 0x80000000)


@jit
def logit_of_key(key: tl.tensor) -> tl.tensor:
    """fp32 logit of a uint32 key: the inverse of ``ordered_key``."""
    bits = tl.where((key >> 31) != 0, key & 0x7FFFFFFF, key ^ 0xFFFFFFFF)
    return bits.to(tl.float32, bitcast=True)


def canonical_logits_torch(logits: torch.Tensor) -> torch.Tensor:
    """Twin of ``canonical_logits`` for logits of any floating dtype."""
    return torch.nan_to_num(logits.float(), nan=-torch.inf, posinf=FLT_MAX, neginf=-torch.inf) + 0.0


def ordered_key_torch(z: torch.Tensor) -> torch.Tensor:
    """Twin of ``ordered_key``; keys as int64, since torch sorts no uint32."""
    bits = z.view(torch.int32).long() & 0xFFFFFFFF
    return torch.where(bits >> 31 != 0, bits ^ 0xFFFFFFFF, bits | 0x80000000)
