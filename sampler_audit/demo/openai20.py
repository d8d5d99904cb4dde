"""The demo server in the words of OpenAI's chat completions: strings, and twenty log-probs.

Written against openai/openai-openapi f85dbe2. A field that the API does not have is refused.
"""

from collections.abc import Mapping
from dataclasses import replace

from sampler_audit.demo.fields import flag, integer, read_params, read_prompt, refuse_fields, text
from sampler_audit.demo.generation import Choice
from sampler_audit.demo.service import CREATED, MODEL, Service
from sampler_audit.demo.shapes import entries, likeliest, usage
from sampler_audit.demo.wire import Body, Json, Refused, Style
from sampler_audit.sampler.admission import Limits
from sampler_audit.sampler.log_probs import TokenLogProbs
from sampler_reference.conventions import CONVENTIONS

FIELDS: Mapping[str, str] = {
    "n": "n",
    "max_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "frequency_penalty": "frequency_penalty",
    "presence_penalty": "presence_penalty",
    "logit_bias": "logit_bias",
    "seed": "seed",
}
"""Field on the wire to field of SamplingParams."""

ABSENT: Mapping[str, tuple[Json, ...]] = {
    "stream": (False,),
    "stop": ([],),
    "response_format": ({"type": "text"},),
    "user": (),
}
"""Fields that the API has and this server has not, and the values that change nothing."""

OTHERS = frozenset({"model", "messages", "logprobs", "top_logprobs"})

LOWEST = -9999.0
"""What stands for a log-prob of -inf."""


def complete(service: Service, body: Body) -> Body:
    """``POST /v1/chat/completions``."""
    if unknown := sorted(set(body) - set(FIELDS) - set(ABSENT) - OTHERS):
        raise Refused(400, f"Unrecognized request argument supplied: {unknown[0]}")
    service.check_model(body)
    refuse_fields(body, ABSENT)
    prompt = read_prompt("messages", _said(body.get("messages")), service.tokenizer)
    params = read_params(body, FIELDS, service.readers, {"max_tokens": 16})
    listed = _listed(body)
    params = replace(params, logprobs=listed)
    choices = service.complete(params, prompt)
    return {
        "id": "chatcmpl-demo",
        "object": "chat.completion",
        "created": CREATED,
        "model": MODEL,
        "choices": [
            _choice(service, index, choice, listed) for index, choice in enumerate(choices)
        ],
        "system_fingerprint": "fp_demo",
        "usage": usage(prompt, choices),
    }


def _said(messages: Json) -> str:
    """What all messages say, one after another: this model has no template."""
    if not isinstance(messages, list) or not messages:
        raise Refused(400, f"messages must be a list of messages, got {messages!r}")
    contents = []
    for message in messages:
        if not isinstance(message, dict):
            raise Refused(400, f"a message must be an object, got {message!r}")
        contents.append(text("content", message.get("content")))
    return " ".join(contents)


def _listed(body: Body) -> int | None:
    """The length of the lists that are asked for."""
    top = body.get("top_logprobs")
    if not flag("logprobs", body.get("logprobs") or False):
        if top is not None:
            raise Refused(400, "top_logprobs needs logprobs to be true")
        return None
    return 0 if top is None else integer("top_logprobs", top)


def _choice(service: Service, index: int, choice: Choice, listed: int | None) -> Body:
    """A choice; the token that ended it is not told."""
    n = len(choice.token_ids) - (choice.finish == "stop")
    content: list[Json] = [_step(service, listing, listed or 0) for listing in choice.listings[:n]]
    return {
        "index": index,
        "message": {
            "role": "assistant",
            "content": service.tokenizer.decode(choice.token_ids[:n]),
            "refusal": None,
        },
        "logprobs": None if listed is None else {"content": content, "refusal": None},
        "finish_reason": choice.finish,
    }


def _step(service: Service, listing: TokenLogProbs, n: int) -> Body:
    listed = entries(listing, service.tokenizer, LOWEST)
    return {**listed[0].body, "top_logprobs": [entry.body for entry in likeliest(listed, n)]}


def error(status: int, words: str) -> Body:
    """An error's body."""
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return {"error": {"message": words, "type": kind, "param": None, "code": None}}


def _models(_service: Service, _body: Body) -> Body:
    entry: Body = {
        "id": MODEL,
        "object": "model",
        "created": CREATED,
        "owned_by": "sampler-audit",
    }
    return {"object": "list", "data": [entry]}


STYLE = Style(
    name="openai20",
    server="sampler-audit",
    conventions=replace(CONVENTIONS["sampler-audit"], temperature_max=2.0),
    limits=Limits(),
    most_choices=128,
    routes={"GET /v1/models": _models, "POST /v1/chat/completions": complete},
    error=error,
)
