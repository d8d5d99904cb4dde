"""What vLLM's two samplers are given alike: the model's facts, and a request as vLLM's own class.

Runs in the interpreter under audit: nothing of ours.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    Drafts = Sequence[Sequence[int]]


@dataclass(frozen=True, kw_only=True)
class Model:
    """The facts about a model and a batch that a sampler is built for.

    Attributes:
        max_drafts: The most draft tokens that a request brings to one step.
        log_probs_mode: ``raw_logprobs``, ``raw_logits``, ``processed_logprobs`` or
            ``processed_logits``.
        fp64_noise: Draw with noise in float64.
        verification: How V2 verifies drafts, ``standard`` or ``block``.
    """

    vocab_size: int
    max_requests: int = 16
    max_model_len: int = 256
    max_drafts: int = 0
    eos_token_ids: Sequence[int] = ()
    reasoning_start: Sequence[int] = ()
    reasoning_end: Sequence[int] = ()
    log_probs_mode: str = "raw_logprobs"
    fp64_noise: bool = False
    verification: str = "standard"

    @property
    def reasoning(self) -> SimpleNamespace | None:
        """What the samplers read of vLLM's ``ReasoningConfig``."""
        if not (self.reasoning_start and self.reasoning_end):
            return None
        return SimpleNamespace(
            reasoning_start_token_ids=list(self.reasoning_start),
            reasoning_end_token_ids=list(self.reasoning_end),
            natural_reasoning_end_token_ids=list(self.reasoning_end),
        )


def vllm_params(settings: Mapping[str, Any], model: Model) -> Any:
    """The settings as vLLM's SamplingParams, which checks them as at construction.

    ``settings`` is what differs from the defaults, by the names of sampler_scenarios; the key
    ``grammar`` says whether a grammar constrains the request. Words to avoid come as token ids,
    which vLLM gets from its tokenizer, and so do the end-of-sequence tokens.
    """
    vllm = importlib.import_module("vllm")
    values = dict(settings)
    bad_words, grammar = values.pop("bad_words", ()), values.pop("grammar", False)
    # JSON has no integer keys.
    bias = {int(token): float(b) for token, b in values.pop("logit_bias", {}).items()}
    # Its default of 16 would bound min_tokens; ours is no bound.
    values.setdefault("max_tokens", None)
    params = vllm.SamplingParams(
        **values,
        logit_bias=bias or None,
        structured_outputs=_any_grammar() if grammar else None,
    )
    params._bad_words_token_ids = [list(word) for word in bad_words] or None
    params._all_stop_token_ids.update(model.eos_token_ids)
    return params


def _any_grammar() -> Any:
    """Samplers see no grammar, but that there is one."""
    return importlib.import_module("vllm.sampling_params").StructuredOutputsParams(regex=".")


def constrained(logits: NDArray[np.float32], grammar: NDArray[np.bool_] | None) -> torch.Tensor:
    """The logits in the caller's memory, after the grammar, which acts before the sampler.

    In torch, because Triton's interpreter cannot run the model runner's kernel for it: it takes no
    mask that a scalar was combined with.
    """
    rows = torch.from_numpy(logits)
    return rows if grammar is None else rows.masked_fill_(torch.from_numpy(~grammar), -torch.inf)
