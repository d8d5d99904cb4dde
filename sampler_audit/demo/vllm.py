"""The demo server in vLLM's words. Read in vllm 0.32.0: entrypoints/openai/completion."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sampler_audit.demo.fields import (
    flag,
    integer,
    read_params,
    read_prompt,
    refuse_fields,
    text,
)
from sampler_audit.demo.generation import Choice
from sampler_audit.demo.service import CREATED, MODEL, VERSION, Service
from sampler_audit.demo.shapes import Entry, entries, usage
from sampler_audit.demo.wire import Body, Json, Refused, Style
from sampler_audit.sampler.admission import Limits
from sampler_audit.sampler.log_probs import TokenLogProbs
from sampler_reference.conventions import CONVENTIONS
from sampler_scenarios.params import MOST_CHOICES, SamplingParams

FIELDS: Mapping[str, str] = {
    name: name
    for name in (
        *("temperature", "top_k", "top_p", "min_p", "n", "seed", "max_tokens", "ignore_eos"),
        *("repetition_penalty", "frequency_penalty", "presence_penalty", "logit_bias"),
        *("allowed_token_ids", "bad_words", "min_tokens", "stop_token_ids"),
        *("thinking_token_budget", "logprobs", "prompt_logprobs", "logprob_token_ids"),
    )
}
"""Field on the wire to field of SamplingParams."""

ABSENT: Mapping[str, tuple[Json, ...]] = {
    "stream": (False,),
    "echo": (False,),
    "stop": ([], ""),
    "suffix": (),
    "use_beam_search": (False,),
    "structured_outputs": (),
    "response_format": (),
    "watermarking": (False,),
    "vllm_xargs": ({},),
}
"""Fields that vLLM has and this server has not, and the values that change nothing."""

LOWEST = -9999.0
"""What stands for a log-prob of -inf."""


def complete(service: Service, body: Body) -> Body:
    """``POST /v1/completions``."""
    service.check_model(body)
    refuse_fields(body, ABSENT)
    prompt = read_prompt("prompt", body.get("prompt"), service.tokenizer)
    params = _read_params(service, body)
    shown = Shown(
        by_id=flag("return_tokens_as_token_ids", body.get("return_tokens_as_token_ids") or False),
        ids=flag("return_token_ids", body.get("return_token_ids") or False),
    )
    choices = service.complete(params, prompt)
    of_prompt: Body = {
        "prompt_token_ids": list(prompt) if shown.ids else None,
        "prompt_logprobs": None,
    }
    if params.prompt_logprobs is not None:
        listed = service.listing.of_prompt(prompt, params.prompt_logprobs)
        of_prompt["prompt_logprobs"] = [_prompt_row(service, each) for each in listed]
    return {
        "id": "cmpl-demo",
        "object": "text_completion",
        "created": CREATED,
        "model": MODEL,
        "choices": [
            {
                "index": index,
                **_choice(service, choice, shown),
                "stop_reason": _stop_reason(choice, params.stop_token_ids),
                **of_prompt,
            }
            for index, choice in enumerate(choices)
        ],
        "system_fingerprint": f"vllm-{VERSION}",
        "usage": usage(prompt, choices),
    }


@dataclass(frozen=True)
class Shown:
    """Whether lists name tokens by id, and whether the ids themselves are told."""

    by_id: bool
    ids: bool


def _read_params(service: Service, body: Body) -> SamplingParams:
    unseeded = {**body, "seed": None} if body.get("seed") == -1 else body
    params = read_params(unseeded, FIELDS, service.readers, {"max_tokens": 16})
    if params.logprob_token_ids is None:
        return params
    _check_chosen(service, params.logprob_token_ids, params.logprobs)
    return replace(params, logprobs=None)


def _check_chosen(service: Service, chosen: tuple[int, ...], logprobs: int | None) -> None:
    if logprobs is None:
        raise Refused(400, "logprob_token_ids needs logprobs too, got none")
    size = service.model.config.vocab_size
    if outside := [token_id for token_id in chosen if not 0 <= token_id < size]:
        raise Refused(
            400,
            f"logprob_token_ids holds {outside[0]}, which is no token. Vocabulary size: {size}",
        )


def _stop_reason(choice: Choice, stop_token_ids: tuple[int, ...]) -> int | None:
    """The stop token of the request's own that ended the choice."""
    last = choice.token_ids[-1:]
    return last[0] if choice.finish == "stop" and last[0] in stop_token_ids else None


