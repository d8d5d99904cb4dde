"""mlx-lm's server: ids, eleven log-probs, temperature last, and greedy where it is left out.

Read in mlx_lm 0.32.2 (server.py, sample_utils.py). Beside a list of the likeliest it does not tell
which token was drawn, so draws and rows are separate requests.
"""

from dataclasses import replace

from sampler_audit.servers._openai import flagged_logprobs, read_choices, write_completion
from sampler_audit.servers._profile import Ask, Body, Choice, Profile, Signs, Wire
from sampler_audit.servers._reply import Reply
from sampler_audit.servers._rows import Step
from sampler_reference.conventions import CONVENTIONS


def write(profile: Profile, ask: Ask) -> Body:
    """A completion with chat's switch for log-probs."""
    body = write_completion(profile, replace(ask, logprobs=None))
    return body | flagged_logprobs(profile, ask)


def read(profile: Profile, ask: Ask, reply: Reply) -> tuple[Choice, ...]:
    """The choice; with a list, its first member stands where the drawn token should."""
    choices = read_choices(profile, ask, reply)
    if ask.logprobs is None:
        return choices
    return tuple(tuple(Step(None, step.listed) for step in choice) for choice in choices)


PROFILE = Profile(
    name="mlx_lm",
    title="mlx-lm",
    signs=Signs(fingerprint=r"\d+\.\d+\.\d+-\d+\.\d+.*(macOS|Darwin|Linux)"),
    wire=Wire(path="/v1/completions", write=write, read=read),
    conventions=(
        replace(
            CONVENTIONS["llama.cpp"],
            name="mlx-lm",
            order=("top_p", "min_p", "top_k", "temperature"),
            count_scope="prompt+output",
            penalty_window=20,
            sources="mlx_lm 0.32.2: sample_utils.py",
        ),
    ),
    methods=("output",),
    logprob_cap=11,
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
        "seed": "seed",
    },
    off={"top_k": 0},
    neutral={"xtc_probability": 0.0},
    defaults="temperature 0 (greedy), top_p 1, top_k 0, min_p 0, or what its command line says",
    row_with_draw=False,
    asks_own=True,
    minus_infinity=-1e30,
    forced="logit_bias",
)
