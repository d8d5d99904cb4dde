"""The two dialects that most engines share: OpenAI's completions and chat completions.

Written against the OpenAPI description openai/openai-openapi f85dbe2; answers of the imitators are
read more widely: ids where they add some, either shape of log-probs on either route.
"""

from sampler_audit.servers._fields import sampling_fields
from sampler_audit.servers._profile import Ask, Body, Choice, Profile, Wire
from sampler_audit.servers._reply import Json, Reply
from sampler_audit.servers._rows import Entry, Step, Token

ID_PREFIX = "token_id:"
"""How vLLM and its kin spell an id where others put a token's text."""


def write_completion(profile: Profile, ask: Ask) -> Body:
    """The body of ``/v1/completions``."""
    return {
        "model": ask.model,
        "prompt": ask.prompt if isinstance(ask.prompt, str) else list(ask.prompt),
        **_common(profile, ask),
        **_counted_logprobs(profile, ask),
    }


def write_chat(profile: Profile, ask: Ask) -> Body:
    """The body of ``/v1/chat/completions``: the prompt is what the user says."""
    return {
        "model": ask.model,
        "messages": [{"role": "user", "content": str(ask.prompt)}],
        **_common(profile, ask),
        **flagged_logprobs(profile, ask),
    }


def flagged_logprobs(profile: Profile, ask: Ask) -> Body:
    """``logprobs`` as a switch, with ``top_logprobs`` as the length of the list."""
    if ask.logprobs is not None:
        return {"logprobs": True, "top_logprobs": ask.logprobs}
    return {"logprobs": True} if profile.asks_own else {}


def read_choices(profile: Profile, ask: Ask, reply: Reply) -> tuple[Choice, ...]:
    """The choices by index.

    Raises:
        ServerNonsense: no choices, an index that is not theirs, or lists that do not fit.
    """
    found = {}
    for choice in reply["choices"].items():
        index = choice.get("index")
        found[0 if index is None else index.integer()] = choice
    if set(found) != set(range(len(reply["choices"].items()))):
        raise reply["choices"].wrong("do not count their index from 0")
    return tuple(_read_choice(profile, ask, found[index]) for index in sorted(found))


def read_token(profile: Profile, name: str) -> Token:
    """The token that a string stands for: an id where the engine spells ids."""
    number = name.removeprefix(ID_PREFIX)
    spelt = profile.ids and number != name and number.isdecimal()
    return int(number) if spelt else name.encode()


def read_entry(profile: Profile, node: Reply) -> Entry:
    """A token of a list as an object: id, else bytes, else text; and its log-prob."""
    text_node = node.get("token") or node.get("text")
    text = "" if text_node is None else text_node.text()
    logprob = floored(profile, node["logprob"])
    id_node = (node.get("id") or node.get("token_id")) if profile.ids else None
    if id_node is not None:
        return Entry(id_node.integer(), logprob, text)
    raw = node.get("bytes")
    if raw is not None:
        return Entry(bytes(_byte(item) for item in raw.items()), logprob, text)
    return Entry(read_token(profile, text), logprob, text)


def floored(profile: Profile, node: Reply) -> float:
    """A log-prob; -inf where the engine's stand-in for it is there."""
    value = node.number()
    return float("-inf") if value <= profile.minus_infinity else value


def _common(profile: Profile, ask: Ask) -> Body:
    body: dict[str, Json] = {"max_tokens": ask.max_tokens, "stream": False, **profile.answer}
    if profile.n_limit != 1:
        body["n"] = ask.n
    return {**body, **sampling_fields(profile, ask)}


def _counted_logprobs(profile: Profile, ask: Ask) -> Body:
    """``logprobs`` as the length of the list."""
    if ask.logprobs is not None:
        return {"logprobs": ask.logprobs}
    return {"logprobs": 0} if profile.asks_own else {}


def _read_choice(profile: Profile, ask: Ask, choice: Reply) -> Choice:
    steps = _read_logprobs(profile, choice.get("logprobs"))
    ids = choice.get("token_ids") if profile.ids else None
    if ids is None:
        return steps or _read_text(ask, choice)
    tokens = [node.integer() for node in ids.items()]
    if not steps:
        return tuple(Step(Entry(token, float("nan"))) for token in tokens)
    if len(steps) != len(tokens):
        raise ids.wrong(f"counts {len(tokens)} tokens, and logprobs {len(steps)}")
    return tuple(_with_id(step, token, ids) for step, token in zip(steps, tokens, strict=True))


def _with_id(step: Step, token: int, ids: Reply) -> Step:
    """The step of a token whose id is told apart from its log-prob.

    A list of texts beside it is dropped: which ids they stand for is not known.
    """
    own = step.own
    if own is not None and isinstance(own.token, int):
        if own.token != token:
            raise ids.wrong(f"says {token}, and logprobs {own.token}")
        return step
    logprob = float("nan") if own is None else own.logprob
    return Step(Entry(token, logprob, "" if own is None else own.text))


def _read_logprobs(profile: Profile, node: Reply | None) -> Choice:
    if node is None:
        return ()
    content = node.get("content")
    if content is not None:
        return tuple(_read_content(profile, item) for item in content.items())
    if node.get("tokens") is None:
        return ()
    tops = node.get("top_logprobs")
    return tuple(
        Step(
            Entry(
                read_token(profile, token.text()), floored(profile, node["token_logprobs"][i]), ""
            ),
            () if tops is None else _read_table(profile, tops[i]),
        )
        for i, token in enumerate(node["tokens"].items())
    )


def _read_content(profile: Profile, item: Reply) -> Step:
    listed = item.get("top_logprobs")
    entries = () if listed is None else tuple(read_entry(profile, e) for e in listed.items())
    return Step(read_entry(profile, item), entries)


def _read_table(profile: Profile, table: Reply) -> tuple[Entry, ...]:
    """The legacy list: an object of log-probs by token."""
    if table.value is None:
        return ()
    return tuple(
        Entry(read_token(profile, n), floored(profile, node)) for n, node in table.members()
    )


def _read_text(ask: Ask, choice: Reply) -> Choice:
    """One token as mere text; of several the borders are not known."""
    message = choice.get("message")
    node = choice.get("text") if message is None else message.get("content")
    text = "" if node is None else node.text()
    if not text:
        return ()
    if ask.max_tokens > 1:
        raise choice.wrong("tells neither ids nor log-probs, so its tokens cannot be told apart")
    return (Step(Entry(text.encode(), float("nan"), text)),)


def _byte(node: Reply) -> int:
    value = node.integer()
    if not 0 <= value < 256:
        raise node.wrong("is no byte")
    return value


COMPLETIONS = Wire(path="/v1/completions", write=write_completion, read=read_choices)
CHAT = Wire(path="/v1/chat/completions", write=write_chat, read=read_choices)
