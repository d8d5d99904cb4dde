"""Text Generation Inference: ``/generate``; five log-probs, of the row that the filters left.

Read in text-generation-inference 3.3.6-dev0, db931fcf (router/src, server/text_generation_server).
A request without filters at temperature 1 lists the row as the model made it.
"""

from dataclasses import replace

from sampler_audit.servers._fields import sampling_fields
from sampler_audit.servers._openai import read_entry
from sampler_audit.servers._profile import Ask, Body, Choice, Profile, Signs, Wire
from sampler_audit.servers._reply import Reply
from sampler_audit.servers._rows import Step
from sampler_reference.conventions import CONVENTIONS


def write(profile: Profile, ask: Ask) -> Body:
    """A request for tokens."""
    parameters: Body = {
        "max_new_tokens": ask.max_tokens,
        **profile.answer,
        **sampling_fields(profile, ask),
    }
    if ask.logprobs is not None:
        parameters["top_n_tokens"] = ask.logprobs
    return {"inputs": str(ask.prompt), "parameters": parameters}


def read(profile: Profile, _ask: Ask, reply: Reply) -> tuple[Choice, ...]:
    """One choice."""
    answer = reply if isinstance(reply.value, dict) else reply[0]
    details = answer["details"]
    tops = details.get("top_tokens")
    return (
        tuple(
            Step(
                read_entry(profile, node),
                () if tops is None else tuple(read_entry(profile, e) for e in tops[i].items()),
            )
            for i, node in enumerate(details["tokens"].items())
        ),
    )


PROFILE = Profile(
    name="tgi",
    title="TGI",
    signs=Signs(header="x-compute-type", page=("/info", "text-generation-router")),
    wire=Wire(path="/generate", write=write, read=read),
    conventions=(
        replace(
            CONVENTIONS["huggingface"],
            name="tgi",
            count_scope="prompt+output",
            sources="text-generation-inference db931fcf: server/text_generation_server/utils",
        ),
    ),
    methods=("output",),
    logprob_cap=5,
    prompt_ids=False,
    fields={
        "temperature": "temperature",
        "top_k": "top_k",
        "top_p": "top_p",
        "repetition_penalty": "repetition_penalty",
        "seed": "seed",
    },
    unsendable={
        "frequency_penalty": "it divides by the length of the input, which no convention here does",
    },
    # top_p 1 and top_k 0 are refused.
    omitted=frozenset({"top_k", "top_p"}),
    neutral={"do_sample": True},
    answer={"details": True},
    defaults="greedy, unless any filter is set",
    seed_max=2**63 - 1,
    minus_infinity=-1e30,
    facts={"version": ("/info", "version")},
)
