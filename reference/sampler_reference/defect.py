"""Defect: one way to be wrong, as data. Knows no law and no sampler."""

from dataclasses import dataclass
from typing import Literal

from sampler_reference.defect_laws import Law
from sampler_reference.processors import Processor

Place = Literal[
    "kept",
    "scale",
    "noise",
    "seeds",
    "batch",
    "processing",
    "state",
    "speculative",
    "log_probs",
]


@dataclass(frozen=True, kw_only=True)
class Defect:
    """One way to be wrong.

    Attributes:
        name: Argument of ``--defect``.
        summary: What happens, in one line.
        stage: Where it sits: the kept set, the scale of the logits, the noise, the seeds, what
            the row shares with its batch, the processing before the filters, the state that a
            request leaves or takes along, speculation, or the list of log-probs.
        source: A public report of this kind of fault.
        needs: Filters and stages without any of which it changes nothing.
        one_of: Stages of which one at least must be on too; empty where any will do.
        law: ``(logits float32 [V], params, conventions) -> probs float64 [V]``; None where the law
            of one draw is not what is wrong.
        process: ``(logits float32 [V], request, model, conventions) -> float32 [V]``, what reaches
            the filters in place of the right ``process``; None where that is not what is wrong, or
            is no function of the request.
        pooled: Whether it is in the fixed list of alternatives of a run, DEFECT_LIST_VERSION.
        found_by: The check of the audit that must see it.
        entry: The entry of the fault corpus in whose first cell it shows; empty where a quick plan
            shows it.
    """

    name: str
    summary: str
    stage: Place
    source: str
    needs: frozenset[str] = frozenset()
    one_of: frozenset[str] = frozenset()
    law: Law | None = None
    process: Processor | None = None
    pooled: bool = False
    found_by: str = "kept set"
    entry: str = ""
