"""The plan of a run that is not run: how many cells a combination, and every cell's id."""

from collections import Counter
from collections.abc import Iterator, Sequence

from sampler_audit.plan import AuditPlan
from sampler_audit.reports import words
from sampler_scenarios.params import combo_name


def render(plans: Sequence[tuple[str, AuditPlan]]) -> str:
    """Comment lines (``#``) on each target's plan, then one cell id a line.

    Targets with the same cells are listed together.
    """
    targets: dict[AuditPlan, list[str]] = {}
    for name, plan in plans:
        targets.setdefault(plan, []).append(name)
    lines = [line for plan, names in targets.items() for line in _lines(names, plan)]
    return "\n".join(lines) + "\n"


def _lines(names: list[str], plan: AuditPlan) -> Iterator[str]:
    yield (
        f"# {', '.join(names)}: {words.plural(len(plan.cells), 'cell')}, at most"
        f" {words.plural(plan.n_draws, 'draw')} each; combos {plan.combos}, rows {plan.rows},"
        f" seed {plan.seed}"
    )
    for combo, n in Counter(cell.combo for cell in plan.cells).items():
        yield f"#   {combo_name(combo)}: {words.plural(n, 'cell')}"
    yield from (cell.id for cell in plan.cells)
