"""Hand-made reports: a sampler that is right, and an engine with the field report's fault.

The numbers are made up but consistent: the fourth of four survivors carries 5.4 % and is lost
when top_k, top_p and min_p are all on (the field report's triple).
"""

from collections.abc import Sequence

import pytest

from sampler_audit.draws import TargetInfo
from sampler_audit.results import (
    AuditReport,
    CellResult,
    CheckResult,
    ComboResult,
    Coverage,
    Histogram,
    KeptSet,
    LadderStep,
    Outcome,
    TargetReport,
)

COMBOS = (
    (),
    ("top_k",),
    ("top_p",),
    ("min_p",),
    ("top_k", "top_p"),
    ("top_k", "min_p"),
    ("top_p", "min_p"),
    ("top_k", "top_p", "min_p"),
    ("temperature", "top_k", "top_p", "min_p"),
)
TRIPLE = ("top_k", "top_p", "min_p")
WORST = "she-opened-the-door@4096/top_k=20,top_p=0.95,min_p=0.05/batch=alone"

_RULE = "the kept tokens must reach a mass of 0.95, these reach 0.946"
_SHARES = ((29912, 14.375, 0.561), (2254, 13.375, 0.2064), (338, 13.25, 0.1786), (665, 12.0, 0.054))


def healthy_cell(combo: tuple[str, ...], *, band: bool = False) -> CellResult:
    """A cell that passes, with a chi-square of 6.2 on 5 degrees of freedom."""
    settings = ",".join(f"{name}=0.5" for name in combo) or "neutral"
    return CellResult(
        cell=f"dense-normal@2048/{settings}/batch=alone",
        combo=combo,
        row_kind="dense-normal",
        outcome="pass",
        kept=KeptSet(
            verdict="BAND" if band else "EXACT", n_kept=20, n_expected=20, n_lost=int(band)
        ),
        histogram=Histogram(
            n_draws=2000,
            statistic=6.2,
            dof=5,
            pvalue=0.2872,
            g_statistic=6.3,
            g_pvalue=0.278,
            log_e=-1.4,
            total_variation=0.012,
        ),
        checks=(CheckResult(check="support", outcome="pass"),),
        seconds=0.05,
    )


def worst_cell() -> CellResult:
    """The cell that loses the fourth of four survivors; 0 of 2000 draws fell on it."""
    kept_mass = 1 - _SHARES[3][2]
    ladder = tuple(
        LadderStep(
            token=token,
            logit=logit,
            expected=share,
            observed=0.0 if token == 665 else share / kept_mass,
            low=share,
            high=share,
            note="lost" if token == 665 else "",
        )
        for token, logit, share in _SHARES
    )
    return CellResult(
        cell=WORST,
        combo=TRIPLE,
        row_kind="she-opened-the-door",
        outcome="fail",
        reason=_RULE,
        kept=KeptSet(
            verdict="FAIL",
            n_kept=3,
            n_expected=4,
            n_lost=1,
            lost_mass=0.054,
            lost=(665,),
            rule=_RULE,
        ),
        histogram=Histogram(
            n_draws=2000,
            statistic=114.2,
            dof=3,
            pvalue=1.4e-24,
            pvalue_holm=4.5e-23,
            g_statistic=222.0,
            g_pvalue=7e-48,
            log_e=104.6,
            total_variation=0.054,
        ),
        ladder=ladder,
        seconds=1.31,
        repeat=f"sampler-audit local --target vllm --python /opt/vllm/bin/python --only {WORST}"
        " --seed 7",
    )


def combo_result(combo: tuple[str, ...], cells: Sequence[CellResult]) -> ComboResult:
    """The cells of a combination, counted; only the triple is a minimal failure."""
    failed = [cell for cell in cells if cell.outcome == "fail"]
    return ComboResult(
        combo=combo,
        outcome="fail" if failed else "pass",
        n_cells=len(cells),
        n_failed=len(failed),
        n_band=sum(cell.kept is not None and cell.kept.verdict == "BAND" for cell in cells),
        n_draws=2000 * len(cells),
        statistic=114.2 if failed else 6.2,
        dof=3 if failed else 5,
        pvalue=1.4e-24 if failed else 0.2872,
        pvalue_holm=1.3e-23 if failed else 1.0,
        log_e=103.9 if failed else -1.4,
        worst=failed[0].cell if failed else "",
        row_kinds=(("she-opened-the-door", 1),) if failed else (),
        first_kinds=("she-opened-the-door",) if failed and combo == TRIPLE else (),
        nearest_passing=("top_k+top_p", "top_k+min_p", "top_p+min_p") if failed else (),
    )


def target_report(
    name: str, cells: Sequence[CellResult], outcome: Outcome, reason: str
) -> TargetReport:
    """A target's report on these cells."""
    vllm = name == "vllm"
    info = TargetInfo(
        name=name,
        engine="vllm 0.32.0 (torch 2.13.0, triton 3.9.0)" if vllm else "sampler-audit 0.1.0",
        device="cpu (Triton 3.9.0 interpreter)",
        path="Triton top-k/top-p kernel, CUDA tile sizes; emulated: this CPU wheel would take the"
        " PyTorch path"
        if vllm
        else "Triton kernels, torch twin for bulk draws",
        convention="vllm-triton" if vllm else "sampler-audit",
        draws=not vllm,
    )
    by_combo = {combo: [cell for cell in cells if cell.combo == combo] for combo in COMBOS}
    return TargetReport(
        info=info,
        outcome=outcome,
        reason=reason,
        cells=tuple(cells),
        combos=tuple(combo_result(combo, found) for combo, found in by_combo.items() if found),
        coverage=(
            Coverage(
                defect="weakest-dropped", requires=TRIPLE, covered=True, by="kept set", power=1.0
            ),
            Coverage(
                defect="temperature-twice",
                requires=(),
                covered=vllm is False,
                by="draws",
                power=0.95,
                cure="--draws x4",
            ),
        ),
        fitting_conventions=() if vllm else ("sampler-audit", "vllm-pytorch"),
        log_e_run=103.0 if vllm else -2.1,
        n_draws=2000 * len(cells),
        seconds=12.34,
    )


def audit_report(*targets: TargetReport) -> AuditReport:
    """A whole run with seed 7."""
    return AuditReport(
        version="0.1.0",
        command="sampler-audit local --combos all --seed 7",
        seed=7,
        alpha=1e-4,
        gate="e-value",
        combos="all",
        rows="core",
        targets=targets,
        seconds=25.0,
    )


@pytest.fixture
def builtin() -> TargetReport:
    """All combinations pass; one cell is BAND."""
    cells = [healthy_cell(combo, band=combo == ("top_p",)) for combo in COMBOS]
    reason = "all 2 planted defects of the list would have been found"
    return target_report("builtin", cells, "pass", reason)


@pytest.fixture
def vllm() -> TargetReport:
    """The field report's fault: the triple fails, and with it the quadruple."""
    cells = [healthy_cell(combo) for combo in COMBOS[:-2]]
    cells += [healthy_cell(TRIPLE), worst_cell()]
    return target_report("vllm", cells, "fail", f"1 of {len(cells)} cells is wrong")


@pytest.fixture
def passing(builtin: TargetReport) -> AuditReport:
    """A run over ``builtin`` alone."""
    return audit_report(builtin)


@pytest.fixture
def failing(builtin: TargetReport, vllm: TargetReport) -> AuditReport:
    """A run over both."""
    return audit_report(builtin, vllm)
