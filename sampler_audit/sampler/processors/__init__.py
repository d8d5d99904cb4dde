"""Custom logits processors: two interfaces, where classes come from, and how the sampler runs them.

Write a class for one of the interfaces, load it with ``load_processors``, run it with ProcessorSet.
"""

from sampler_audit.sampler.processors.adapter import AdapterLogitsProcessor, RequestLogitsProcessor
from sampler_audit.sampler.processors.batch_level import (
    Added,
    ArgmaxGroups,
    BatchLogitsProcessor,
    BatchUpdate,
    Moved,
    MoveDirectionality,
    group_by_argmax,
    update_rows,
)
from sampler_audit.sampler.processors.engine_config import EngineConfig
from sampler_audit.sampler.processors.errors import (
    ProcessorMisbehaved,
    ProcessorNotFound,
    ProcessorNotLoaded,
    ProcessorRefused,
)
from sampler_audit.sampler.processors.interface import (
    Context,
    LogitsProcessor,
    RequestStates,
    SlotBuffer,
)
from sampler_audit.sampler.processors.loader import (
    PLUGIN_GROUPS,
    ProcessorClass,
    load_processors,
)
from sampler_audit.sampler.processors.processor_set import ProcessorSet
from sampler_audit.sampler.processors.rules import RULES, Level, ProcessorRules
from sampler_audit.sampler.processors.tracker import BatchTracker, LiveRequest

__all__ = [
    "PLUGIN_GROUPS",
    "RULES",
    "AdapterLogitsProcessor",
    "Added",
    "ArgmaxGroups",
    "BatchLogitsProcessor",
    "BatchTracker",
    "BatchUpdate",
    "Context",
    "EngineConfig",
    "Level",
    "LiveRequest",
    "LogitsProcessor",
    "MoveDirectionality",
    "Moved",
    "ProcessorClass",
    "ProcessorMisbehaved",
    "ProcessorNotFound",
    "ProcessorNotLoaded",
    "ProcessorRefused",
    "ProcessorRules",
    "ProcessorSet",
    "RequestLogitsProcessor",
    "RequestStates",
    "SlotBuffer",
    "group_by_argmax",
    "load_processors",
    "update_rows",
]
