"""Audited: one class, the settings it takes, and what can be asked about it where it can run."""

import sys
from collections.abc import Sequence

from sampler_audit.errors import UsageError
from sampler_audit.processor_audit.instance import Instance, Subject
from sampler_audit.processor_audit.player import Played, Player, Setting
from sampler_audit.processor_audit.refusals import refusal_faults
from sampler_audit.processor_audit.scene import Scene, scene_model
from sampler_audit.processor_audit.settings import Settings, make_params, shown
from sampler_audit.processor_audit.timing import step_microseconds
from sampler_audit.processor_audit.turns import MOST_DRAFTS, Facts, Fault, Turn
from sampler_audit.sampler.processors import (
    RULES,
    BatchLogitsProcessor,
    ProcessorClass,
    load_processors,
)

_MAX_REQUESTS = 8
_MOST_LIVE = 6


class Audited:
    """Loaded, and constructed once, so that a class that cannot be is told as such.

    Requests have one of ``good`` or, unless the class refuses them, the default parameters.

    Raises:
        UsageError: no processor of that name, or none that ``runner`` loads (its words), or it
            refuses parameters that are to be tried.
    """

    def __init__(
        self,
        processor: str | type,
        good: Sequence[Settings],
        *,
        vocab_size: int,
        seed: int,
        runner: str = "sampler-audit",
    ) -> None:
        (self._cls,) = load_processors([processor], rules=RULES[runner])
        self._good = good
        self._settings = _accepted(self._cls, good)
        batch_level = issubclass(self._cls, BatchLogitsProcessor)
        self._subject = Subject(
            self._cls, scene_model(vocab_size), _MAX_REQUESTS, 0 if batch_level else MOST_DRAFTS
        )
        self._scene = Scene(seed, vocab_size)
        Instance(self._subject)
        self.facts = Facts(
            level="batch-level" if batch_level else "slot-level",
            argmax_invariant=_says_argmax_invariant(self._subject),
            n_settings=len(self._settings),
            python=".".join(map(str, sys.version_info[:3])),
        )

    def play(self, turns: Sequence[Turn]) -> Played:
        """One sequence."""
        return self._play(turns, self._settings)

    def refusals(self, bad: Sequence[Settings]) -> list[Fault]:
        """Faults of the admission of parameters; ``bad`` must be refused."""
        return refusal_faults(self._cls, self._good, bad, self._play)

    def microseconds(self, batch_size: int) -> float:
        """Time of one step."""
        return step_microseconds(self._subject, self._settings, self._scene, batch_size)

    def _play(self, turns: Sequence[Turn], settings: Sequence[Setting]) -> Played:
        player = Player(
            self._subject,
            settings,
            self._scene,
            most_live=_MOST_LIVE,
            argmax_invariant=self.facts.argmax_invariant,
        )
        return player.play(turns)


def _accepted(cls: ProcessorClass, good: Sequence[Settings]) -> list[Setting]:
    for settings in good:
        if refusal := _refusal(cls, settings):
            raise UsageError(f"--params {shown(settings)} is refused: {refusal}")
    # Last, or a sequence of two steps, of which the first must ask for something, shrinks to three.
    neutral: Sequence[Settings] = [] if _refusal(cls, {}) else [{}]
    return [Setting(shown(settings), make_params(settings)) for settings in (*good, *neutral)]


def _refusal(cls: ProcessorClass, settings: Settings) -> str | None:
    try:
        cls.validate_params(make_params(settings))
    except (TypeError, ValueError) as error:
        return str(error)
    return None


def _says_argmax_invariant(subject: Subject) -> bool:
    if not issubclass(subject.cls, BatchLogitsProcessor):
        return False
    config = subject.config
    return bool(subject.cls(config, config.device, False).is_argmax_invariant())
