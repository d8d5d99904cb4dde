"""TensorRT-LLM's trtllm-serve: ids with ``detokenize: false``, and the raw logits of the prompt.

Read in tensorrt_llm (serve/openai_protocol.py 0076e939, _torch/pyexecutor/sampler, release
candidates of 1.3 and 1.4). Fields that it does not know are refused.
"""

from dataclasses import replace

import numpy as np

from sampler_audit.servers._openai import read_choices, write_completion
from sampler_audit.servers._profile import Ask, Body, Profile, Signs, Wire
from sampler_audit.servers._reply import Reply
from sampler_audit.servers._rows import Entry, Step
from sampler_reference.conventions import CONVENTIONS


def write_prompt(profile: Profile, ask: Ask) -> Body:
    """A completion that brings the logits of the prompt."""
    return write_completion(profile, replace(ask, logprobs=None)) | {"return_context_logits": True}


def read_prompt(_profile: Profile, ask: Ask, reply: Reply) -> tuple[Step, ...]:
    """The logits of each token predict the next one."""
    logits = reply["choices"][0]["context_logits"]
    return tuple(
        _read_logits(logits[i - 1], ask.prompt[i])
        for i in range(max(ask.start, 1), len(ask.prompt))
    )


def _read_logits(node: Reply, token: int | str) -> Step:
    logits = np.array([item.number() for item in node.items()], np.float64)
    logprobs = (logits - np.logaddexp.reduce(logits)).tolist()
    if not isinstance(token, int) or not 0 <= token < len(logprobs):
        raise node.wrong(f"has no logit for the prompt's token {token}")
    return Step(Entry(token, logprobs[token]), tuple(map(Entry, range(len(logprobs)), logprobs)))


PROFILE = Profile(
    name="tensorrt_llm",
    title="TensorRT-LLM",
    signs=Signs(owned_by="tensorrt_llm"),
    wire=Wire(
        path="/v1/completions",
        write=write_completion,
        read=read_choices,
        write_prompt=write_prompt,
        read_prompt=read_prompt,
    ),
    conventions=(
        replace(
            CONVENTIONS["vllm-pytorch"],
            name="tensorrt-llm",
            ties_at_k="any",
            ties_at_p="any",
            greedy_below=0.0,
            temperature_floor=0.0,
            temperature_max=float("inf"),
            count_scope="prompt+output",
            sources="tensorrt_llm: features/sampling.md 05ce57bc, sampler/penalties.py 0a0ceb0c",
        ),
    ),
    methods=("sentinel",),
    logprob_cap=None,
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
        "stop_token_ids": "stop_token_ids",
        "ignore_eos": "ignore_eos",
        "seed": "seed",
    },
    off={"top_k": 0},
    answer={"detokenize": False},
    defaults="neutral over HTTP, unless the server runs with --generation-config auto",
    n_limit=None,
    row_with_draw=False,
    seed_rule="first_of_batch",
    replays=True,
    forced="logit_bias",
    facts={"version": ("/version", "version")},
)
