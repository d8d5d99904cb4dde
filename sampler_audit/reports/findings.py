"""Findings: each combination in which a fault first shows, in plain words, for every format."""

from collections.abc import Sequence
from dataclasses import dataclass

from sampler_audit.reports import words
from sampler_audit.results import (
    CellResult,
    ComboResult,
    Histogram,
    KeptSet,
    LadderStep,
    TargetReport,
)
from sampler_scenarios.params import combo_name

Fact = tuple[str, str]
"""A label and what was seen."""

_SIZES = {1: "single filter", 2: "pair", 3: "triple"}


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One minimal failing combination: a sentence, facts, the worst cell and what to do."""

    combo: str
    title: str
    facts: tuple[Fact, ...]
    ladder: tuple[LadderStep, ...] = ()
    repeat: str = ""
    workaround: str = ""

    @property
    def text(self) -> str:
        """Its facts and the command that repeats it, one a line."""
        lines = [f"{label}: {text}" for label, text in self.facts]
        return "\n".join([*lines, self.repeat])


def findings(target: TargetReport) -> tuple[Finding, ...]:
    """One for each combination that fails where no subset of it does, the smallest first.

    Known faults are no findings.
    """
    cells = {cell.cell: cell for cell in target.cells}
    minimal = [combo for combo in target.combos if combo.minimal]
    minimal.sort(key=lambda combo: len(combo.combo))
    return tuple(_finding(combo, target, cells.get(combo.worst)) for combo in minimal)


def _finding(combo: ComboResult, target: TargetReport, worst: CellResult | None) -> Finding:
    counts = dict(combo.row_kinds)
    kinds = [f"{kind} ({counts[kind]})" if counts[kind] else kind for kind in combo.first_kinds]
    fails_on = f"{combo.n_failed} of {words.plural(combo.n_cells, 'cell')}"
    if not combo.n_failed:
        fails_on = f"no cell alone; the draws of its {combo.n_cells} cells together"
    facts = [("fails in", fails_on), ("first on", f"rows of kind {words.listed(kinds, 16)}")]
    if combo.log_e > 0:
        odds = f"odds against bad luck {words.odds(combo.log_e)}, over all its cells"
        facts.append(("evidence", odds))
    if worst is not None:
        facts += [("worst cell", worst.cell), *cell_facts(worst)]
    return Finding(
        combo=combo_name(combo.combo),
        title=lattice_words(combo, target.combos),
        facts=tuple(facts),
        ladder=worst.ladder if worst else (),
        repeat=worst.repeat if worst else "",
        workaround=", ".join(combo.nearest_passing),
    )


def known_only(combo: ComboResult, target: TargetReport) -> bool:
    """Whether a combination fails through cells alone whose fault is known."""
    failing = [c for c in target.cells if c.combo == combo.combo and c.outcome == "fail"]
    return bool(failing) and all(cell.known for cell in failing)


def lattice_words(failing: ComboResult, combos: Sequence[ComboResult]) -> str:
    """``every single filter passes, every pair passes, top_k+top_p+min_p fails``."""
    name = combo_name(failing.combo)
    if any(c.outcome == "fail" and set(c.combo) < set(failing.combo) for c in combos):
        return f"{name} fails, on rows on which no smaller combination does"
    sizes = range(1, len(failing.combo))
    below = [_subsets_words(failing, combos, size) for size in sizes]
    return ", ".join([*filter(None, below), f"{name} fails"])


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


def cell_facts(cell: CellResult) -> list[Fact]:
    """What was seen in a cell, one fact a check; of the smaller checks only those that fail."""
    facts = []
    if cell.kept is not None:
        facts.append(("kept set", _kept_words(cell.kept)))
    if cell.histogram is not None:
        facts.append(("histogram", _histogram_words(cell.histogram)))
    facts += [
        (check.check, check.reason or check.outcome)
        for check in cell.checks
        if check.outcome in ("fail", "error")
    ]
    said = any(cell.reason in text for _, text in facts)
    return facts if said else [("reason", cell.reason), *facts]


def _kept_words(kept: KeptSet) -> str:
    text = f"kept {words.plural(kept.n_kept, 'token')}, expected {words.count(kept.n_expected)}"
    if kept.n_lost:
        text += f"; lost {_some(kept.n_lost, kept.lost)}: {words.share(kept.lost_mass)} of the mass"
    if kept.n_gained:
        gained = words.share(kept.gained_mass)
        text += f"; gained {_some(kept.n_gained, kept.gained)}: {gained} of the kept weight"
    if kept.rule:
        text += f"; {kept.rule}"
    if kept.also_allowed_by:
        text += f"; taken alone this kept set fits {', '.join(kept.also_allowed_by)}"
    return f"{kept.verdict}: {text}"


def _some(n: int, tokens: Sequence[int]) -> str:
    shown = ", ".join(str(token) for token in tokens)
    more = ", ..." if n > len(tokens) else ""
    said = words.count(n)
    return f"{said} (token{'' if n == 1 else 's'} {shown}{more})" if tokens else said


def _histogram_words(histogram: Histogram) -> str:
    text = (
        f"{words.count(histogram.n_draws)} draws: chi-square {histogram.statistic:.1f} on"
        f" {words.plural(histogram.dof, 'degree')} of freedom, p {words.pvalue(histogram.pvalue)}"
        f" (Holm {words.pvalue(histogram.pvalue_holm)}), total variation"
        f" {histogram.total_variation:.3f}"
    )
    if histogram.log_e > 0:
        text += f", odds against bad luck {words.odds(histogram.log_e)}"
    return text
