"""What terminal and Markdown share: header lines, the table of combinations, the notes."""

from collections import Counter
from collections.abc import Iterable

from sampler_audit.reports import conclusion, words
from sampler_audit.reports.findings import known_only
from sampler_audit.results import AuditReport, CellResult, ComboResult, KeptSet, TargetReport
from sampler_scenarios.params import STAGES, combo_name

COMBO_COLUMNS = (
    "combination",
    "cells",
    "failed",
    "band",
    "draws",
    "chi2/dof",
    "p",
    "Holm p",
    "log10 E",
    "verdict",
)

_MOST_ROWS = 12
"""Passing combinations with stages that a table still shows one by one."""

_BAND = (
    "only tokens inside the stated rounding band at a threshold differ from the reference, so that"
    " both answers are right; not counted as faults"
)
_UNGATED = "not judged: the row holds NaN or +inf, for which this target states no policy"


def header(report: AuditReport, target: TargetReport) -> list[tuple[str, str]]:
    """What was audited, where and how much, as (label, text)."""
    info = target.info
    plan = (
        f"combos {report.combos}, rows {report.rows}: {words.plural(len(target.cells), 'cell')},"
        f" {words.count(target.n_draws)} draws, {words.seconds(target.seconds)}"
    )
    gate = (
        f"{report.gate}; false alarms: {words.false_alarm_rate(report.alpha, report.gate)}"
        f" (alpha {report.alpha:g}); seed {report.seed}"
    )
    return [
        ("engine", info.engine),
        ("device", info.device),
        ("path", info.path),
        ("convention", info.convention),
        ("plan", plan),
        ("gate", gate),
    ]


def is_folded(combo: ComboResult, target: TargetReport) -> bool:
    """Whether a combination is told in the notes alone: it has stages, passes, and is one of many.

    What fails, and what the user asked for by name, has a row of its own.
    """
    return combo in _passing_with_stages(target)


def _passing_with_stages(target: TargetReport) -> list[ComboResult]:
    """The combinations with stages that pass, where there are too many for a table."""
    passing = [c for c in target.combos if set(c.combo) & set(STAGES) and c.outcome == "pass"]
    return passing if len(passing) > _MOST_ROWS else []


def _stages_note(target: TargetReport) -> str:
    folded = _passing_with_stages(target)
    if not folded:
        return ""
    seen = Counter(name for combo in folded for name in combo.combo if name in STAGES)
    cells = words.plural(sum(combo.n_cells for combo in folded), "cell")
    named = ", ".join(f"{name} {seen[name]}" for name in STAGES if seen[name])
    return f"{len(folded)} combinations with stages pass ({cells}): {named}"


def combo_label(combo: ComboResult, target: TargetReport) -> str:
    """The outcome of a combination; KNOWN where it fails through known faults alone."""
    return "KNOWN" if known_only(combo, target) else conclusion.LABELS[combo.outcome]


def combo_row(combo: ComboResult, target: TargetReport) -> tuple[str, ...]:
    """A row of the table of combinations, in the order of COMBO_COLUMNS."""
    drawn = combo.dof > 0
    return (
        combo_name(combo.combo),
        str(combo.n_cells),
        str(combo.n_failed or "-"),
        str(combo.n_band or "-"),
        words.short_count(combo.n_draws) if combo.n_draws else "-",
        f"{combo.statistic:.0f}/{combo.dof}" if drawn else "-",
        words.pvalue(combo.pvalue) if drawn else "-",
        words.pvalue(combo.pvalue_holm) if drawn else "-",
        words.log10_e(combo.log_e) if combo.n_draws else "-",
        combo_label(combo, target),
    )


def notes(target: TargetReport) -> list[tuple[str, str]]:
    """What else a reader must know, as (label, text): checks, exceptions, coverage, conventions."""
    pairs = [
        ("stages", _stages_note(target)),
        ("kept sets", _kept_note(target.cells)),
        ("band", _band_note(target.cells)),
        ("histograms", _histogram_note(target.cells)),
        ("checks", _check_note(target.cells)),
        ("n/a", _reasons(target.cells, "not_applicable")),
        ("unclear", _reasons(target.cells, "inconclusive")),
        ("errors", _reasons(target.cells, "error")),
        ("conventions", _convention_note(target)),
        ("known", "; ".join(target.known)),
        ("known, gone", "; ".join(target.known_gone)),
        ("coverage", conclusion.coverage(target)),
        *target.notes,
    ]
    return [(label, text) for label, text in pairs if text]


def _kept_note(cells: Iterable[CellResult]) -> str:
    seen: Counter[str] = Counter(cell.kept.verdict for cell in cells if cell.kept is not None)
    words_of = (("EXACT", "exact"), ("FAIL", "wrong"), ("BAND", "band"), ("UNGATED", _UNGATED))
    return "; ".join(f"{seen[verdict]} {text}" for verdict, text in words_of if seen[verdict])


def _band_note(cells: Iterable[CellResult]) -> str:
    band = [(cell.cell, cell.kept.rule) for cell in cells if cell.kept and _is_band(cell.kept)]
    if not band:
        return ""
    cell, rule = band[0]
    example = f", as {cell}" + (f" ({rule})" if rule else "")
    return f"{words.plural(len(band), 'cell')}{example}: {_BAND}"


def _is_band(kept: KeptSet) -> bool:
    return kept.verdict == "BAND"


def _histogram_note(cells: Iterable[CellResult]) -> str:
    seen = [cell.histogram for cell in cells if cell.histogram is not None]
    if not seen:
        return ""
    return (
        f"{len(seen)}; smallest Holm p {words.pvalue(min(h.pvalue_holm for h in seen))}, largest"
        f" log10 E {words.log10_e(max(h.log_e for h in seen))}"
    )


def _check_note(cells: Iterable[CellResult]) -> str:
    seen = Counter((c.check, c.outcome.replace("_", " ")) for cell in cells for c in cell.checks)
    return "; ".join(f"{name}: {n} {outcome}" for (name, outcome), n in sorted(seen.items()))


def _reasons(cells: Iterable[CellResult], outcome: str) -> str:
    seen = Counter(cell.reason or "no reason given" for cell in cells if cell.outcome == outcome)
    return "; ".join(f"{words.plural(n, 'cell')}: {reason}" for reason, n in seen.most_common(5))


def _convention_note(target: TargetReport) -> str:
    """Which conventions fit every kept set; it names a likely cause and changes no verdict."""
    if not any(cell.kept is not None for cell in target.cells):
        return ""
    declared = target.info.convention
    others = [name for name in target.fitting_conventions if name != declared]
    fits = declared in target.fitting_conventions
    text = f"{declared}, as declared, {'fits' if fits else 'does not fit'} every kept set"
    if others:
        return (
            f"{text}; so would {', '.join(others)}"
            if fits
            else f"{text}; {', '.join(others)} would"
        )
    return text if fits else f"{text}, and no other known convention does"
