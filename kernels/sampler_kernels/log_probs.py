"""Log-probs, top tokens and ranks of rows: each row's numbers are its own.

The arithmetic of a row does not see batch, chunk, tile or place, so log-probs of a prompt are the
same bits however it is cut. As everywhere in this package NaN is a masked token, +inf is FLT_MAX
and both zeros are equal. It knows no request; which rows are raw or processed is the caller's.
"""

import torch

from sampler_kernels._arguments import (
    check_kernel_device,
    check_logits,
    choose_block_size,
)
from sampler_kernels._compact import decide_compact_rows
from sampler_kernels._keys import (
    canonical_logits_torch,
    load_logits,
    ordered_key,
    ordered_key_torch,
)
from sampler_kernels._log_sum import LogSums, log_sums, log_sums_torch
from sampler_kernels._radix import radix_top_k
from sampler_kernels._rows import (
    CUT_KEY,
    DEFAULT_BLOCK_SIZE,
    N_FINITE,
    ROW_FIELDS,
    TIE_ID,
    is_kept,
    scan_rows,
)
from sampler_kernels._stage_arguments import check_table
from sampler_kernels._triton import jit, launch, tl


def row_log_sum(logits: torch.Tensor, *, block_size: int | None = None) -> torch.Tensor:
    """Ln sum(exp(logits)) of each row, ``[n_rows]`` fp64; -inf where all is masked.

    Logits are [n_rows, vocab_size] fp32, bf16 or fp16 with any row stride. The error is at most
    ``mass_error(vocab_size)`` nats.

    Raises:
        TypeError, ValueError: logits that kernels cannot take.
        InterpreterUnsupported: there is no GPU, and Triton's interpreter cannot run.
    """
    sums = _sums(check_logits(logits), block_size)
    return sums.z_max.double() + sums.log_mass


def row_log_sum_torch(logits: torch.Tensor) -> torch.Tensor:
    """The twin of ``row_log_sum`` in plain torch."""
    sums = log_sums_torch(check_logits(logits))
    return sums.z_max.double() + sums.log_mass


def log_probs_of(
    logits: torch.Tensor, token_ids: torch.Tensor, *, block_size: int | None = None
) -> torch.Tensor:
    """Log-probs of tokens in their rows' softmax, ``[n_rows, m]`` fp32, rounded from fp64.

    Logits are as in ``row_log_sum``, token_ids [n_rows, m] int64. A masked token has -inf, and so
    has an id out of range, such as the -1 that pads a list.

    Raises:
        TypeError, ValueError: shapes, dtypes or devices do not fit together.
        InterpreterUnsupported: there is no GPU, and Triton's interpreter cannot run.
    """
    logits, token_ids = _check(logits, token_ids)
    return _log_probs(logits, token_ids, _sums(logits, block_size))


def log_probs_of_torch(logits: torch.Tensor, token_ids: torch.Tensor) -> torch.Tensor:
    """The twin of ``log_probs_of`` in plain torch."""
    logits, token_ids = _check(logits, token_ids)
    return _log_probs(logits, token_ids, log_sums_torch(logits))


def top_token_ids(logits: torch.Tensor, n: int, *, block_size: int | None = None) -> torch.Tensor:
    """The n tokens of the largest logits, best first, ``[n_rows, n]`` int64, all distinct.

    Equal logits stand by token id, and so do masked tokens, which come last.

    Raises:
        TypeError, ValueError: logits that kernels cannot take, or n not in 0 to vocab_size.
        InterpreterUnsupported: there is no GPU, and Triton's interpreter cannot run.
    """
    logits = _check_top(logits, n)
    check_kernel_device(logits)
    n_rows, vocab_size = logits.shape
    block_size = choose_block_size(block_size, DEFAULT_BLOCK_SIZE, vocab_size)
    off = torch.full((n_rows,), -torch.inf, dtype=torch.float64, device=logits.device)
    rows = scan_rows(logits, off, block_size=block_size)
    top_k = torch.full((n_rows,), n, dtype=torch.int64, device=logits.device)
    decide_compact_rows(rows, top_k, torch.ones_like(off, dtype=torch.float32), keep_all=False)
    radix_top_k(logits, rows, top_k, keep_all=False, block_size=block_size)
    token_ids = torch.empty((n_rows, n), dtype=torch.int64, device=logits.device)
    launch(
        _gather_kernel,
        (n_rows if n else 0,),
        logits,
        logits.stride(0),
        vocab_size,
        n,
        rows.state,
        token_ids,
        BLOCK_SIZE=block_size,
    )
    order = _canonical_at(logits, token_ids).sort(dim=1, descending=True, stable=True).indices
    return token_ids.gather(1, order)


def top_token_ids_torch(logits: torch.Tensor, n: int) -> torch.Tensor:
    """The twin of ``top_token_ids`` in plain torch."""
    keys = ordered_key_torch(canonical_logits_torch(_check_top(logits, n)))
    return keys.sort(dim=1, descending=True, stable=True).indices[:, :n]


