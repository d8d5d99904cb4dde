"""Findings: each failing minimal combination of a target in plain words, for every format."""

from collections.abc import Sequence
from dataclasses import dataclass

from sampler_scenarios.params import combo_name

from sampler_audit.reports import words
from sampler_audit.results import (
    CellResult,
    ComboResult,
    Histogram,
    KeptSet,
    LadderStep,
    TargetReport,
)

_SIZES = {1: "single filter", 2: "pair", 3: "triple"}


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One minimal failing combination: a sentence, facts, the worst cell and what to do."""

    combo: str
    title: str
    facts: tuple[str, ...]
    ladder: tuple[LadderStep, ...] = ()
    repeat: str = ""
    workaround: str = ""


def findings(target: TargetReport) -> tuple[Finding, ...]:
    """One for each failing combination of which no proper subset fails, the smallest first."""
    cells = {cell.cell: cell for cell in target.cells}
    minimal = [combo for combo in target.combos if combo.outcome == "fail" and combo.minimal]
    minimal.sort(key=lambda combo: len(combo.combo))
    return tuple(_finding(combo, target, cells.get(combo.worst)) for combo in minimal)


def _finding(combo: ComboResult, target: TargetReport, worst: CellResult | None) -> Finding:
    kinds = [f"{kind} ({n})" for kind, n in combo.row_kinds]
    facts = [f"{combo.n_failed} of {words.plural(combo.n_cells, 'cell')} fail"]
    if kinds:
        facts[0] += f", on the row kinds {words.listed(kinds, 8)}"
    if combo.log_e > 0:
        facts.append(f"All its cells together, odds against bad luck: {words.odds(combo.log_e)}")
    if worst is not None:
        facts += [f"Worst cell: {worst.cell}", *cell_facts(worst)]
    return Finding(
        combo=combo_name(combo.combo),
        title=lattice_words(combo, target.combos),
        facts=tuple(facts),
        ladder=worst.ladder if worst else (),
        repeat=worst.repeat if worst else "",
        workaround=", ".join(combo.nearest_passing),
    )


def lattice_words(failing: ComboResult, combos: Sequence[ComboResult]) -> str:
    """``every single filter passes, every pair passes, top_k+top_p+min_p fails``."""
    sizes = range(1, len(failing.combo))
    below = [_subsets_words(failing, combos, size) for size in sizes]
    return ", ".join([*filter(None, below), f"{combo_name(failing.combo)} fails"])


def _subsets_words(failing: ComboResult, combos: Sequence[ComboResult], size: int) -> str:
    all_of_size = [combo for combo in combos if len(combo.combo) == size]
    below = [combo for combo in all_of_size if set(combo.combo) < set(failing.combo)]
    passing = sum(combo.outcome == "pass" for combo in below)
    if not below:
        return ""
    if all(combo.outcome == "pass" for combo in all_of_size):
        return f"every {_SIZES[size]} passes"
    if passing == len(below):
        return f"every {_SIZES[size]} of it passes"
    return f"{passing} of its {words.plural(len(below), _SIZES[size])} pass and none fails"


def cell_facts(cell: CellResult) -> list[str]:
    """What was seen in a cell, one sentence a check; only failing ones of the smaller checks."""
    facts = [cell.reason] if cell.reason else []
    if cell.kept is not None:
        facts.append(_kept_words(cell.kept))
    if cell.histogram is not None:
        facts.append(_histogram_words(cell.histogram))
    return facts + [
        f"{check.check}: {check.reason or check.outcome}"
        for check in cell.checks
        if check.outcome in ("fail", "error")
    ]


def _kept_words(kept: KeptSet) -> str:
    text = f"Kept {words.plural(kept.n_kept, 'token')}, expected {words.count(kept.n_expected)}"
    if kept.n_lost:
        text += f"; lost {_some(kept.n_lost, kept.lost)}: {words.share(kept.lost_mass)} of the mass"
    if kept.n_gained:
        gained = words.share(kept.gained_mass)
        text += f"; gained {_some(kept.n_gained, kept.gained)}: {gained} of the kept weight"
    text += f" ({kept.verdict})"
    if kept.rule:
        text += f". Rule: {kept.rule}"
    if kept.also_allowed_by:
        text += f". This kept set alone would fit {', '.join(kept.also_allowed_by)}"
    return text


def _some(n: int, tokens: Sequence[int]) -> str:
    shown = ", ".join(str(token) for token in tokens)
    more = ", ..." if n > len(tokens) else ""
    return f"{n} (token{'' if n == 1 else 's'} {shown}{more})" if tokens else str(n)


def _histogram_words(histogram: Histogram) -> str:
    text = (
        f"{words.count(histogram.n_draws)} draws: chi-square {histogram.statistic:.1f} on"
        f" {histogram.dof} degrees of freedom, p {words.pvalue(histogram.pvalue)}"
        f" (Holm {words.pvalue(histogram.pvalue_holm)}), total variation"
        f" {histogram.total_variation:.3f}"
    )
    if histogram.log_e > 0:
        text += f", odds against bad luck {words.odds(histogram.log_e)}"
    return text
