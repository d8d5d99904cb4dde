"""llama-cpp-python's server: completions by text, one choice at a time, by default not neutral.

Read in llama_cpp_python 0.3.36 (llama_cpp/llama.py, llama_cpp/server/app.py, types.py).
"""

from dataclasses import replace

from sampler_audit.servers._openai import COMPLETIONS
from sampler_audit.servers._profile import Profile, Signs
from sampler_reference.conventions import CONVENTIONS

PROFILE = Profile(
    name="llama_cpp_python",
    title="llama-cpp-python",
    signs=Signs(owned_by="me"),
    wire=COMPLETIONS,
    conventions=(
        replace(
            CONVENTIONS["llama.cpp"],
            name="llama-cpp-python",
            sources="llama_cpp_python 0.3.36: llama_cpp/llama.py",
        ),
    ),
    methods=("output",),
    # Log-probs at all only where the model was loaded with logits_all.
    logprob_cap=None,
    ids=False,
    prompt_ids=False,
    fields={
        "temperature": "temperature",
        "top_k": "top_k",
        "top_p": "top_p",
        "min_p": "min_p",
        "repetition_penalty": "repeat_penalty",
        "frequency_penalty": "frequency_penalty",
        "presence_penalty": "presence_penalty",
        "logit_bias": "logit_bias",
        "seed": "seed",
    },
    off={"top_k": 0},
    neutral={"mirostat_mode": 0},
    defaults="temperature .8, top_p .95, min_p .05, top_k 40, repeat_penalty 1.1",
    replays=True,
)
