"""Batch patterns: who sits beside the audited row. Names only; batches.py builds them."""

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
    """

    name: str
    n_mates: int
    mates: Literal["none", "same", "mixed"]
    pad: int
    why: str


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
    )
}
"""Every pattern by name."""
