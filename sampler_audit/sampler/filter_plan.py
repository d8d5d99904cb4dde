"""From conventions to calls: which filters one call decides, in which order, by which tie rule."""

from dataclasses import dataclass

import sampler_kernels as kernels
from sampler_reference.conventions import Conventions

KERNEL_ORDER = ("min_p", "top_k", "top_p")
"""The order in which one call of ``apply_filters`` lets them act."""


@dataclass(frozen=True)
class Pass:
    """Filters that one call decides, each on what the one before it left."""

    filters: tuple[str, ...]
    ties: kernels.Ties = "by_id"


Judgement = tuple[Pass, ...]
"""Passes that judge the same row; what all of them keep is kept. More than one where joint."""

TEMPERATURE: Judgement = (Pass(("temperature",)),)

ONE_CALL: tuple[Judgement, ...] = (TEMPERATURE, (Pass(KERNEL_ORDER),))
"""The plan whose filters one call decides."""


def filter_plan(conventions: Conventions) -> tuple[Judgement, ...]:
    """What to call, in order: TEMPERATURE once, and calls of ``apply_filters``.

    Raises:
        ValueError: a rule that the kernels do not know.
    """
    if not conventions.crossing_kept:
        raise ValueError(
            "the kernels keep the token that crosses top_p; conventions that drop it cannot run, "
            f"got {conventions.name}"
        )
    ties: dict[str, kernels.Ties] = {
        name: "keep_all" if rule == "keep_all" else "by_id"
        for name, rule in (("top_k", conventions.ties_at_k), ("top_p", conventions.ties_at_p))
    }
    plan: list[Judgement] = []
    for stage in conventions.stages:
        judgement = tuple(Pass((name,), ties.get(name, "by_id")) for name in stage)
        merged = _merged(plan[-1], judgement) if plan else None
        if merged:
            plan[-1] = merged
        else:
            plan.append(judgement)
    return tuple(plan)


def _merged(before: Judgement, after: Judgement) -> Judgement | None:
    """Both in one call, where the order within it and one tie rule allow that."""
    if len(before) != 1 or len(after) != 1:
        return None
    passes = before[0], after[0]
    names = tuple(name for p in passes for name in p.filters)
    if names != tuple(name for name in KERNEL_ORDER if name in names):
        return None
    # min_p keeps every tie by itself.
    rules = {p.ties for p in passes if p.filters != ("min_p",)}
    return (Pass(names, rules.pop()),) if len(rules) == 1 else None
