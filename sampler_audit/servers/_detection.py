"""Which engine is at a URL, told by several signs, since servers imitate each other.

An answer's words count and never its status alone: some servers answer 200 to anything.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sampler_audit.errors import ServerError, ServerNonsense, ServerRefused
from sampler_audit.servers._client import Client, Document
from sampler_audit.servers._failures import status_failure
from sampler_audit.servers._profile import Body, Fact, Profile
from sampler_audit.servers._reply import Reply

NONSENSE = "/v1/sampler-audit-asks-for-a-path-that-is-not-there"

GATEWAY_HEADERS = (
    *("x-litellm-version", "x-litellm-call-id", "x-kong-proxy-latency"),
    *("x-openrouter-request-id", "cf-ray", "via"),
)
"""Headers of programs that pass requests on."""


@dataclass(frozen=True, kw_only=True)
class Detection:
    """What answers at a URL.

    Attributes:
        profile: The engine.
        model: What to name in requests.
        evidence: What matched, one line each.
        warnings: What may make the evidence, or the audit, wrong.
        facts: What the server tells about itself, by the names of ``Profile.facts``.
    """

    profile: Profile
    model: str
    evidence: tuple[str, ...]
    warnings: tuple[str, ...]
    facts: Mapping[str, Fact]


async def detect(client: Client, profiles: Mapping[str, Profile]) -> Detection:
    """Ask what the server is.

    Raises:
        ServerError: it cannot be reached, lets nobody in, or is no server of language models.
    """
    models = await client.ready()
    if models.status in (401, 403):
        raise status_failure(models.source, models.status, models.text, 1)
    evidence: list[str] = []
    warnings = await _warnings(client, models)
    model, entry = _choose_model(client.connection.model, models, evidence, warnings)
    asked = client.connection.engine
    if asked == "auto":
        profile = await _recognise(client, models, entry, profiles, evidence)
        profile = profile or await _by_answer(client, model, profiles, evidence)
    else:
        profile = profiles[asked]
        evidence.append(f"--engine {asked}")
    return Detection(
        profile=profile,
        model=model,
        evidence=tuple(evidence),
        warnings=tuple(warnings),
        facts=await _facts(client, profile, entry),
    )


async def _warnings(client: Client, models: Document) -> list[str]:
    warnings = []
    if (await client.look(NONSENSE)).status == 200:
        warnings.append("it answers 200 to a path that does not exist, so a status says nothing")
    passed = [name for name in GATEWAY_HEADERS if name in models.headers]
    if passed:
        warnings.append(
            f"a gateway stands before it (header {passed[0]}): it may drop fields, and several"
            " servers may stand behind it"
        )
    return warnings


def _choose_model(
    asked: str, models: Document, evidence: list[str], warnings: list[str]
) -> tuple[str, Reply | None]:
    """The model to name, and its entry in the list."""
    listed = _walk(models.reply, ["data"])
    entries = listed.items() if listed is not None and isinstance(listed.value, list) else []
    for entry in entries:
        name = entry.get("id")
        if name is not None and isinstance(name.value, str) and asked in ("", name.value):
            if not asked:
                evidence.append(f"model {name.value!r}, the first of GET /v1/models")
            return name.value, entry
    if asked:
        warnings.append(f"GET /v1/models does not list the model {asked!r}")
        return asked, None
    raise ServerRefused(
        f"GET /v1/models: status {models.status}, and no model is listed; check the URL, or name"
        " one with --model",
        models.status,
    )


async def _recognise(
    client: Client,
    models: Document,
    entry: Reply | None,
    profiles: Mapping[str, Profile],
    evidence: list[str],
) -> Profile | None:
    """The first engine that a sign points at, in the order of what signs are worth."""
    owner = _text(_walk(entry, ["owned_by"]))
    server = models.headers.get("server", "")
    for profile in profiles.values():
        if profile.signs.owned_by and profile.signs.owned_by == owner:
            evidence.append(f"GET /v1/models: owned_by is {owner!r}")
            return profile
    for profile in profiles.values():
        if profile.signs.server and server.startswith(profile.signs.server):
            evidence.append(f"header Server: {server}")
            return profile
        if profile.signs.header and profile.signs.header in models.headers:
            evidence.append(f"header {profile.signs.header}")
            return profile
    for profile in profiles.values():
        path, words = profile.signs.page or ("", "")
        if path and words in (await client.look(path)).text:
            evidence.append(f"GET {path} says {words!r}")
            return profile
    return None


async def _by_answer(
    client: Client, model: str, profiles: Mapping[str, Profile], evidence: list[str]
) -> Profile:
    """The engine whose fingerprint an answer bears, else the route that answers."""
    message: Body = {"role": "user", "content": "A"}
    routes: dict[str, Body] = {
        "openai": {"messages": [message]},
        "openai_completions": {"prompt": "A"},
    }
    problem: ServerError | None = None
    for name, prompt in routes.items():
        path = profiles[name].wire.path
        try:
            reply = await client.ask(path, {"model": model, "max_tokens": 1, **prompt})
            reply["choices"].items()
        except (ServerRefused, ServerNonsense) as exc:
            problem = problem or exc
            continue
        fingerprint = _text(reply.get("system_fingerprint"))
        for profile in profiles.values():
            if profile.signs.fingerprint and re.match(profile.signs.fingerprint, fingerprint):
                evidence.append(f"system_fingerprint is {fingerprint!r}")
                return profile
        evidence.append(f"no engine that is known; POST {path} answers")
        return profiles[name]
    raise problem or ServerNonsense("no route of OpenAI's answers; check the URL")


async def _facts(client: Client, profile: Profile, entry: Reply | None) -> dict[str, Fact]:
    pages: dict[str, Reply | None] = {"model": entry}
    facts: dict[str, Fact] = {}
    for name, (page, *keys) in profile.facts.items():
        path = str(page)
        if path not in pages:
            pages[path] = (await client.look(path)).reply
        node = _walk(pages[path], keys)
        if node is not None and isinstance(node.value, Fact):
            facts[name] = node.value
    return facts


def _walk(node: Reply | None, keys: Iterable[str | int]) -> Reply | None:
    for key in keys:
        node = None if node is None else node.get(key)
    return node


def _text(node: Reply | None) -> str:
    return node.value if node is not None and isinstance(node.value, str) else ""
