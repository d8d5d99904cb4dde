"""The plan of a run that is not run."""

from dataclasses import replace

from sampler_audit.plan import AuditPlan
from sampler_audit.reports.dry_run import render
from sampler_scenarios.cells import Cell
from sampler_scenarios.params import SamplingParams

PLAN = AuditPlan(
    cells=(
        Cell("dense-normal@128", SamplingParams()),
        Cell("dense-normal@128", SamplingParams(top_k=2)),
    ),
    n_draws=200,
    alpha=1e-4,
    gate="e-value",
    seed=7,
    combos="core",
    rows="core",
)


def test_a_plan_is_counted_and_every_cell_is_listed() -> None:
    """Ids alone on their lines, so that one can be pasted after --only."""
    assert render([("builtin", PLAN)]).splitlines() == [
        "# builtin: 2 cells, at most 200 draws each; combos core, rows core, seed 7",
        "#   none: 1 cell",
        "#   top_k: 1 cell",
        "dense-normal@128/neutral/batch=alone",
        "dense-normal@128/top_k=2/batch=alone",
    ]


def test_targets_with_the_same_plan_share_a_list() -> None:
    """An interpreted engine has its own."""
    shorter = replace(PLAN, cells=PLAN.cells[:1])
    text = render([("builtin", PLAN), ("torch", PLAN), ("vllm", shorter)])
    headings = [line.split(":")[0] for line in text.splitlines() if line[:3] not in ("#  ", "den")]
    assert headings == ["# builtin, torch", "# vllm"]
