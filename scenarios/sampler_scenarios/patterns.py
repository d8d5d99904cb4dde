"""Batch patterns: who sits beside the audited row, and who did before. Batches.py builds them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Pattern:
    """How a batch is made around one row; the row's own answer may not depend on it.

    Attributes:
        name: The last part of a cell id.
        n_mates: Other rows in the batch.
        mates: Parameters of the mates: a fixed mix, the audited row's own, or no mates.
        pad: Float32 elements between the end of a row and the start of the next.
        why: The fault that the pattern provokes, in one sentence.
        past: Earlier steps, each the order of its rows: 0 to n_mates are the rows of the batch,
            larger numbers requests that have left. The audited row is number ``n_mates // 2``.
        n_drafts: Draft tokens of the audited request. Its rows are one more, and the audited one
            is that after ``after_drafts`` of them; every second mate brings one draft too.
        after_drafts: Where among the drafts the audited row stands; all of them: the bonus token's.
        drawn_drafts: Whether the drafts were drawn from logits of their own, or count as certain.
        poisoned: Whether the first mate's logits are NaN throughout.
    """

    name: str
    n_mates: int
    mates: Literal["none", "same", "mixed"]
    pad: int
    why: str
    past: tuple[tuple[int, ...], ...] = ()
    n_drafts: int = 0
    after_drafts: int = 0
    drawn_drafts: bool = False
    poisoned: bool = False

    @property
    def n_leavers(self) -> int:
        """Requests that took part in earlier steps only."""
        return max((max(order) - self.n_mates for order in self.past), default=0)


PATTERNS: Mapping[str, Pattern] = {
    pattern.name: pattern
    for pattern in (
        Pattern("alone", 0, "none", 0, "The answer that every other pattern must repeat."),
        Pattern(
            "strided",
            2,
            "same",
            37,
            "The middle of three rows cut from a wider buffer: a kernel that takes the vocabulary"
            " for the stride reads padding and its neighbour (vllm-project/vllm#42684).",
        ),
        Pattern(
            "mixed-7",
            7,
            "mixed",
            0,
            "Eight rows, no two mates asking the same: parameters read from a neighbour, from the"
            " first row or from the whole batch's maximum show.",
        ),
        Pattern(
            "mixed-8",
            8,
            "mixed",
            0,
            "Nine rows, just above the batch size at which an engine changes from one"
            " implementation to another (vllm-project/vllm#50979).",
        ),
        Pattern(
            "mixed-64",
            64,
            "mixed",
            0,
            "Sixty-five mixed rows, above the last row count that kernels split over many"
            " programs.",
        ),
        Pattern(
            "same-64",
            64,
            "same",
            0,
            "Sixty-five rows that ask the same: engines choose by the batch whether top_k, top_p"
            " or both are on, and only an unmixed batch takes the path for one of them.",
        ),
        Pattern(
            "poisoned",
            2,
            "mixed",
            0,
            "The row before is NaN throughout: whatever becomes of it, its neighbours' answers stay"
            " their own (vllm-project/vllm#40376).",
            poisoned=True,
        ),
        Pattern(
            "recycled",
            3,
            "mixed",
            0,
            "The row's slot was that of a request with every stage on: what it left there must not"
            " act any more (vllm-project/vllm#43894).",
            past=((0, 4, 2, 3), (0, 4, 2, 3)),
        ),
        Pattern(
            "swapped",
            4,
            "mixed",
            0,
            "The same requests sat in other rows before; last, two of them changed places. State"
            " that stays behind, or is copied to both, shows (vllm-project/vllm#48419).",
            past=((4, 3, 2, 1, 0), (0, 2, 1, 3, 4)),
        ),
        Pattern(
            "staggered",
            4,
            "mixed",
            0,
            "Three mates ended, one a step; each time the last row moved into the gap, the audited"
            " row too (torch-spyre/sendnn-inference#508).",
            past=((5, 7, 6, 3, 4, 1, 2, 0), (0, 7, 6, 3, 4, 1, 2), (0, 7, 2, 3, 4, 1)),
        ),
        Pattern(
            "draft-1",
            2,
            "mixed",
            0,
            "The row of the first of two drafts: a filter that acts on the last row alone, or not"
            " at all where drafts are verified, shows (vllm-project/vllm#38467).",
            n_drafts=2,
        ),
        Pattern(
            "draft-2",
            2,
            "mixed",
            0,
            "The row of the second draft: penalties and bad words count the first one as emitted"
            " (vllm-project/vllm#42802).",
            n_drafts=2,
            after_drafts=1,
        ),
        Pattern(
            "draft-bonus",
            2,
            "mixed",
            0,
            "The token after two accepted drafts, which many verifiers draw in other code"
            " (vllm-project/vllm#54442).",
            n_drafts=2,
            after_drafts=2,
        ),
        Pattern(
            "drawn-draft-1",
            0,
            "none",
            0,
            "A draft drawn from logits of its own: what replaces it must come from the normalised"
            " residual, and from noise of its own (vllm-project/vllm#54282).",
            n_drafts=1,
            drawn_drafts=True,
        ),
    )
}
"""Every pattern by name."""
