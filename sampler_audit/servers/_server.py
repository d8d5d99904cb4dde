"""HttpServer: the Server protocol for any engine, by its profile. Fetches, and judges nothing."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from sampler_audit.errors import ServerError
from sampler_audit.servers._capabilities import probe
from sampler_audit.servers._draws import ENDED, Draws, Part, join_draws, share_out
from sampler_audit.servers._exchange import Exchange
from sampler_audit.servers._metrics import share_accepted
from sampler_audit.servers._profile import Ask, Body, Method, Profile, Prompt
from sampler_audit.servers._protocol import MOST_LISTED, Capabilities, ServerInfo
from sampler_audit.servers._reference import (
    all_of,
    chosen_row,
    output_row,
    prompt_rows,
    sentinel_row,
)
from sampler_audit.servers._rows import Row
from sampler_scenarios.params import MOST_CHOICES, SamplingParams


class HttpServer:
    """See ``_protocol.Server``, which says what each method promises."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._methods = exchange.profile.methods
        self._cap = exchange.profile.logprob_cap
        told = exchange.detection.facts.get("n_limit", exchange.profile.n_limit)
        self._n_limit = told if isinstance(told, int) and told > 0 else MOST_CHOICES
        self._numbers = itertools.count()

    @property
    def info(self) -> ServerInfo:
        """What it is."""
        detection, profile = self._exchange.detection, self.profile
        fingerprints = tuple(self._exchange.fingerprints)
        warnings = detection.warnings
        if len(fingerprints) > 1:
            warnings += (
                f"answers come from {len(fingerprints)} versions ({', '.join(fingerprints)}), so"
                " its draws are a mixture",
            )
        return ServerInfo(
            engine=profile.name,
            title=profile.title,
            version=str(detection.facts.get("version", "")),
            url=self._exchange.client.connection.root,
            model=detection.model,
            endpoint=profile.wire.path,
            conventions=tuple(rules.name for rules in profile.conventions),
            evidence=detection.evidence,
            warnings=warnings,
            facts=detection.facts,
            ids=profile.ids,
            vocab_size=self._exchange.vocabulary.size,
            defaults=profile.defaults,
            fingerprints=fingerprints,
        )

    @property
    def profile(self) -> Profile:
        """What is known about its kind."""
        return self._exchange.profile

    @property
    def n_limit(self) -> int:
        """Most choices of a request."""
        return self._n_limit

    @property
    def n_requests(self) -> int:
        """Requests for tokens so far."""
        return self._exchange.n_requests

    def name(self, token_id: int) -> str:
        """The text of a token, where it was told."""
        return self._exchange.vocabulary.name(token_id)

    def refusal(self, params: SamplingParams) -> str | None:
        """Why it cannot be asked for these parameters, or None where it can."""
        return self.profile.refusal(params)

    async def tokenize(self, text: str) -> tuple[int, ...] | None:
        """The token ids of a text as a prompt; None where the server does not tell."""
        if self.profile.tokenize is None:
            return None
        path, field = self.profile.tokenize
        body: Body = {"model": self._exchange.model, field: text}
        reply = await self._exchange.client.ask(path, body)
        number = self._exchange.vocabulary.number
        return tuple(number(node.integer()) for node in reply["tokens"].items())

    async def reference_row(
        self,
        prompt: Prompt,
        *,
        k: int | None = None,
        method: Method | None = None,
        token_ids: Sequence[int] = (),
        cached: bool = False,
    ) -> Row:
        """The log-probs that predict the token after ``prompt``, untouched by the sampler."""
        method = method or self._methods[0]
        if method == "chosen_ids":
            chosen = token_ids or range(self._exchange.vocabulary.size or 0)
            return await chosen_row(self._exchange, prompt, chosen, cached=cached)
        if method == "output":
            return await output_row(self._exchange, prompt, k=k or self._listed, cached=cached)
        ids = await self.tokenize(prompt) if isinstance(prompt, str) else prompt
        if ids is None:
            raise ServerError(f"{self.profile.title} does not tokenize; give the prompt as ids")
        return await sentinel_row(self._exchange, ids, k=k or self._listed, cached=cached)

    async def prompt_rows(
        self, token_ids: Sequence[int], *, start: int = 1, k: int | None = None
    ) -> tuple[Row, ...]:
        """The rows that predict tokens ``start`` and on of a prompt, each with its own token."""
        listed = self._listed if k is None else k
        return await prompt_rows(self._exchange, token_ids, start=start, k=listed, cached=False)

    async def draw(
        self,
        prompt: Prompt,
        params: SamplingParams | None,
        n: int,
        *,
        seeds: Sequence[int] | None = None,
        max_tokens: int = 1,
        logprobs: int | None = None,
        cached: bool = True,
        per_request: int | None = None,
        arrived: Callable[[Draws], None] | None = None,
    ) -> Draws:
        """``n`` times the ``max_tokens`` tokens after ``prompt``."""
        self._check(params, seeds)
        greedy = params is not None and params.temperature == 0
        most = 1 if greedy else min(self.n_limit, per_request or MOST_CHOICES)
        rule = self.profile.seed_rule
        ask = Ask(
            model=self._exchange.model,
            prompt=prompt,
            params=params,
            max_tokens=max_tokens,
            logprobs=logprobs if self.profile.row_with_draw else None,
            cached=cached,
        )
        parts = share_out(n, seeds, most, counts_up=rule == "index")
        jobs = (self._draw_part(ask, part, arrived) for part in parts)
        if seeds is not None and rule == "first_of_batch":
            # Side by side they may share a batch, and then only one of the seeds acts.
            return join_draws([await job for job in jobs], max_tokens)
        return join_draws(await all_of(jobs), max_tokens)

    async def capabilities(self, prompt: Prompt) -> Capabilities:
        """Find out what the server does; what is found also serves the calls that follow."""
        found = await probe(self, prompt)
        self._methods = found.methods or self._methods
        self._cap = found.logprob_cap or self._cap
        if "n" in found.dropped:
            self._n_limit = 1
        return found

    async def acceptance_rate(self) -> float | None:
        """Share of drafted tokens that were accepted since the server started, where it tells."""
        if self.profile.acceptance is None:
            return None
        metrics = await self._exchange.client.look("/metrics")
        return share_accepted(metrics.text, *self.profile.acceptance)

    async def close(self) -> None:
        """Let go of the connections; the server is not used afterwards."""
        await self._exchange.client.close()

    @property
    def _listed(self) -> int:
        known = (self._cap, self._exchange.vocabulary.size, MOST_LISTED)
        return min(length for length in known if length is not None)

    def _check(self, params: SamplingParams | None, seeds: Sequence[int] | None) -> None:
        if params is not None and (why := self.refusal(params)):
            raise ServerError(why)
        if seeds is not None and any(not 0 <= seed <= self.profile.seed_max for seed in seeds):
            raise ValueError(f"seeds must be in [0, {self.profile.seed_max}]")

    async def _draw_part(
        self, ask: Ask, part: Part, arrived: Callable[[Draws], None] | None
    ) -> Draws:
        number = next(self._numbers)
        choices = await self._exchange.choices(replace(ask, n=part.n, seed=part.seed))
        token_ids = np.full((part.n, ask.max_tokens), ENDED, np.int64)
        for i, choice in enumerate(choices):
            for t, step in enumerate(choice):
                if step.own is not None:
                    entry = step.own
                    token_ids[i, t] = self._exchange.vocabulary.number(entry.token, entry.text)
        rows: tuple[tuple[Row, ...], ...] = ()
        if ask.logprobs is not None:
            listed = ask.logprobs
            rows = tuple(tuple(self._exchange.row(s, listed) for s in c) for c in choices)
        draws = Draws(
            token_ids=token_ids,
            requests=np.full(part.n, number, np.int64),
            choices=np.arange(part.n, dtype=np.int64),
            seeds=part.seeds or (None,) * part.n,
            rows=rows,
        )
        if arrived is not None:
            arrived(draws)
        return draws
