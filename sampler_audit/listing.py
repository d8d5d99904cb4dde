"""What ``sampler-audit list`` prints: names, and one line on each."""

import importlib
from collections.abc import Callable, Mapping

from sampler_audit.checks import check_names
from sampler_audit.targets import FUNCTION, describe, target_names
from sampler_reference.conventions import CONVENTIONS
from sampler_reference.defects import DEFECTS
from sampler_scenarios.combos import ALL_COMBOS, COMBO_SETS
from sampler_scenarios.params import combo_name
from sampler_scenarios.real_rows import REAL_ROWS, prompt_of
from sampler_scenarios.rows import KINDS

Listing = list[tuple[str, str]]


def _rows() -> Listing:
    sets = [
        ("quick", "some kinds of row and three real rows, at typical values"),
        ("core", "every kind of row and every real row at typical values, and edge values"),
        ("full", "as core, each kind at each vocabulary size, real rows at full length"),
        ("real", "the real rows at full length"),
    ]
    made = [(kind.name, kind.why) for kind in KINDS]
    real = [(slug, f"real row: the next token after {prompt_of(slug)!r}") for slug in REAL_ROWS]
    return sets + made + real


def _combos() -> Listing:
    sets = [(name, f"{len(combos)} combinations") for name, combos in COMBO_SETS.items()]
    sets[0] = ("core", f"{sets[0][1]}, on few rows: --rows core then means --rows quick")
    return sets + [(combo_name(combo), "" if combo else "no filter is on") for combo in ALL_COMBOS]


def _targets() -> Listing:
    return [(name, describe(name)) for name in (*target_names(), FUNCTION)]


def _checks() -> Listing:
    return [
        (name, importlib.import_module(f"sampler_audit.checks.{name}").DESCRIPTION)
        for name in check_names()
    ]


def _defects() -> Listing:
    return [(defect.name, defect.summary) for defect in DEFECTS.values()]


def _conventions() -> Listing:
    return [
        (rules.name, f"{' > '.join(rules.order)}; {rules.sources}")
        for rules in CONVENTIONS.values()
    ]


LISTINGS: Mapping[str, Callable[[], Listing]] = {
    "rows": _rows,
    "combos": _combos,
    "targets": _targets,
    "checks": _checks,
    "defects": _defects,
    "conventions": _conventions,
}
