"""TabbyAPI with exllamav3: ids in chat's log-probs, no cap; top_p drops the crossing token.

Read in TabbyAPI e632af41 (common/sampling.py, endpoints/OAI) and exllamav3 4f8ad01
(generator/sampler/custom.py, exllamav3_ext/generator/sampling_basic.cu).
"""

from dataclasses import replace

from sampler_audit.servers._openai import CHAT
from sampler_audit.servers._profile import Profile, Signs
from sampler_reference.conventions import CONVENTIONS

PROFILE = Profile(
    name="tabby_api",
    title="TabbyAPI",
    signs=Signs(owned_by="tabbyAPI", page=("/.well-known/serviceinfo", "TabbyAPI")),
    wire=CHAT,
    conventions=(
        replace(
            CONVENTIONS["huggingface"],
            name="exllamav3",
            ties_at_k="keep_all",
            ties_at_p="any",
            crossing_kept=False,
            count_scope="prompt+output",
            temperature_max=10.0,
            sources="exllamav3 4f8ad01: generator/sampler/custom.py; its class comment promises to"
            " keep the crossing token",
        ),
    ),
    methods=("output",),
    logprob_cap=None,
    prompt_ids=False,
    fields={
        "temperature": "temperature",
        "top_k": "top_k",
        "top_p": "top_p",
        "min_p": "min_p",
        "repetition_penalty": "repetition_penalty",
        "frequency_penalty": "frequency_penalty",
        "presence_penalty": "presence_penalty",
        "logit_bias": "logit_bias",
        "min_tokens": "min_tokens",
    },
    off={"top_k": 0},
    neutral={"temperature_last": False, "xtc_probability": 0.0},
    defaults="neutral, unless a sampler override preset of the server fills or forces values",
    n_limit=None,
    asks_own=True,
    seed_rule="none",
    minus_infinity=-1e30,
    forced="logit_bias",
)