def _choice(service: Service, choice: Choice, shown: Shown) -> Body:
    return {
        "text": service.tokenizer.decode(choice.token_ids),
        "logprobs": _logprobs(service, choice, shown) if choice.listings else None,
        "finish_reason": choice.finish,
        "token_ids": list(choice.token_ids) if shown.ids else None,
    }


def _logprobs(service: Service, choice: Choice, shown: Shown) -> Body:
    """The lists of the older completions."""

    def name(entry: Entry) -> str:
        return f"token_id:{entry.token_id}" if shown.by_id else entry.text

    steps = [entries(listing, service.tokenizer, LOWEST) for listing in choice.listings]
    texts = [service.tokenizer.text(token_id) for token_id in choice.token_ids]
    return {
        "text_offset": [sum(map(len, texts[:i])) for i in range(len(texts))],
        "token_logprobs": [listed[0].logprob for listed in steps],
        "tokens": [name(listed[0]) for listed in steps],
        "top_logprobs": [{name(entry): entry.logprob for entry in listed} for listed in steps],
    }


def _prompt_row(service: Service, listing: TokenLogProbs | None) -> Json:
    if listing is None:
        return None
    return {
        str(entry.token_id): {
            "logprob": entry.logprob,
            "rank": entry.rank,
            "decoded_token": entry.text,
        }
        for entry in entries(listing, service.tokenizer, LOWEST)
    }


def error(status: int, words: str) -> Body:
    """An error's body."""
    kinds = {404: "NotFoundError", 500: "InternalServerError"}
    kind = kinds.get(status, "BadRequestError")
    return {"error": {"message": words, "type": kind, "param": None, "code": status}}


def _models(service: Service, _: Body) -> Body:
    entry: Body = {
        "id": MODEL,
        "object": "model",
        "created": CREATED,
        "owned_by": "vllm",
        "root": MODEL,
        "parent": None,
        "max_model_len": service.model.config.max_model_len,
        "permission": [],
    }
    return {"object": "list", "data": [entry]}


def _tokenize(service: Service, body: Body) -> Body:
    ids = service.tokenizer.encode(text("prompt", body.get("prompt")))
    length = service.model.config.max_model_len
    return {"count": len(ids), "max_model_len": length, "tokens": list(ids)}


def _detokenize(service: Service, body: Body) -> Body:
    tokens = body.get("tokens")
    if not isinstance(tokens, list):
        raise Refused(400, f"tokens must be a list of token ids, got {tokens!r}")
    return {"prompt": service.tokenizer.decode(max(0, integer("tokens", t)) for t in tokens)}


def _metrics(service: Service, _: Body) -> str:
    counters = service.counters
    lines = {
        "num_requests_running": counters.n_running,
        "spec_decode_num_draft_tokens_total": counters.n_drafts,
        "spec_decode_num_accepted_tokens_total": counters.n_accepted,
    }
    return "".join(
        f'vllm:{name}{{model_name="{MODEL}"}} {count}\n' for name, count in lines.items()
    )


STYLE = Style(
    name="vllm",
    server="uvicorn",
    conventions=replace(CONVENTIONS["sampler-audit"], temperature_max=2.0),
    limits=Limits(),
    most_choices=MOST_CHOICES,
    routes={
        "GET /health": lambda _service, _body: "",
        "GET /version": lambda _service, _body: {"version": VERSION},
        "GET /metrics": _metrics,
        "GET /v1/models": _models,
        "POST /v1/completions": complete,
        "POST /tokenize": _tokenize,
        "POST /detokenize": _detokenize,
    },
    error=error,
)
