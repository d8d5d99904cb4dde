"""SGLang: its own ``/generate``, whose rows of the prompt have no cap and share the draws' cache.

Read in sglang 0.5.23 (srt/managers/io_struct.py, tokenizer_manager.py, sampling/sampling_params.py,
layers/sampler.py).
"""

from dataclasses import replace

from sampler_audit.servers._fields import sampling_fields
from sampler_audit.servers._openai import floored
from sampler_audit.servers._profile import Ask, Body, Choice, Profile, Signs, VocabProbe, Wire
from sampler_audit.servers._reply import Reply
from sampler_audit.servers._rows import Entry, Step
from sampler_reference.conventions import CONVENTIONS


def write(profile: Profile, ask: Ask) -> Body:
    """A request for tokens."""
    text = isinstance(ask.prompt, str)
    body: Body = {
        "text" if text else "input_ids": ask.prompt
        if isinstance(ask.prompt, str)
        else list(ask.prompt),
        "sampling_params": {
            "max_new_tokens": ask.max_tokens,
            "n": ask.n,
            **sampling_fields(profile, ask),
        },
    }
    if ask.logprobs is not None:
        body |= {"return_logprob": True, "top_logprobs_num": ask.logprobs}
    return body | dict(profile.answer)


def write_prompt(profile: Profile, ask: Ask) -> Body:
    """A request whose prompt is listed from the token before ``ask.start`` on."""
    body = write(profile, replace(ask, logprobs=ask.logprobs or 0))
    return body | {"logprob_start_len": max(ask.start, 1) - 1}


def read(profile: Profile, _ask: Ask, reply: Reply) -> tuple[Choice, ...]:
    """One answer, or a list of as many as there are choices."""
    answers = [reply] if isinstance(reply.value, dict) else reply.items()
    return tuple(_read_choice(profile, answer) for answer in answers)


def read_prompt(profile: Profile, _ask: Ask, reply: Reply) -> tuple[Step, ...]:
    """The rows behind the first one, which is always null."""
    meta = (reply if isinstance(reply.value, dict) else reply[0])["meta_info"]
    own = meta["input_token_logprobs"].items()[1:]
    tops = meta["input_top_logprobs"]
    return tuple(
        Step(_read_triple(profile, node), _read_list(profile, tops[i]))
        for i, node in enumerate(own, start=1)
    )


def _read_choice(profile: Profile, answer: Reply) -> Choice:
    meta = answer["meta_info"]
    owns = meta.get("output_token_logprobs")
    if owns is None:
        return tuple(Step(Entry(n.integer(), float("nan"))) for n in answer["output_ids"].items())
    tops = meta.get("output_top_logprobs")
    return tuple(
        Step(
            _read_triple(profile, node),
            () if tops is None else _read_list(profile, tops[i]),
        )
        for i, node in enumerate(owns.items())
    )


def _read_list(profile: Profile, node: Reply) -> tuple[Entry, ...]:
    return () if node.value is None else tuple(_read_triple(profile, n) for n in node.items())


def _read_triple(profile: Profile, node: Reply) -> Entry:
    """``[logprob, id, text]``; the text is null unless asked for."""
    text = node.get(2)
    return Entry(node[1].integer(), floored(profile, node[0]), "" if text is None else text.text())


_JOINT, _SEQUENTIAL = CONVENTIONS["flashinfer-joint"], CONVENTIONS["flashinfer"]

PROFILE = Profile(
    name="sglang",
    title="SGLang",
    signs=Signs(owned_by="sglang", page=("/server_info", "sampling_backend")),
    wire=Wire(
        path="/generate",
        write=write,
        read=read,
        write_prompt=write_prompt,
        read_prompt=read_prompt,
    ),
    # One request with min_p turns the whole batch from the first into the second.
    conventions=(_JOINT, _SEQUENTIAL),
    methods=("sentinel", "output"),
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
        "min_tokens": "min_new_tokens",
        "stop_token_ids": "stop_token_ids",
        "ignore_eos": "ignore_eos",
        "seed": "sampling_seed",
    },
    unsendable={"allowed_token_ids": "a grammar or an equal logit_bias does the same"},
    off={"top_k": -1},
    answer={"return_text_in_logprobs": True},
    defaults="neutral on /generate, then --preferred-sampling-params; chat also reads the model's"
    " generation_config.json",
    n_limit=None,
    # Only with --enable-deterministic-inference; without it the seed is ignored in silence.
    seed_rule="shared",
    minus_infinity=-1e30,
    forced="logit_bias",
    tokenize=("/tokenize", "prompt"),
    vocab_probe=VocabProbe(
        fields={"sampling_params": {"logit_bias": {str(2**31 - 1): 0.0}}},
        pattern=r"in \[0, (\d+)\]",
        add=1,
    ),
    facts={
        "version": ("/server_info", "version"),
        "sampling_backend": ("/server_info", "sampling_backend"),
        "deterministic": ("/server_info", "enable_deterministic_inference"),
        "speculative": ("/server_info", "speculative_algorithm"),
    },
)
