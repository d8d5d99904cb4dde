"""Which planted defects a server can show, and which player serves. Knows no HTTP."""

from collections.abc import Mapping
from dataclasses import dataclass

from sampler_audit.errors import UsageError
from sampler_audit.sampler import PlantedPlayer, Player
from sampler_reference.conventions import Conventions
from sampler_reference.defects import DEFECTS, Defect
from sampler_scenarios.params import Combo, make_combo

HIDDEN: Mapping[str, str] = {
    "noise-by-rank": "draws keep their law, and which token a seed should give, only the"
    " engine's own noise tells",
    "noise-24-bit": "it changes one draw in millions",
    "uniform-reaches-one": "it changes one draw in millions",
    "tail-below-resolution-dropped": "its tokens come once in ten million draws",
    "nan-poisons-neighbours": "this model has no row of NaN",
    **dict.fromkeys(
        ("grammar-row-shifted", "grammar-skipped-at-drafts", "grammar-mask-too-short"),
        "this server takes no grammar",
    ),
    "rank-under-ties": "no answer to a draw tells a rank",
}
"""Why a defect cannot be found over HTTP, by its name."""


@dataclass(frozen=True)
class Planted:
    """A defect, and the filters and stages that must all be on for it to act."""

    defect: Defect
    when: Combo = ()


def choose_planted(defect: str | None, when: str | None, *, speculative: bool) -> Planted | None:
    """What ``--defect`` and ``--when`` ask for.

    Raises:
        UsageError: an unknown name, or a defect that cannot show here.
    """
    if defect is None:
        if when is not None:
            raise UsageError("--when says when a planted defect acts; give --defect NAME too")
        return None
    if defect not in DEFECTS:
        known = ", ".join(name for name in DEFECTS if name not in HIDDEN)
        raise UsageError(f"unknown defect {defect!r}; known: {known}")
    if why := HIDDEN.get(defect):
        raise UsageError(f"{defect} cannot show over HTTP: {why}; plant it in 'local'")
    if DEFECTS[defect].stage == "speculative" and not speculative:
        raise UsageError(f"{defect} sits where drafts are verified; add --speculative")
    try:
        return Planted(DEFECTS[defect], make_combo(when.split("+")) if when else ())
    except ValueError as exc:
        raise UsageError(f"--when: {exc}") from exc


def build_player(planted: Planted | None, conventions: Conventions) -> Player:
    """The sampler, on the torch twins, with its defect."""
    if planted is None:
        return Player("twin", conventions)
    return PlantedPlayer("twin", planted.defect, planted.when, conventions)
