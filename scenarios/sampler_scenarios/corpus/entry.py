"""Entry: one kind of public fault, with its smallest input. Data; knows no rule of sampling."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from sampler_scenarios.batches import Batch, build_batch
from sampler_scenarios.cells import parse_cell
from sampler_scenarios.params import SamplingParams
from sampler_scenarios.requests import Request

Visible = Literal["in process", "server", "nowhere"]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A kind of fault that was reported in public.

    Attributes:
        id: ``B01`` and on; numbers that are missing were left out of the corpus.
        title: What goes wrong, in a line.
        sources: Public threads, ``owner/name#number``.
        right: The right answer to the input, in words.
        visible: Where an audit can see the fault: in process, only through a server, or nowhere
            that this project reaches.
        reason: Why it is not visible in process; empty where it is.
        cells: Cells whose answers the fault changes; the first holds the smallest input.
        own: The input, where no cell can hold it; None where the first cell does.
        kept: The token ids that may be drawn from the input, where they are few and known.
        probs: Their probabilities as published, to three digits; empty where only the set is known.
        defects: Names of planted defects that are this fault.
        control: Whether it is no fault, and must never be reported.
    """

    id: str
    title: str
    sources: tuple[str, ...]
    right: str
    visible: Visible = "in process"
    reason: str = ""
    cells: tuple[str, ...] = ()
    own: Callable[[], Batch] | None = None
    kept: tuple[int, ...] = ()
    probs: tuple[float, ...] = ()
    defects: tuple[str, ...] = ()
    control: bool = False

    def batch(self) -> Batch:
        """The smallest input, in fresh memory at each call."""
        return build_batch(parse_cell(self.cells[0])) if self.own is None else self.own()


def asked(
    logits: tuple[float, ...],
    params: SamplingParams,
    *,
    prompt: tuple[int, ...] = (),
    output: tuple[int, ...] = (),
    grammar: tuple[int, ...] = (),
) -> Callable[[], Batch]:
    """Makes a batch of one request; ``grammar`` are the ids that one allows, none: no grammar."""

    def own() -> Batch:
        row = np.array(logits, dtype=np.float32)
        request = Request(params, prompt, output)
        if grammar:
            request = replace(request, grammar=np.isin(np.arange(row.size), grammar))
        return Batch(row[None], (request,), 0)

    return own


def drafted(target: tuple[float, ...], draft: tuple[float, ...]) -> Callable[[], Batch]:
    """Makes a batch of one request whose one draft is drawn from ``draft``, both probabilities."""

    def own() -> Batch:
        rows = np.log(np.array([target, target], dtype=np.float32))
        draft_logits = np.log(np.array([draft], dtype=np.float32))
        return Batch(rows, (Request(),), 0, drafts=((0,),), draft_logits=draft_logits)

    return own
