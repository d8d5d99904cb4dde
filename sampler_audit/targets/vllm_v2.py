"""vllm_v2: the whole sampler of vLLM's Model Runner V2, its Triton stages under the interpreter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._engine import Unavailable, with_torch

if TYPE_CHECKING:
    from ._engine import Engine

DESCRIPTION = "vLLM's Model Runner V2 sampler, whole, under Triton's interpreter"
INSTALL = "pip install vllm, or name the interpreter that has it with --python PATH"
ANY_PYTHON = True

STAGES = (
    *("grammar", "allowed_token_ids", "logit_bias", "min_tokens"),
    *("repetition_penalty", "frequency_penalty", "presence_penalty"),
    *("bad_words", "thinking_budget"),
)


def load(options: dict[str, str]) -> Engine:
    """The installed release's sampler."""
    if options["device"] == "cuda":
        raise Unavailable("vllm_v2 runs under Triton's interpreter; use --device cpu")
    from ._vllm_v2 import V2Sampler, prepare

    prepare()
    import triton

    from ._vllm import vllm_version
    from ._vllm_scene import VllmSceneEngine
    from .vllm import MASS_ERROR

    fields = {
        "engine": with_torch(f"vllm {vllm_version()}"),
        "device": f"cpu (Triton {triton.__version__} interpreter)",
        "path": "the sampler of Model Runner V2, which runs on GPUs alone: slots, stages, top-k/"
        "top-p as on CUDA, Gumbel draw, log-prob lists; bulk draws call the draw's own function",
        "convention": "vllm-triton",
        "draws": True,
        "own_noise": True,
        "mass_error": MASS_ERROR,
        "slow": True,
        "stages": STAGES,
        "stateful": True,
        "logits_error": 0.0,
    }
    return VllmSceneEngine(V2Sampler, fields)
