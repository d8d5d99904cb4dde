"""llama.cpp's llama-server: ``/completion``, with ids, and the untouched row with every draw.

Read in the llama.cpp of llama_cpp_python 0.3.36 (tools/server/server-task.cpp, server-schema.cpp,
common/sampling.cpp).
"""

from dataclasses import replace

from sampler_audit.servers._fields import sampling_fields
from sampler_audit.servers._openai import read_entry
from sampler_audit.servers._profile import Ask, Body, Choice, Profile, Signs, Wire
from sampler_audit.servers._reply import Reply
from sampler_audit.servers._rows import Entry, Step
from sampler_reference.conventions import CONVENTIONS


def write(profile: Profile, ask: Ask) -> Body:
    """A request for tokens."""
    body: Body = {
        "model": ask.model,
        "prompt": ask.prompt if isinstance(ask.prompt, str) else list(ask.prompt),
        "n_predict": ask.max_tokens,
        "stream": False,
        **profile.answer,
        **sampling_fields(profile, ask),
    }
    if ask.n > 1:
        body["n_cmpl"] = ask.n
    if ask.logprobs is not None:
        body["n_probs"] = ask.logprobs
    return body


def read(profile: Profile, _ask: Ask, reply: Reply) -> tuple[Choice, ...]:
    """One answer, or a list of as many as there are choices."""
    answers = [reply] if isinstance(reply.value, dict) else reply.items()
    return tuple(_read_choice(profile, answer) for answer in answers)


def _read_choice(profile: Profile, answer: Reply) -> Choice:
    listed = answer.get("completion_probabilities")
    if listed is not None:
        return tuple(_read_step(profile, node) for node in listed.items())
    return tuple(Step(Entry(node.integer(), float("nan"))) for node in answer["tokens"].items())


def _read_step(profile: Profile, node: Reply) -> Step:
    tops = node["top_logprobs"].items()
    return Step(read_entry(profile, node), tuple(read_entry(profile, top) for top in tops))


SAMPLERS = (
    *("penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc"),
    "temperature",
)
"""The chain as it stands in common/common.h; the GGUF file may carry another."""

PROFILE = Profile(
    name="llama_server",
    title="llama-server",
    signs=Signs(
        owned_by="llamacpp",
        server="llama.cpp",
        page=("/props", "default_generation_settings"),
        fingerprint=r"b\d+-[0-9a-f]+$",
    ),
    wire=Wire(path="/completion", write=write, read=read),
    conventions=(
        CONVENTIONS["llama.cpp"],
        # Where a request or the model's file moves temperature to the front.
        replace(
            CONVENTIONS["llama.cpp"],
            name="llama.cpp, temperature first",
            order=("temperature", "top_k", "top_p", "min_p"),
        ),
    ),
    methods=("output",),
    logprob_cap=None,
    fields={
        "temperature": "temperature",
        "top_k": "top_k",
        "top_p": "top_p",
        "min_p": "min_p",
        "repetition_penalty": "repeat_penalty",
        "frequency_penalty": "frequency_penalty",
        "presence_penalty": "presence_penalty",
        "logit_bias": "logit_bias",
        "ignore_eos": "ignore_eos",
        "seed": "seed",
    },
    off={"top_k": 0},
    neutral={
        "samplers": list(SAMPLERS),
        "typical_p": 1.0,
        "top_n_sigma": -1.0,
        "xtc_probability": 0.0,
        "dry_multiplier": 0.0,
        "dynatemp_range": 0.0,
        "mirostat": 0,
        "min_keep": 0,
        "repeat_last_n": 64,
    },
    answer={"return_tokens": True},
    bias_pairs=True,
    defaults="top_k 40, top_p .95, min_p .05, temperature .8, last; the model's GGUF file and the"
    " command line may say otherwise (see /props)",
    # The number of slots, which /props tells; a request for more is refused.
    n_limit=1,
    seed_rule="index",
    seed_max=2**32 - 2,
    minus_infinity=-1e30,
    cache_field="cache_prompt",
    forced="logit_bias",
    tokenize=("/tokenize", "content"),
    facts={
        "version": ("/props", "build_info"),
        "n_limit": ("/props", "total_slots"),
        "vocab_size": ("model", "meta", "n_vocab"),
    },
)
