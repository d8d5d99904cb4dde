"""Which custom logits processors each engine runs, as data, and why it refuses the others.

Sources: vLLM 0.32.0, v1/worker/gpu/sample/logits_processor/loader.py (V2) and
v1/sample/logits_processor/__init__.py (V1, and V1 on TPU).
"""

from dataclasses import dataclass
from typing import Literal

Level = Literal["slot-level", "batch-level"]
"""What the state of a processor is kept by: the slot of a request, or its row in the batch."""


@dataclass(frozen=True)
class ProcessorRules:
    """The processors that one engine runs.

    Attributes:
        engine: Its name in messages.
        levels: The interfaces that it runs.
        levels_with_drafts: Those that it runs with speculative decoding.
    """

    engine: str
    levels: tuple[Level, ...]
    levels_with_drafts: tuple[Level, ...]

    def obstacle(self, *, pooling: bool = False, speculative: bool = False) -> str | None:
        """Why no processor can be named here, in the words of every refusal; None if some can."""
        if not self.levels:
            return f"{self.engine} loads no custom logits processors"
        if pooling:
            return f"{self.engine} runs no custom logits processors with a pooling model"
        if speculative and not self.levels_with_drafts:
            return f"{self.engine} runs no custom logits processors with speculative decoding"
        return None


RULES = {
    # A batch-level processor takes row i for request i, which drafts make untrue.
    "sampler-audit": ProcessorRules(
        "sampler-audit", ("slot-level", "batch-level"), ("slot-level",)
    ),
    "vllm-v2": ProcessorRules("vLLM's Model Runner V2", ("slot-level",), ("slot-level",)),
    "vllm-v1": ProcessorRules("vLLM's V1 sampler", ("batch-level",), ()),
    "vllm-v1-tpu": ProcessorRules("vLLM's V1 sampler on TPU", (), ()),
}
"""By the name that an engine's profile gives."""
