"""Turns: what the audit does with a processor, as plain data that travels to its worker.

Knows no processor, and neither torch nor Hypothesis.
"""

import string
from dataclasses import dataclass
from typing import Final, Literal, TypedDict


class Turn(TypedDict):
    """One turn: requests leave, come and change places, then the engine makes a step.

    ``remove`` and ``swap`` count among the requests that are there, modulo their number, the second
    of a swap from the last one back; ``add`` names settings by index. In the step every request has
    up to ``drafts`` draft tokens, and ``masked`` takes half of the tokens away, as a grammar does.
    A turn that leaves nobody in the batch makes no step.
    """

    remove: list[int]
    add: list[int]
    swap: list[tuple[int, int]]
    drafts: int
    masked: bool


KINDS: Final = {
    "raised": "it raises an exception",
    "returned": "a method returns what its interface does not allow",
    "nondeterministic": "the same steps give different logits",
    "neighbour": "a row depends on the other rows of its step",
    "leak": "state of another request reaches a row",
    "moved": "a row is wrong after its request has moved to another row",
    "swapped": "a row is wrong after two requests have changed places",
    "order": "a row is wrong where rows are not in the order of slots",
    "state": "a row is wrong after requests have come, gone and moved in one step",
    "aliased": "it returns memory that it returned or was given in an earlier step",
    "dropped": "it changes the logits in place and returns a tensor without that change",
    "masked": "a token that was masked can be drawn again",
    "nan": "it writes NaN or +inf",
    "argmax": "it says that it leaves the likeliest token alone, and does not",
    "accepted": "validate_params accepts parameters that it should refuse",
    "refusal": "validate_params raises something else than a ValueError",
}
"""Every kind of fault, in the order of the report, and what it means."""

STATE_KINDS: Final = ("leak", "moved", "swapped", "order")
"""Those that ``state`` says nothing new beside."""


class Fault(TypedDict):
    """What was wrong: a name of KINDS, one line on where, and the steps up to it, a line each."""

    kind: str
    where: str
    steps: list[str]


MOST_DRAFTS: Final = 2
"""Of a request of a slot-level processor; batch-level ones know no drafts."""


@dataclass(frozen=True)
class Facts:
    """What the search and the report have to know of a class."""

    level: Literal["batch-level", "slot-level"]
    argmax_invariant: bool
    n_settings: int
    python: str

    @property
    def most_drafts(self) -> int:
        """The most draft tokens of a request in a step."""
        return 0 if self.level == "batch-level" else MOST_DRAFTS


def request_label(number: int) -> str:
    """A to Z by the order of admission, then R26 and so on."""
    return string.ascii_uppercase[number] if number < 26 else f"R{number}"
