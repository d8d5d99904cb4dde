"""From names to classes: plug-ins and ``module:Class`` names, with a refusal for each way to fail.

Knows no sampler: what it returns is built by ProcessorSet.
"""

import importlib
import inspect
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import cast

from sampler_audit.sampler.processors.batch_level import BatchLogitsProcessor
from sampler_audit.sampler.processors.errors import (
    ProcessorNotFound,
    ProcessorNotLoaded,
    ProcessorRefused,
)
from sampler_audit.sampler.processors.interface import LogitsProcessor
from sampler_audit.sampler.processors.rules import RULES, Level, ProcessorRules
from sampler_audit.sampler.processors.vllm_classes import (
    adopt_batch_level,
    adopt_slot_level,
    vllm_level,
)

PLUGIN_GROUPS = ("sampler_audit.logits_processors", "vllm.logits_processors")
"""Entry-point groups in which installed packages offer processors; the second is vLLM's."""

ProcessorClass = type[LogitsProcessor] | type[BatchLogitsProcessor]


def load_processors(
    sources: Sequence[str | type] = (),
    *,
    rules: ProcessorRules = RULES["sampler-audit"],
    groups: Sequence[str] = (),
    pooling: bool = False,
    speculative: bool = False,
) -> list[ProcessorClass]:
    """The classes to build: first what installed packages offer in ``groups``, then ``sources``.

    A source is a class or its name, ``module:Class``. Where ``rules`` allow no processor, plug-ins
    are passed over and named ones refused, as engines do. Plug-ins are read only where ``groups``
    names them, PLUGIN_GROUPS for all: what is installed should not change an audit unasked.

    Raises:
        ProcessorRefused: a malformed name, or something that is no processor or not of a kind that
            ``rules`` allow.
        ProcessorNotLoaded: a module or plug-in that raised while it was imported.
        ProcessorNotFound: a module without that name in it.
    """
    if obstacle := rules.obstacle(pooling=pooling, speculative=speculative):
        if sources:
            raise ProcessorRefused(f"{obstacle}; got {', '.join(map(_name, sources))}")
        return []
    levels = rules.levels_with_drafts if speculative else rules.levels
    where = f"{rules.engine} with speculative decoding" if speculative else rules.engine
    # A package that offers a class to us and to vLLM offers it once.
    plugins = {point.value: point for group in groups for point in entry_points(group=group)}
    loaded = [(_load_plugin(point), f"plug-in {point.name!r}") for point in plugins.values()]
    named = [(_load_source(source), _name(source)) for source in sources]
    return [_accept(found, name, levels, where) for found, name in [*loaded, *named]]


def _load_plugin(point: EntryPoint) -> object:
    try:
        found: object = point.load()
    # Whatever somebody else's module raises while it is imported.
    except Exception as error:
        raise ProcessorNotLoaded(
            f"plug-in {point.name!r} ({point.value}) could not be loaded: {_summary(error)}; "
            "mend or uninstall the package that brings it"
        ) from error
    return found


def _load_source(source: str | type) -> object:
    if not isinstance(source, str):
        return source
    module_name, colon, path = source.partition(":")
    if not (module_name and colon and path) or ":" in path:
        raise ProcessorRefused(
            f"a logits processor is named 'module:Class', such as 'package.module:Class', "
            f"got {source!r}"
        )
    try:
        found: object = importlib.import_module(module_name)
    # Whatever somebody else's module raises while it is imported.
    except Exception as error:
        raise ProcessorNotLoaded(
            f"{source!r} could not be loaded: importing {module_name!r} raised {_summary(error)}"
        ) from error
    for name in path.split("."):
        if not hasattr(found, name):
            raise ProcessorNotFound(
                f"{source!r} could not be loaded: {_name(found)} has no {name!r}"
            )
        found = getattr(found, name)
    return found


def _accept(found: object, name: str, levels: tuple[Level, ...], where: str) -> ProcessorClass:
    if not isinstance(found, type):
        raise ProcessorRefused(f"{name} must be a class, got {found!r}")
    level = _level(found)
    if level is None:
        raise ProcessorRefused(
            f"{name} is no logits processor: derive {found.__name__} from LogitsProcessor or "
            "BatchLogitsProcessor of sampler_audit.sampler.processors, or from vLLM's"
        )
    if level not in levels:
        raise ProcessorRefused(
            f"{name} is a {level} logits processor, and {where} runs {' and '.join(levels)} ones "
            f"only: write {found.__name__} for that interface"
        )
    if inspect.isabstract(found):
        missing = ", ".join(sorted(getattr(found, "__abstractmethods__", ())))
        raise ProcessorRefused(f"{name} is abstract: implement {missing} in {found.__name__}")
    return _adopt(found, level)


def _level(found: type) -> Level | None:
    if issubclass(found, LogitsProcessor):
        return "slot-level"
    return "batch-level" if issubclass(found, BatchLogitsProcessor) else vllm_level(found)


def _adopt(found: type, level: Level) -> ProcessorClass:
    """The class itself if it derives from one of ours, or else one of ours around it."""
    if issubclass(found, LogitsProcessor | BatchLogitsProcessor):
        return found
    # It has every method of the interface: that is what its level was told by.
    if level == "slot-level":
        return adopt_slot_level(cast(type[LogitsProcessor], found))
    return adopt_batch_level(cast(type[BatchLogitsProcessor], found))


def _name(source: object) -> str:
    if isinstance(source, str):
        return repr(source)
    return str(getattr(source, "__name__", repr(source)))


def _summary(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
