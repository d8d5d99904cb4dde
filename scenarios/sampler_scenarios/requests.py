"""Request: parameters and what came before; ModelConfig: what a sampler knows of its model."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from sampler_scenarios.params import STAGES, Combo, SamplingParams


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The facts about a model that stages need.

    Attributes:
        vocab_size: Width of a row of logits.
        max_model_len: The most tokens of prompt and output together.
        eos_token_ids: The model's end-of-sequence tokens, all of them.
        reasoning_start: Token sequence that opens a block of reasoning; empty where there is none.
        reasoning_end: Token sequence that closes it.
    """

    vocab_size: int
    max_model_len: int = 4096
    eos_token_ids: tuple[int, ...] = ()
    reasoning_start: tuple[int, ...] = ()
    reasoning_end: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Request:
    """A request at one step: its parameters, the prompt, the tokens so far, and its grammar.

    Attributes:
        params: What it asks.
        prompt_token_ids: The prompt.
        output_token_ids: What it has emitted, oldest first.
        grammar: bool ``[vocab_size]``, the tokens that a grammar allows next; None is no grammar.
    """

    params: SamplingParams = field(default_factory=SamplingParams)
    prompt_token_ids: tuple[int, ...] = ()
    output_token_ids: tuple[int, ...] = ()
    grammar: NDArray[np.bool_] | None = None

    def extended(self, token_ids: Sequence[int]) -> "Request":
        """The request after it has emitted ``token_ids`` too."""
        return replace(self, output_token_ids=(*self.output_token_ids, *token_ids))

    @property
    def combo(self) -> Combo:
        """The filters and stages that are on, in canonical order."""
        more = {"grammar": self.grammar is not None, "processor": bool(self.params.extra_args)}
        return (*self.params.combo, *(s for s in STAGES if s in self.params.stages or more.get(s)))

    @property
    def token_ids(self) -> tuple[int, ...]:
        """Prompt and output."""
        return (*self.prompt_token_ids, *self.output_token_ids)

    @property
    def position(self) -> int:
        """Position of the last token, which is the input of the next step and keys its noise."""
        return len(self.prompt_token_ids) + len(self.output_token_ids) - 1
