"""vllm_v1: the V1 Sampler of vLLM with its batch, logits processors and penalties, on a CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._engine import Unavailable, with_torch

if TYPE_CHECKING:
    from ._engine import Engine

DESCRIPTION = "vLLM's V1 sampler with its batch, logits processors and penalties, on the CPU"
INSTALL = "pip install vllm, or name the interpreter that has it with --python PATH"
ANY_PYTHON = True

STAGES = (
    *("grammar", "allowed_token_ids", "logit_bias", "min_tokens"),
    *("repetition_penalty", "frequency_penalty", "presence_penalty", "bad_words"),
)
"""Its thinking budget follows other rules than the reference's, and is not asked for."""

MIN_P_ERROR = 2.0**-19
"""Bound on the error of the min_p threshold, in nats: probabilities of one float32 softmax are
compared, p_i < min_p * p_max, as transformers does (see MIN_P_ERROR there)."""


def load(options: dict[str, str]) -> Engine:
    """The installed release's sampler."""
    if options["device"] == "cuda":
        raise Unavailable("vllm_v1 runs on the CPU; use --device cpu")
    from ._vllm import vllm_version
    from ._vllm_scene import VllmSceneEngine
    from ._vllm_v1 import V1Sampler
    from .vllm_torch import MASS_ERROR

    fields = {
        "engine": with_torch(f"vllm {vllm_version()}"),
        "device": "cpu",
        "path": "the sampler of the V1 model runner as a CPU build takes it: InputBatch, stages,"
        " top-k/top-p by a sort, fused Gumbel draw, log-prob lists",
        "convention": "vllm-pytorch",
        "draws": True,
        "mass_error": MASS_ERROR,
        "min_p_error": MIN_P_ERROR,
        "stages": STAGES,
        "stateful": True,
        "logits_error": 0.0,
    }
    return VllmSceneEngine(V1Sampler, fields)
