"""The demo server in llama-server's words. Read in the llama.cpp of llama_cpp_python 0.3.36:
tools/server/server-task.cpp, server-context.cpp.
"""  # noqa: D205 - one sentence and its source

from collections.abc import Mapping

from sampler_audit.demo.fields import flag, integer, read_params, read_prompt, refuse_fields, text
from sampler_audit.demo.generation import Choice
from sampler_audit.demo.service import CREATED, MODEL, VERSION, Service
from sampler_audit.demo.shapes import entries, likeliest
from sampler_audit.demo.wire import Body, Json, Style
from sampler_audit.sampler.admission import Limits
from sampler_audit.sampler.log_probs import TokenLogProbs
from sampler_reference.conventions import CONVENTIONS
from sampler_scenarios.params import SamplingParams

FIELDS: Mapping[str, str] = {
    "n": "n",
    "n_cmpl": "n",
    "n_predict": "max_tokens",
    "n_probs": "logprobs",
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "repeat_penalty": "repetition_penalty",
    "frequency_penalty": "frequency_penalty",
    "presence_penalty": "presence_penalty",
    "logit_bias": "logit_bias",
    "ignore_eos": "ignore_eos",
    "seed": "seed",
}
"""Field on the wire to field of SamplingParams."""

DEFAULTS: Mapping[str, Json] = {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05}

SAMPLERS: list[Json] = [
    *("penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature")
]
"""The chain, in the one order that this server has."""

ABSENT: Mapping[str, tuple[Json, ...]] = {
    "stream": (False,),
    "samplers": (SAMPLERS,),
    "grammar": ("",),
    "json_schema": ({},),
    "stop": ([],),
    "typical_p": (1,),
    "top_n_sigma": (-1,),
    "xtc_probability": (0,),
    "dry_multiplier": (0,),
    "dynatemp_range": (0,),
    "mirostat": (0,),
    "min_keep": (0,),
    "repeat_last_n": (64,),
    "post_sampling_probs": (False,),
}
"""Fields that llama-server has and this server has not, and the values that change nothing."""

RANDOM_SEEDS = (-1, 2**32 - 1)
"""Seeds that ask for another one each time."""

LOWEST = -3.4028234663852886e38
"""What stands for a log-prob of -inf."""

SLOTS = 64


def complete(service: Service, body: Body) -> Body | list[Json]:
    """``POST /completion``."""
    refuse_fields(body, ABSENT)
    prompt = read_prompt("prompt", body.get("prompt"), service.tokenizer)
    asked = dict(body)
    room = service.model.config.max_model_len - len(prompt)
    if asked.get("n_predict") in (None, -1):
        asked["n_predict"] = max(1, room)
    if asked.get("seed") in RANDOM_SEEDS:
        asked["seed"] = None
    # 0 asks for no list, and a reply then has none.
    if asked.get("n_probs") == 0:
        asked["n_probs"] = None
    params = read_params(asked, FIELDS, service.readers, DEFAULTS)
    with_ids = flag("return_tokens", body.get("return_tokens") or False)
    choices = service.complete(params, prompt)
    answers: list[Json] = [
        _answer(service, choice, params, prompt, index, with_ids)
        for index, choice in enumerate(choices)
    ]
    first = answers[0]
    return first if len(answers) == 1 and isinstance(first, dict) else answers


def _answer(
    service: Service,
    choice: Choice,
    params: SamplingParams,
    prompt: tuple[int, ...],
    index: int,
    with_ids: bool,
) -> Body:
    ended = choice.finish == "stop"
    shown = choice.token_ids[:-1] if ended else choice.token_ids
    answer: Body = {
        "index": index,
        "content": service.tokenizer.decode(shown),
        "tokens": list(choice.token_ids) if with_ids else [],
        "id_slot": index,
        "stop": True,
        "model": MODEL,
        "tokens_predicted": len(choice.token_ids),
        "tokens_evaluated": len(prompt),
        "prompt": service.tokenizer.decode(prompt),
        "truncated": False,
        "stop_type": "eos" if ended else "limit",
        "stopping_word": "",
        "tokens_cached": len(prompt) + len(choice.token_ids),
    }
    if choice.listings:
        answer["completion_probabilities"] = [
            _step(service, listing, params.logprobs or 0) for listing in choice.listings
        ]
    return answer


def _step(service: Service, listing: TokenLogProbs, n: int) -> Body:
    """The drawn token, and the ``n`` likeliest, in which it may or may not be."""
    listed = entries(listing, service.tokenizer, LOWEST)
    own, *tops = (
        {"id": entry.token_id, **entry.body} for entry in (listed[0], *likeliest(listed, n))
    )
    return {**own, "top_logprobs": [*tops]}


def error(status: int, words: str) -> Body:
    """An error's body."""
    kinds = {404: "not_found_error", 500: "server_error", 503: "unavailable_error"}
    kind = kinds.get(status, "invalid_request_error")
    return {"error": {"code": status, "message": words, "type": kind}}


def _models(service: Service, _: Body) -> Body:
    config = service.model.config
    entry: Body = {
        "id": MODEL,
        "object": "model",
        "created": CREATED,
        "owned_by": "llamacpp",
        "meta": {"n_vocab": config.vocab_size, "n_ctx_train": config.max_model_len},
    }
    return {"object": "list", "data": [entry]}


def _props(service: Service, _: Body) -> Body:
    params: Body = {**DEFAULTS, "samplers": SAMPLERS}
    return {
        "default_generation_settings": {
            "n_ctx": service.model.config.max_model_len,
            "params": params,
        },
        "total_slots": SLOTS,
        "model_path": MODEL,
        "build_info": VERSION,
    }


def _tokenize(service: Service, body: Body) -> Body:
    return {"tokens": list(service.tokenizer.encode(text("content", body.get("content"))))}


def _detokenize(service: Service, body: Body) -> Body:
    tokens = body.get("tokens")
    ids = tokens if isinstance(tokens, list) else []
    return {"content": service.tokenizer.decode(max(0, integer("tokens", t)) for t in ids)}


STYLE = Style(
    name="llama",
    server="llama.cpp",
    conventions=CONVENTIONS["llama.cpp"],
    limits=Limits(max_logprobs=-1),
    most_choices=SLOTS,
    routes={
        "GET /health": lambda _service, _body: {"status": "ok"},
        "GET /props": _props,
        "GET /v1/models": _models,
        "POST /completion": complete,
        "POST /tokenize": _tokenize,
        "POST /detokenize": _detokenize,
    },
    error=error,
)
