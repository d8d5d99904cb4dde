"""Ollama: its own ``/api/generate``, since the OpenAI routes keep top_k at 40.

Read in ollama v0.33.0-rc2, fb307609 (server/routes.go, api/types.go, llm/llama_server.go).
"""

from dataclasses import replace

from sampler_audit.servers._fields import sampling_fields
from sampler_audit.servers._openai import flagged_logprobs, read_entry
from sampler_audit.servers._profile import Ask, Body, Choice, Profile, Signs, Wire
from sampler_audit.servers._reply import Reply
from sampler_audit.servers._rows import Step
from sampler_reference.conventions import CONVENTIONS


def write(profile: Profile, ask: Ask) -> Body:
    """A request for tokens; ``raw`` keeps the model's template away."""
    return {
        "model": ask.model,
        "prompt": str(ask.prompt),
        **profile.answer,
        "options": {"num_predict": ask.max_tokens, **sampling_fields(profile, ask)},
        **flagged_logprobs(profile, ask),
    }


def read(profile: Profile, _ask: Ask, reply: Reply) -> tuple[Choice, ...]:
    """One choice; none of its tokens where the model ended at once."""
    listed = reply.get("logprobs")
    if listed is None:
        if reply["response"].text():
            raise reply.wrong("has no logprobs; this Ollama may be too old for them")
        return ((),)
    return (tuple(_read_step(profile, node) for node in listed.items()),)


def _read_step(profile: Profile, node: Reply) -> Step:
    tops = node.get("top_logprobs")
    listed = () if tops is None else tuple(read_entry(profile, top) for top in tops.items())
    return Step(read_entry(profile, node), listed)


PROFILE = Profile(
    name="ollama",
    title="Ollama",
    signs=Signs(owned_by="library", page=("/", "Ollama is running"), fingerprint=r"fp_ollama$"),
    wire=Wire(path="/api/generate", write=write, read=read),
    conventions=(
        CONVENTIONS["llama.cpp"],
        replace(
            CONVENTIONS["llama.cpp"],
            name="ollama-mlx",
            order=("top_k", "temperature", "top_p", "min_p"),
            sources="ollama fb307609: x/mlxrunner",
        ),
    ),
    methods=("output",),
    logprob_cap=20,
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
        "seed": "seed",
    },
    off={"top_k": 0},
    neutral={"typical_p": 1.0, "repeat_last_n": 64},
    answer={"raw": True, "stream": False},
    defaults="temperature .8, top_k 40, top_p .9, min_p 0, then the Modelfile; the /v1 routes keep"
    " top_k at 40 and have no field for it",
    asks_own=True,
    seed_max=2**31 - 1,
    minus_infinity=-1e30,
    facts={"version": ("/api/version", "version")},
)
