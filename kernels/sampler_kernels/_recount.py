"""Penalties whose tokens are counted in the history itself, at every step.

For scopes that a running count per slot cannot hold: a window that forgets, and a prompt that
counts for one penalty and not for another.
"""

from dataclasses import dataclass

import torch

from sampler_kernels._arguments import next_power_of_2
from sampler_kernels._penalise import Penalties, penalise
from sampler_kernels._triton import INTERPRETED, jit, launch, tl
from sampler_kernels.history import History, RowTokens, load_lengths, load_tokens

PAIR_BLOCK_SIZE = 1024 if INTERPRETED else 64
"""The most tokens that are compared with as many others at once."""


@dataclass(frozen=True)
class Scope:
    """Which of a row's tokens the penalties see; drafts are always output.

    Attributes:
        prompt_in_repetition: The prompt, for repetition.
        prompt_in_counts: The prompt, for frequency and presence.
        window: The last so many tokens; 0 is all.
    """

    prompt_in_repetition: bool
    prompt_in_counts: bool
    window: int

    @property
    def recounts(self) -> bool:
        """Whether a running count per slot cannot hold it."""
        return self.window > 0 or self.prompt_in_counts


def penalise_recounted(
    logits: torch.Tensor, slots: torch.Tensor, history: History, penalties: Penalties, scope: Scope
) -> None:
    """``apply_penalties`` where ``scope.recounts``."""
    window = min(scope.window or history.width, history.width)
    block_size = min(PAIR_BLOCK_SIZE, next_power_of_2(max(1, window)))
    launch(
        _recounted_penalties_kernel,
        (len(logits), -(-window // block_size)),
        logits,
        logits.stride(0),
        logits.shape[1],
        slots,
        history.n_slots,
        *history.tokens,
        *history.lengths,
        window,
        penalties.repetition,
        penalties.frequency,
        penalties.presence,
        PROMPT_IN_REPETITION=scope.prompt_in_repetition,
        PROMPT_IN_COUNTS=scope.prompt_in_counts,
        RECIPROCAL=penalties.reciprocal,
        BY_SIGN=penalties.by_sign,
        PAIR_BLOCK_SIZE=block_size,
    )


def recount_torch(
    before: RowTokens, vocab_size: int, scope: Scope
) -> tuple[torch.Tensor, torch.Tensor]:
    """Which tokens repetition sees, and how often the others do, each ``[n_rows, vocab_size]``."""
    within = before.positions >= 0
    if scope.window:
        within = before.positions >= before.end[:, None] - scope.window
    in_output = within & (before.positions >= before.prompt_len[:, None])
    zeros = torch.zeros(
        (len(before.end), vocab_size), dtype=torch.int32, device=before.token_ids.device
    )
    repeated = before.add_counts(zeros, within if scope.prompt_in_repetition else in_output) > 0
    return repeated, before.add_counts(zeros, within if scope.prompt_in_counts else in_output)


@jit
def _recounted_penalties_kernel(
    fp32_logits_ptr: tl.tensor,
    row_stride: tl.tensor,
    vocab_size: tl.tensor,
    slots_ptr: tl.tensor,
    n_slots: tl.tensor,
    history_ptr: tl.tensor,
    drafts_ptr: tl.tensor,
    max_len: tl.tensor,
    prompt_len_ptr: tl.tensor,
    total_len_ptr: tl.tensor,
    max_drafts: tl.tensor,
    n_drafts_ptr: tl.tensor,
    window: tl.tensor,
    repetition_ptr: tl.tensor,
    frequency_ptr: tl.tensor,
    presence_ptr: tl.tensor,
    PROMPT_IN_REPETITION: tl.constexpr,
    PROMPT_IN_COUNTS: tl.constexpr,
    RECIPROCAL: tl.constexpr,
    BY_SIGN: tl.constexpr,
    PAIR_BLOCK_SIZE: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots_ptr + row)
    if (slot >= 0) & (slot < n_slots):
        repetition = tl.load(repetition_ptr + slot)
        frequency = tl.load(frequency_ptr + slot)
        presence = tl.load(presence_ptr + slot)
        prompt_len, total_len, end = load_lengths(
            slot, row, max_len, prompt_len_ptr, total_len_ptr, max_drafts, n_drafts_ptr
        )
        first = tl.maximum(end - window, 0)
        lanes = tl.arange(0, PAIR_BLOCK_SIZE)
        places = first + tl.program_id(1) * PAIR_BLOCK_SIZE + lanes
        active = (repetition != 1.0) | (frequency != 0.0) | (presence != 0.0)
        if active:
            token_ids = load_tokens(
                places, slot, row, total_len, end, history_ptr, max_len, drafts_ptr, max_drafts
            )
            n_all = tl.zeros([PAIR_BLOCK_SIZE], tl.int32)
            n_output = tl.zeros([PAIR_BLOCK_SIZE], tl.int32)
            n_earlier = tl.zeros([PAIR_BLOCK_SIZE], tl.int32)
            for start in range(first, end, PAIR_BLOCK_SIZE):
                others = start + lanes
                other_ids = load_tokens(
                    others, slot, row, total_len, end,
                    history_ptr, max_len, drafts_ptr, max_drafts,
                )  # fmt: skip
                same = (token_ids[:, None] == other_ids[None, :]).to(tl.int32)
                n_all += tl.sum(same, 1)
                n_output += tl.sum(tl.where((others >= prompt_len)[None, :], same, 0), 1)
                n_earlier += tl.sum(tl.where(others[None, :] < places[:, None], same, 0), 1)
            n_repeated = n_output
            if PROMPT_IN_REPETITION:
                n_repeated = n_all
            count = n_output
            if PROMPT_IN_COUNTS:
                count = n_all
            # A token's first place in the window answers for all, so each is penalised once.
            touched = (n_earlier == 0) & (token_ids >= 0) & (token_ids < vocab_size)
            touched = touched & ((n_repeated > 0) | (count > 0))
            logits = fp32_logits_ptr + row * row_stride + token_ids
            x = tl.load(logits, mask=touched, other=0.0)
            y = penalise(
                x, n_repeated > 0, count, repetition, frequency, presence, RECIPROCAL, BY_SIGN
            )
            tl.debug_barrier()
            tl.store(logits, y, mask=touched)
