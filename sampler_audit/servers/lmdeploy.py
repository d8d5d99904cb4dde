"""LMDeploy: completions by text; log-probs only with ``--logprobs-mode``; two backends, one name.

Read in lmdeploy 0.16.0, 1263d5cd (serve/openai, pytorch/engine/logits_process.py, turbomind).
"""

from dataclasses import replace

from sampler_audit.servers._openai import COMPLETIONS
from sampler_audit.servers._profile import Profile, Signs
from sampler_reference.conventions import CONVENTIONS

_PYTORCH = replace(
    CONVENTIONS["huggingface"],
    name="lmdeploy-pytorch",
    ties_at_k="any",
    temperature_max=2.0,
    repetition_scope="output",
    sources="lmdeploy 1263d5cd: pytorch/engine/logits_process.py",
)

PROFILE = Profile(
    name="lmdeploy",
    title="LMDeploy",
    signs=Signs(owned_by="lmdeploy"),
    wire=COMPLETIONS,
    conventions=(
        _PYTORCH,
        replace(
            _PYTORCH,
            name="lmdeploy-turbomind",
            repetition_scope="prompt+output",
            sources="lmdeploy 1263d5cd: src/turbomind/generation/sampling.cc",
        ),
    ),
    methods=("output",),
    logprob_cap=None,
    ids=False,
    prompt_ids=False,
    fields={
        "temperature": "temperature",
        "top_k": "top_k",
        "top_p": "top_p",
        "min_p": "min_p",
        "repetition_penalty": "repetition_penalty",
        "ignore_eos": "ignore_eos",
        "seed": "seed",
    },
    unsendable={
        "frequency_penalty": "it takes the field and ignores it",
        "presence_penalty": "it takes the field and ignores it",
    },
    off={"top_k": 0},
    defaults="temperature .8, top_k 50, top_p 1, min_p 0, then the model's generation_config.json",
)