def top_log_probs(
    logits: torch.Tensor, n: int, *, block_size: int | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """``top_token_ids`` and the ``log_probs_of`` these tokens."""
    token_ids = top_token_ids(logits, n, block_size=block_size)
    return token_ids, log_probs_of(logits, token_ids, block_size=block_size)


def top_log_probs_torch(logits: torch.Tensor, n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The twin of ``top_log_probs`` in plain torch."""
    token_ids = top_token_ids_torch(logits, n)
    return token_ids, log_probs_of_torch(logits, token_ids)


def ranks_of(
    logits: torch.Tensor, token_ids: torch.Tensor, *, block_size: int | None = None
) -> torch.Tensor:
    """How many logits of the row are at least each token's, ``[n_rows, m]`` int64.

    The best has 1; of tied tokens each has the worst of their ranks (vllm 0.32.0,
    v1/worker/gpu/sample/logprob.py); masked tokens have vocab_size, ids out of range 0. Token_ids
    are [n_rows, m] int64.

    Raises:
        TypeError, ValueError: shapes, dtypes or devices do not fit together.
        InterpreterUnsupported: there is no GPU, and Triton's interpreter cannot run.
    """
    logits, token_ids = _check(logits, token_ids)
    check_kernel_device(logits)
    ranks = torch.empty_like(token_ids)
    vocab_size = logits.shape[1]
    launch(
        _rank_kernel,
        (token_ids.numel(),),
        logits,
        logits.stride(0),
        vocab_size,
        token_ids.shape[1],
        token_ids,
        ranks,
        BLOCK_SIZE=choose_block_size(block_size, DEFAULT_BLOCK_SIZE, vocab_size),
    )
    return ranks


def ranks_of_torch(logits: torch.Tensor, token_ids: torch.Tensor) -> torch.Tensor:
    """The twin of ``ranks_of`` in plain torch."""
    logits, token_ids = _check(logits, token_ids)
    ascending = canonical_logits_torch(logits).sort(dim=1).values
    below = torch.searchsorted(ascending, _canonical_at(logits, token_ids).contiguous())
    return torch.where(_exists(token_ids, logits), logits.shape[1] - below, 0)


def _check(logits: torch.Tensor, token_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    logits = check_logits(logits)
    shape = logits.shape[0], None
    if isinstance(token_ids, torch.Tensor):
        token_ids = token_ids.contiguous()
    return logits, check_table("token_ids", token_ids, shape, (torch.int64,), logits.device)


def _check_top(logits: torch.Tensor, n: int) -> torch.Tensor:
    logits = check_logits(logits)
    if not 0 <= n <= logits.shape[1]:
        raise ValueError(
            f"n is {n}; 0 to {logits.shape[1]}, the vocabulary, is allowed; "
            "the whole vocabulary is n=logits.shape[1]"
        )
    return logits


def _sums(logits: torch.Tensor, block_size: int | None) -> LogSums:
    check_kernel_device(logits)
    block_size = choose_block_size(block_size, DEFAULT_BLOCK_SIZE, logits.shape[1])
    return log_sums(logits, block_size=block_size)


def _log_probs(logits: torch.Tensor, token_ids: torch.Tensor, sums: LogSums) -> torch.Tensor:
    log_probs = sums.log_probs(_canonical_at(logits, token_ids)).float()
    return torch.where(_exists(token_ids, logits), log_probs, -torch.inf)


def _exists(token_ids: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
    return (token_ids >= 0) & (token_ids < logits.shape[1])


def _canonical_at(logits: torch.Tensor, token_ids: torch.Tensor) -> torch.Tensor:
    """Canonical logits of tokens ``[n_rows, m]``; of an id out of range, some token's."""
    return canonical_logits_torch(logits.gather(1, token_ids.clamp(0, logits.shape[1] - 1)))


@jit
def _gather_kernel(
    logits_ptr: tl.tensor,
    row_stride: tl.tensor,
    vocab_size: tl.tensor,
    n_wanted: tl.tensor,
    state_ptr: tl.tensor,
    token_ids_ptr: tl.tensor,
    BLOCK_SIZE: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    state = state_ptr + row * ROW_FIELDS
    cut_key = tl.load(state + CUT_KEY).to(tl.uint32)
    tie_id = tl.load(state + TIE_ID).to(tl.int32)
    # Masked tokens fill what is left behind the unmasked ones.
    n_masked = tl.load(state + N_FINITE).to(tl.int32)
    n_kept = tl.full([], 0, tl.int32)
    for start in range(0, vocab_size, BLOCK_SIZE):
        token_ids = start + tl.arange(0, BLOCK_SIZE)
        z = load_logits(logits_ptr + row * row_stride, token_ids, vocab_size)
        masked = ((z == -float("inf")) & (token_ids < vocab_size)).to(tl.int32)
        kept = is_kept(ordered_key(z), token_ids, cut_key, tie_id).to(tl.int32)
        slot = tl.where(
            kept > 0, n_kept + tl.cumsum(kept, 0) - 1, n_masked + tl.cumsum(masked, 0) - 1
        )
        fits = ((kept > 0) | (masked > 0)) & (slot < n_wanted)
        tl.store(token_ids_ptr + row * n_wanted + slot, token_ids.to(tl.int64), mask=fits)
        n_kept += tl.sum(kept, 0)
        n_masked += tl.sum(masked, 0)


@jit
def _rank_kernel(
    logits_ptr: tl.tensor,
    row_stride: tl.tensor,
    vocab_size: tl.tensor,
    n_wanted: tl.tensor,
    token_ids_ptr: tl.tensor,
    ranks_ptr: tl.tensor,
    BLOCK_SIZE: tl.constexpr,
) -> None:
    place = tl.program_id(0).to(tl.int64)
    row_ptr = logits_ptr + place // n_wanted * row_stride
    token_id = tl.load(token_ids_ptr + place)
    rank = tl.full([], 0, tl.int64)
    if (token_id >= 0) & (token_id < vocab_size):
        key = ordered_key(load_logits(row_ptr, token_id, vocab_size))
        for start in range(0, vocab_size, BLOCK_SIZE):
            token_ids = start + tl.arange(0, BLOCK_SIZE)
            others = ordered_key(load_logits(row_ptr, token_ids, vocab_size))
            above = (others >= key) & (token_ids < vocab_size)
            rank += tl.sum(above.to(tl.int32), 0)
    tl.store(ranks_ptr + place, rank)
