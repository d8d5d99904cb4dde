"""Exchange: questions to one server in its engine's words, and answers that were counted.

Remembers who answered: draws of two models have no common law.
"""

import itertools
import secrets
from collections.abc import Mapping

from sampler_audit.errors import ServerChanged, ServerError, ServerNonsense
from sampler_audit.servers._client import Client
from sampler_audit.servers._detection import Detection
from sampler_audit.servers._profile import Ask, Body, Choice, Profile
from sampler_audit.servers._reply import LOOK, Json, Reply
from sampler_audit.servers._rows import Row, Step, Vocabulary, read_row

_NAMES_OF_ONE = ("model", "provider")
"""Members of an answer that must not change within a run."""


class Exchange:
    """The engine of ``detection`` at the other end of ``client``.

    Attributes:
        fingerprints: Every ``system_fingerprint`` that was seen, in order.
        n_requests: How many requests for tokens were made.
    """

    def __init__(self, client: Client, detection: Detection, vocab_size: int | None) -> None:
        self.client = client
        self.detection = detection
        self.vocabulary = Vocabulary(vocab_size, ids=detection.profile.ids)
        self.fingerprints: dict[str, None] = {}
        self.n_requests = 0
        self._answerers: dict[str, str] = {}
        self._salt = secrets.token_hex(8)
        self._salts = itertools.count()

    @property
    def profile(self) -> Profile:
        """The engine."""
        return self.detection.profile

    @property
    def model(self) -> str:
        """The model that requests name."""
        return self.detection.model

    async def choices(self, ask: Ask) -> tuple[Choice, ...]:
        """As many choices as were asked for, none longer than was asked for.

        Raises:
            ServerError: no answer, or one that cannot be right.
        """
        wire = self.profile.wire
        reply = await self._send(wire.write(self.profile, ask), ask)
        found = wire.read(self.profile, ask, reply)
        if len(found) != ask.n:
            raise ServerNonsense(
                f"{reply.source}: {ask.n} choices were asked for, and {len(found)} came; {LOOK}"
            )
        longest = max(map(len, found))
        if longest > ask.max_tokens:
            raise ServerNonsense(
                f"{reply.source}: {ask.max_tokens} tokens were asked for, and {longest} came;"
                f" {LOOK}"
            )
        return found

    async def prompt_steps(self, ask: Ask) -> tuple[Step, ...]:
        """One step for each token of the prompt from ``ask.start`` on.

        Raises:
            ServerError: as ``choices``; also where the engine lists no prompts.
        """
        wire = self.profile.wire
        if wire.write_prompt is None or wire.read_prompt is None:
            raise ServerError(f"{self.profile.title} gives no log-probs of a prompt's own tokens")
        reply = await self._send(wire.write_prompt(self.profile, ask), ask)
        steps = wire.read_prompt(self.profile, ask, reply)
        expected = len(ask.prompt) - max(ask.start, 1)
        if len(steps) != expected:
            raise ServerNonsense(
                f"{reply.source}: {expected} rows of the prompt were asked for, and {len(steps)}"
                f" came; {LOOK}"
            )
        return steps

    def row(self, step: Step, limit: int | None) -> Row:
        """The row of a step, of at most ``limit`` tokens.

        Raises:
            ServerNonsense: a list that cannot be right.
        """
        return read_row(step, self.vocabulary, f"POST {self.profile.wire.path}", limit)

    async def _send(self, body: Body, ask: Ask) -> Reply:
        self.n_requests += 1
        reply = await self.client.ask(self.profile.wire.path, {**body, **self._cache_fields(ask)})
        self._remember(reply)
        return reply

    def _cache_fields(self, ask: Ask) -> Mapping[str, Json]:
        if self.profile.cache_field == "cache_prompt":
            return {"cache_prompt": ask.cached}
        if self.profile.cache_field == "cache_salt" and not ask.cached:
            return {"cache_salt": f"{self._salt}-{next(self._salts)}"}
        return {}

    def _remember(self, reply: Reply) -> None:
        for name in _NAMES_OF_ONE:
            node = reply.get(name)
            if node is None or not isinstance(node.value, str):
                continue
            first = self._answerers.setdefault(name, node.value)
            if first != node.value:
                raise ServerChanged(
                    f"{reply.source}: the {name} was {first!r}, and is now {node.value!r}; several"
                    " servers stand behind this URL, or it was restarted: pin one, and start again"
                )
        fingerprint = reply.get("system_fingerprint")
        if fingerprint is not None and isinstance(fingerprint.value, str):
            self.fingerprints.setdefault(fingerprint.value)
