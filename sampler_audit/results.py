"""What an audit found, as frozen data that reads and writes JSON; reports see this alone."""

import dataclasses
import json
import math
import types
import typing
from dataclasses import dataclass
from typing import Any, Literal

from sampler_audit.draws import TargetInfo
from sampler_audit.errors import UsageError

SCHEMA_VERSION = 1

Outcome = Literal["pass", "fail", "inconclusive", "not_applicable", "error"]


@dataclass(frozen=True, kw_only=True)
class KeptSet:
    """The tokens that survived the filters, held against the reference.

    Attributes:
        verdict: EXACT; BAND, when only tokens inside the stated rounding band differ; FAIL;
            UNGATED, when the row holds values for which the target declares no policy.
        rule: In words, what a FAIL broke.
        lost_mass: Probability, under the reference, of the tokens that should have stayed.
        gained_mass: Share of the kept weight that the tokens that should have gone take.
        lost: Up to eight of the lost token ids, likeliest first; ``gained`` alike.
        also_allowed_by: Conventions, other than the declared one, that allow this kept set.
    """

    verdict: Literal["EXACT", "BAND", "FAIL", "UNGATED"]
    n_kept: int
    n_expected: int
    n_lost: int = 0
    n_gained: int = 0
    lost_mass: float = 0.0
    gained_mass: float = 0.0
    lost: tuple[int, ...] = ()
    gained: tuple[int, ...] = ()
    rule: str = ""
    also_allowed_by: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Histogram:
    """Pearson's chi-square and G over bins with expected counts >= 5, and the e-value that gates.

    The ``_holm`` p-values are adjusted over all cells of the run that have a histogram; ``log_e``
    is the natural logarithm of the cell's e-value; ``total_variation`` is observed against
    expected.
    """

    n_draws: int
    statistic: float
    dof: int
    pvalue: float
    g_statistic: float
    g_pvalue: float
    log_e: float
    total_variation: float
    pvalue_holm: float = 1.0
    g_pvalue_holm: float = 1.0


@dataclass(frozen=True, kw_only=True)
class LadderStep:
    """One token of a failing cell: expected share, its exact range, and what was observed.

    For a kept-set failure without draws ``observed`` is 0 or the token's share of the kept weight.
    """

    token: int
    logit: float
    expected: float
    observed: float
    low: float
    high: float
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """A check other than kept set and histogram on one cell: support, seeds, noise, no effect."""

    check: str
    outcome: Outcome
    reason: str = ""
    log_e: float | None = None


@dataclass(frozen=True, kw_only=True)
class CellResult:
    """Everything that was seen in one cell.

    ``repeat`` is the command that shows it again; ``known`` the reason and link of the known fault
    that a failing cell is, which does not count.
    """

    cell: str
    combo: tuple[str, ...]
    row_kind: str
    outcome: Outcome
    reason: str = ""
    kept: KeptSet | None = None
    histogram: Histogram | None = None
    checks: tuple[CheckResult, ...] = ()
    ladder: tuple[LadderStep, ...] = ()
    seconds: float = 0.0
    repeat: str = ""
    known: str = ""

    @property
    def counts_as_failed(self) -> bool:
        """Whether it is wrong, and not in a way that is known."""
        return self.outcome == "fail" and not self.known


@dataclass(frozen=True, kw_only=True)
class ComboResult:
    """A combination of filters over all its cells.

    Attributes:
        statistic: Chi-square summed over its cells, with ``dof``, ``pvalue`` and ``pvalue_holm``
            over the combinations, and G beside it; ``log_e`` the mean e-value of the
            ``n_drawn_cells`` cells that have a histogram.
        worst: Id of the failing cell that loses or gains most, on a row of ``first_kinds``
            where there are any.
        row_kinds: Kinds of row that fail, with the number of failing cells of each.
        first_kinds: Those on which no proper subset of the combination fails: here the fault
            first shows. Empty where it only inherits the faults of a smaller combination.
        nearest_passing: Combinations or settings close by that pass: the workaround.
    """

    combo: tuple[str, ...]
    outcome: Outcome
    n_cells: int
    n_failed: int
    n_band: int = 0
    n_draws: int = 0
    n_drawn_cells: int = 0
    statistic: float = 0.0
    dof: int = 0
    pvalue: float = 1.0
    g_statistic: float = 0.0
    g_pvalue: float = 1.0
    pvalue_holm: float = 1.0
    log_e: float = 0.0
    worst: str = ""
    row_kinds: tuple[tuple[str, int], ...] = ()
    first_kinds: tuple[str, ...] = ()
    nearest_passing: tuple[str, ...] = ()

    @property
    def minimal(self) -> bool:
        """Whether it fails on some kind of row on which no smaller combination fails."""
        return bool(self.first_kinds)


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """Whether this very run would have found a planted defect.

    ``by`` names the check that finds it; ``power`` is the lower 95 % bound of the replayed power
    (1 where an exact check sees it); ``cure`` says what to do where it is not covered.
    """

    defect: str
    requires: tuple[str, ...]
    covered: bool
    by: str
    power: float
    cure: str = ""


