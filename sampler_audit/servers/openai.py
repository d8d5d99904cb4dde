"""Any chat endpoint that speaks OpenAI's words: two filters, twenty log-probs, strings.

Written against openai/openai-openapi f85dbe2. What is behind it is not known: the order of its
filters, and whether temperature is in its log-probs, is for the probe to find.
"""

from dataclasses import replace

from sampler_audit.servers._openai import CHAT
from sampler_audit.servers._profile import Profile, Signs
from sampler_reference.conventions import CONVENTIONS

PROFILE = Profile(
    name="openai",
    title="an OpenAI-compatible server",
    signs=Signs(),
    wire=CHAT,
    conventions=(
        replace(
            CONVENTIONS["huggingface"],
            name="openai",
            ties_at_k="any",
            temperature_max=2.0,
            sources="openai/openai-openapi f85dbe2, which does not say that temperature is first",
        ),
    ),
    methods=("output",),
    logprob_cap=20,
    ids=False,
    prompt_ids=False,
    fields={
        "temperature": "temperature",
        "top_p": "top_p",
        "frequency_penalty": "frequency_penalty",
        "presence_penalty": "presence_penalty",
        "logit_bias": "logit_bias",
        "seed": "seed",
    },
    unsendable={
        "top_k": "OpenAI's API has no such field; --engine NAME names an engine that does",
        "min_p": "OpenAI's API has no such field; --engine NAME names an engine that does",
    },
    defaults="temperature 1, top_p 1, by the API's description",
    n_limit=128,
    asks_own=True,
    seed_max=2**63 - 1,
)
