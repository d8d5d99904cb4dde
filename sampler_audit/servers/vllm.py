"""vLLM: everything by token id, and a reference row through the prompt's own log-probs.

Read in vllm 0.32.0 (entrypoints/openai/completion, sampling_params.py, v1/worker/gpu/sample) and
0.33.0.
"""

from dataclasses import replace

from sampler_audit.servers._openai import floored, read_choices, write_completion
from sampler_audit.servers._profile import Ask, Body, Profile, Signs, VocabProbe, Wire
from sampler_audit.servers._reply import Reply
from sampler_audit.servers._rows import Entry, Step
from sampler_reference.conventions import CONVENTIONS


def write(profile: Profile, ask: Ask) -> Body:
    """A completion; chosen ids need ``logprobs`` beside them, whose value is then ignored."""
    body = write_completion(profile, ask)
    if ask.token_ids:
        body |= {"logprobs": 1, "logprob_token_ids": list(ask.token_ids)}
    return body


def write_prompt(profile: Profile, ask: Ask) -> Body:
    """A completion whose prompt is listed too."""
    length = 0 if ask.logprobs is None else ask.logprobs
    return write_completion(profile, replace(ask, logprobs=None)) | {"prompt_logprobs": length}


def read_prompt(profile: Profile, ask: Ask, reply: Reply) -> tuple[Step, ...]:
    """The rows that predict the prompt's tokens from ``ask.start`` on; the first is always null."""
    rows = reply["choices"][0]["prompt_logprobs"]
    return tuple(_read_prompt_row(profile, rows[i], ask.prompt[i]) for i in _positions(ask))


def _positions(ask: Ask) -> range:
    return range(max(ask.start, 1), len(ask.prompt))


def _read_prompt_row(profile: Profile, row: Reply, token: int | str) -> Step:
    entries = {name: _read_member(profile, name, node) for name, node in row.members()}
    own = entries.get(str(token))
    if own is None:
        raise row.wrong(f"does not list the prompt's own token {token}")
    return Step(own, tuple(entries.values()))


def _read_member(profile: Profile, name: str, node: Reply) -> Entry:
    if not name.isdecimal():
        raise node.wrong("is listed under no token id")
    text = node.get("decoded_token")
    return Entry(int(name), floored(profile, node["logprob"]), "" if text is None else text.text())


_TRITON, _PYTORCH = CONVENTIONS["vllm-triton"], CONVENTIONS["vllm-pytorch"]

PROFILE = Profile(
    name="vllm",
    title="vLLM",
    signs=Signs(owned_by="vllm", fingerprint=r"vllm-"),
    wire=Wire(
        path="/v1/completions",
        write=write,
        read=read_choices,
        write_prompt=write_prompt,
        read_prompt=read_prompt,
    ),
    conventions=(
        _PYTORCH,
        _TRITON,
        replace(
            _TRITON,
            name="vllm-flashinfer",
            ties_at_k="keep_all",
            ties_at_p="keep_all",
            noise="",
            sources="vllm 0.32.0: v1/sample/ops/topk_topp_sampler.py; flashinfer fb28d72",
        ),
    ),
    methods=("sentinel", "chosen_ids", "output"),
    logprob_cap=20,
    chosen_ids=128,
    fields={
        "temperature": "temperature",
        "top_k": "top_k",
        "top_p": "top_p",
        "min_p": "min_p",
        "repetition_penalty": "repetition_penalty",
        "frequency_penalty": "frequency_penalty",
        "presence_penalty": "presence_penalty",
        "logit_bias": "logit_bias",
        "allowed_token_ids": "allowed_token_ids",
        "min_tokens": "min_tokens",
        "stop_token_ids": "stop_token_ids",
        "ignore_eos": "ignore_eos",
        "seed": "seed",
    },
    unsendable={
        "bad_words": "it takes words, and which tokens they become is its tokenizer's choice",
        "thinking_token_budget": "it counts from markers that only chat prompts have",
    },
    # A watermark changes the draws of a right sampler.
    neutral={"watermarking": False},
    answer={"return_token_ids": True, "return_tokens_as_token_ids": True},
    defaults="neutral, then whatever the model's generation_config.json says, unless the server"
    " runs with --generation-config vllm",
    n_limit=16384,
    seed_rule="index",
    seed_max=2**63 - 1,
    replays=True,
    cache_field="cache_salt",
    forced="allowed_token_ids",
    tokenize=("/tokenize", "prompt"),
    vocab_probe=VocabProbe(
        fields={"logprobs": 1, "logprob_token_ids": [2**31 - 1]}, pattern=r"ocabulary size: (\d+)"
    ),
    facts={
        "version": ("/version", "version"),
        "max_model_len": ("model", "max_model_len"),
    },
    acceptance=(
        "vllm:spec_decode_num_accepted_tokens_total",
        "vllm:spec_decode_num_draft_tokens_total",
    ),
)