@dataclass(frozen=True, kw_only=True)
class TargetReport:
    """One engine's audit.

    ``alpha`` is its share of the run's false-alarm rate, and ``log_e_run`` is compared with
    ln(1/alpha). ``notes`` are what else a reader must know, as (label, text).
    """

    info: TargetInfo
    outcome: Outcome
    reason: str
    cells: tuple[CellResult, ...] = ()
    combos: tuple[ComboResult, ...] = ()
    coverage: tuple[Coverage, ...] = ()
    fitting_conventions: tuple[str, ...] = ()
    alpha: float = 1e-4
    log_e_run: float = 0.0
    n_draws: int = 0
    seconds: float = 0.0
    known: tuple[str, ...] = ()
    known_gone: tuple[str, ...] = ()
    notes: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class AuditReport:
    """A whole run over one or several targets.

    Attributes:
        unavailable: Engines that are not here, as (target, reason).
        broken: Engines that are here and could not be loaded, as (target, reason).
        defect_list_version: Of the planted defects that the run's evidence and coverage rest on.
        searched: No target was named, so engines were looked for: one that is not here is no
            failure, none at all is.
    """

    schema_version: int = SCHEMA_VERSION
    version: str
    command: str
    seed: int
    alpha: float
    gate: Literal["e-value", "chi-square"]
    combos: str
    rows: str
    targets: tuple[TargetReport, ...]
    unavailable: tuple[tuple[str, str], ...] = ()
    broken: tuple[tuple[str, str], ...] = ()
    defect_list_version: int = 0
    searched: bool = False
    interrupted: bool = False
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class PlantedRun:
    """One planted defect: whether the audit found it, by which check, in how many draws."""

    defect: str
    found: bool
    by: str
    draws: int


@dataclass(frozen=True, kw_only=True)
class HealthyRun:
    """One audit of a sampler without a defect, which must not fail."""

    seed: int
    outcome: Outcome
    draws: int
    log_e_run: float


@dataclass(frozen=True, kw_only=True)
class SimulatedRuns:
    """Simulated draws of a perfect sampler, judged; the interval is Clopper-Pearson's at 95 %."""

    n_runs: int
    n_failed: int
    low: float
    high: float
    alpha: float


@dataclass(frozen=True, kw_only=True)
class SelftestReport:
    """The auditor audited: every planted defect, healthy audits, and the verdict simulated."""

    rows: tuple[PlantedRun, ...]
    healthy: tuple[HealthyRun, ...]
    simulated: SimulatedRuns
    outcome: Literal["pass", "fail"]
    seed: int
    seconds: float = 0.0


def to_json(report: AuditReport) -> str:
    """The report as indented JSON; Infinity, -Infinity and NaN, which JSON lacks, are strings."""
    return json.dumps(_plain(report), indent=1, allow_nan=False)


def from_json(text: str) -> AuditReport:
    """The inverse of ``to_json``.

    Raises:
        UsageError: text that is no report, or one of another schema version.
    """
    try:
        raw = json.loads(text)
    except json.JSONDecodeError as exc:
        raise UsageError(f"not a JSON report: {exc}") from exc
    version = raw.get("schema_version") if isinstance(raw, dict) else None
    if version != SCHEMA_VERSION:
        raise UsageError(
            f"this report has schema version {version}; this version reads {SCHEMA_VERSION}"
        )
    try:
        report: AuditReport = _build(AuditReport, raw)
    except (TypeError, ValueError, KeyError, AttributeError) as exc:
        raise UsageError(f"not a whole report of schema version {version}: {exc}") from exc
    return report


def _plain(value: object) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _build(kind: Any, raw: Any) -> Any:
    """Rebuild a value of an annotated type; Any, because it is driven by the annotations."""
    origin = typing.get_origin(kind)
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return kind(**{name: _build(hints[name], value) for name, value in raw.items()})  # type: ignore[operator]  # is_dataclass also admits instances
    if origin is tuple:
        inner = typing.get_args(kind)
        if inner[-1] is Ellipsis:
            return tuple(_build(inner[0], item) for item in raw)
        return tuple(_build(t, item) for t, item in zip(inner, raw, strict=True))
    if origin in (typing.Union, types.UnionType):
        inner_kind = next(t for t in typing.get_args(kind) if t is not type(None))
        return None if raw is None else _build(inner_kind, raw)
    if kind is float:
        return float(raw)
    return raw
