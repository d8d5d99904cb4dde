"""The tokens of each slot, and the drafts that a row takes as already emitted.

A row of a request stands after its prompt, its output, and the drafts before the row: all three
are one sequence here. It says what a row has seen, and nothing of what a stage makes of it.
"""

from dataclasses import dataclass, fields

import torch

from sampler_kernels._arguments import check_vector
from sampler_kernels._stage_arguments import check_settings, check_table
from sampler_kernels._triton import jit, tl


@dataclass(frozen=True, eq=False)
class History:
    """What came before each row.

    A length out of range counts as the nearest one that is possible: ``total_len`` from 0 to
    max_len, ``prompt_len`` from 0 to ``total_len``, ``n_drafts`` from 0 to max_drafts.

    Attributes:
        token_ids: ``[n_slots, max_len]`` int32: prompt, then output; undefined after total_len.
        prompt_len: ``[n_slots]`` int32.
        total_len: ``[n_slots]`` int32, prompt and output.
        drafts: ``[n_rows, max_drafts]`` int32: tokens that follow the committed ones before this
            row, padded with -1; max_drafts may be 0.
        n_drafts: ``[n_rows]`` int32. A draft of -1 among them counts as a token of no word.

    Raises:
        TypeError, ValueError: shapes, dtypes or devices do not fit together.
    """

    token_ids: torch.Tensor
    prompt_len: torch.Tensor
    total_len: torch.Tensor
    drafts: torch.Tensor
    n_drafts: torch.Tensor

    def __post_init__(self) -> None:
        device = getattr(self.token_ids, "device", torch.device("cpu"))
        check_table("token_ids", self.token_ids, (None, None), (torch.int32,), device)
        for name in ("prompt_len", "total_len"):
            lengths = check_settings(name, getattr(self, name), self.n_slots, torch.int32, device)
            object.__setattr__(self, name, lengths)
        check_table("drafts", self.drafts, (None, None), (torch.int32,), device)
        n_drafts = check_vector("n_drafts", self.n_drafts, self.n_rows, (torch.int32,), device)
        object.__setattr__(self, "n_drafts", n_drafts)

    @property
    def n_slots(self) -> int:
        """How many requests it can hold."""
        return self.token_ids.shape[0]

    @property
    def n_rows(self) -> int:
        """How many rows of logits it belongs to."""
        return self.drafts.shape[0]

    @property
    def width(self) -> int:
        """The most tokens that a row can have before it."""
        return self.token_ids.shape[1] + self.drafts.shape[1]

    def check_rows(self, logits: torch.Tensor) -> None:
        """Logits must have its rows and be where it is.

        Raises:
            ValueError: another number of rows, or another device.
        """
        if self.n_rows != logits.shape[0]:
            raise ValueError(
                f"history has drafts of {self.n_rows} rows but logits have {logits.shape[0]}; one "
                "row of drafts for each row of logits is expected; pad those without with -1"
            )
        if self.token_ids.device != logits.device:
            raise ValueError(
                f"history is on {self.token_ids.device} but logits are on {logits.device}; "
                "keep it where the logits are"
            )

    @property
    def tokens(self) -> tuple[torch.Tensor, torch.Tensor]:
        """From ``history_ptr`` to ``drafts_ptr``, as kernels that read tokens take them."""
        return self.token_ids, self.drafts

    @property
    def lengths(self) -> tuple[torch.Tensor | int, ...]:
        """From ``max_len`` to ``n_drafts_ptr``, as every kernel that reads it takes them."""
        return (
            self.token_ids.shape[1],
            self.prompt_len,
            self.total_len,
            self.drafts.shape[1],
            self.n_drafts,
        )


