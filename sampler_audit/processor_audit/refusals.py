"""Whether a class refuses parameters that it cannot work with, before an engine admits them."""

from collections.abc import Callable, Iterator, Sequence

from sampler_audit.processor_audit.player import Played, Setting, raised_where
from sampler_audit.processor_audit.settings import Settings, make_params, of_other_types, shown
from sampler_audit.processor_audit.turns import Fault, Turn
from sampler_audit.sampler.processors import ProcessorClass
from sampler_scenarios.params import SamplingParams

Play = Callable[[Sequence[Turn], Sequence[Setting]], Played]

_TWO_STEPS: tuple[Turn, ...] = (
    {"remove": [], "add": [0], "swap": [], "drafts": 0, "masked": False},
    {"remove": [], "add": [], "swap": [], "drafts": 0, "masked": False},
)


def refusal_faults(
    cls: ProcessorClass, good: Sequence[Settings], bad: Sequence[Settings], play: Play
) -> list[Fault]:
    """Faults of ``validate_params``: at most one a kind and settings.

    It must raise ValueError for all of ``bad``. A good one with one of its extra_args of another
    type must be refused or served: one that is accepted and makes a step raise ends an engine.
    """
    faults = [fault for settings in bad for fault in _judged(cls, settings, _must_refuse)]
    for settings in {shown(s): s for base in good for s in _of_other_types(base)}.values():
        faults += _judged(cls, settings, lambda params, text: _must_serve(params, text, play))
    return faults


def _judged(
    cls: ProcessorClass,
    settings: Settings,
    accepted: Callable[[SamplingParams, str], Iterator[Fault]],
) -> Iterator[Fault]:
    text = shown(settings)
    try:
        params = make_params(settings)
    except (TypeError, ValueError):
        # The engine itself refuses them, so that the class never sees them.
        return
    try:
        cls.validate_params(params)
    except ValueError:
        return
    # Anything else becomes an error of the server, not of the request.
    except Exception as error:
        where = f"{text}: {raised_where(error)}"
        yield Fault(kind="refusal", where=where, steps=[f"validate_params {text}"])
        return
    yield from accepted(params, text)


def _must_refuse(_params: SamplingParams, text: str) -> Iterator[Fault]:
    yield Fault(kind="accepted", where=text, steps=[f"validate_params {text}"])


def _must_serve(params: SamplingParams, text: str, play: Play) -> Iterator[Fault]:
    for fault in play(_TWO_STEPS, [Setting(text, params)]).faults:
        if fault["kind"] in ("raised", "returned"):
            where = f"{text} is accepted, then: {fault['where']}"
            yield Fault(kind="accepted", where=where, steps=fault["steps"])


def _of_other_types(settings: Settings) -> Iterator[Settings]:
    extra_args = settings.get("extra_args")
    if not isinstance(extra_args, dict):
        return
    for key, value in extra_args.items():
        for other in of_other_types(value):
            yield {**settings, "extra_args": {**extra_args, key: other}}