@jit
def load_lengths(
    slot: tl.tensor,
    row: tl.tensor,
    max_len: tl.tensor,
    prompt_len_ptr: tl.tensor,
    total_len_ptr: tl.tensor,
    max_drafts: tl.tensor,
    n_drafts_ptr: tl.tensor,
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """Where the prompt ends, the committed tokens end, and the drafts before the row end."""
    total_len = tl.minimum(tl.maximum(tl.load(total_len_ptr + slot), 0), max_len)
    prompt_len = tl.minimum(tl.maximum(tl.load(prompt_len_ptr + slot), 0), total_len)
    n_drafts = tl.minimum(tl.maximum(tl.load(n_drafts_ptr + row), 0), max_drafts)
    return prompt_len, total_len, total_len + n_drafts


@jit
def load_tokens(
    positions: tl.tensor,
    slot: tl.tensor,
    row: tl.tensor,
    total_len: tl.tensor,
    end: tl.tensor,
    history_ptr: tl.tensor,
    max_len: tl.tensor,
    drafts_ptr: tl.tensor,
    max_drafts: tl.tensor,
) -> tl.tensor:
    """Token ids at positions of a row's sequence; -1 outside [0, end)."""
    committed = (positions >= 0) & (positions < total_len)
    drafted = (positions >= total_len) & (positions < end)
    before = tl.load(history_ptr + slot * max_len + positions, mask=committed, other=-1)
    draft_ptr = drafts_ptr + row * max_drafts + (positions - total_len)
    return tl.where(committed, before, tl.load(draft_ptr, mask=drafted, other=-1))


@dataclass(frozen=True, eq=False)
class RowTokens:
    """The twins' view of a history: each row's whole sequence.

    Attributes:
        slots: ``[n_rows]`` int64, 0 in place of a slot out of range.
        known: ``[n_rows]`` bool: the slot is in range; others have no tokens.
        token_ids: ``[n_rows, width]`` int32, -1 from ``end`` on.
        prompt_len: ``[n_rows]`` int64.
        total_len: ``[n_rows]`` int64.
        end: ``[n_rows]`` int64, tokens before the row.
    """

    slots: torch.Tensor
    known: torch.Tensor
    token_ids: torch.Tensor
    prompt_len: torch.Tensor
    total_len: torch.Tensor
    end: torch.Tensor

    def of_rows(self, rows: torch.Tensor) -> "RowTokens":
        """Only ``rows``, in that order."""
        return RowTokens(*(getattr(self, field.name)[rows] for field in fields(self)))

    def add_counts(self, counts: torch.Tensor, counted: torch.Tensor) -> torch.Tensor:
        """``counts`` ``[n_rows, vocab_size]`` int32 plus one for each token ``counted``, anew."""
        inside = (self.token_ids >= 0) & (self.token_ids < counts.shape[1])
        rows, places = (counted & inside).nonzero(as_tuple=True)
        one = torch.ones((), dtype=torch.int32, device=counts.device)
        token_ids = self.token_ids[rows, places].long()
        return counts.index_put((rows, token_ids), one, accumulate=True)

    @property
    def positions(self) -> torch.Tensor:
        """``[1, width]``, 0 and up."""
        return torch.arange(self.token_ids.shape[1], device=self.token_ids.device)[None, :]


def known_slots_torch(slots: torch.Tensor, n_slots: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Slots with 0 in place of those out of range, and which are in range."""
    known = (slots >= 0) & (slots < n_slots)
    return torch.where(known, slots, 0), known


def row_tokens_torch(history: History, slots: torch.Tensor) -> RowTokens:
    """What stands before each row; a row without a known slot has nothing before it."""
    slots, known = known_slots_torch(slots, history.n_slots)
    if history.n_slots == 0:
        nothing = torch.zeros_like(slots)
        token_ids = history.drafts.new_full((len(slots), history.width), -1)
        return RowTokens(slots, known, token_ids, nothing, nothing, nothing)
    max_len, max_drafts = history.token_ids.shape[1], history.drafts.shape[1]
    total_len = history.total_len.long().clamp(0, max_len)[slots] * known
    prompt_len = torch.minimum(history.prompt_len.long().clamp(min=0)[slots], total_len)
    n_drafts = history.n_drafts.long().clamp(0, max_drafts) * known
    end = total_len + n_drafts
    # A pad column at the end is what positions outside point to.
    both = torch.nn.functional.pad(torch.cat((history.token_ids[slots], history.drafts), 1), (0, 1))
    both[:, -1] = -1
    positions = torch.arange(history.width, device=slots.device)[None, :]
    columns = torch.where(
        positions < total_len[:, None], positions, positions - total_len[:, None] + max_len
    )
    columns = torch.where(positions < end[:, None], columns, history.width)
    return RowTokens(slots, known, both.gather(1, columns), prompt_len, total_len, end)
