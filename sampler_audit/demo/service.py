"""Service: the demo's model, engine and prompt log-probs as the styles use them. Knows no HTTP."""

import secrets
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sampler_audit import version
from sampler_audit.demo.drawing import Drawing
from sampler_audit.demo.engine import Engine, EngineClosed
from sampler_audit.demo.fields import readers_of
from sampler_audit.demo.generation import Choice, Job
from sampler_audit.demo.listing import Listing
from sampler_audit.demo.model import VOCAB_SIZE, DemoModel
from sampler_audit.demo.passes import Passes
from sampler_audit.demo.planted import choose_planted
from sampler_audit.demo.wire import Body, Refused, Style
from sampler_audit.sampler.admission import RequestRefused, admit
from sampler_reference.conventions import refusal
from sampler_scenarios.params import SamplingParams
from sampler_scenarios.requests import Request

MODEL = "sampler-audit-demo"
VERSION = f"{version()}+demo"

CREATED = 1_700_000_000
"""When the model was made, in seconds: of no meaning, but clients look for it."""


@dataclass(frozen=True, kw_only=True)
class DemoSettings:
    """What a demo server is to be.

    Attributes:
        style: Name of the engine that it speaks like.
        defect: Name of the planted defect; None is a healthy sampler.
        when: Filters and stages, joined by +, that must all be on for the defect to act.
        noise: Largest error in nats of a logit, a fresh one in every forward pass.
        offset: Largest difference in nats, a constant one, between the passes that draw and those
            that list a prompt.
        speculative: Whether tokens after the first come from the verification of drafts.
        vocab_size: Tokens of the model.
        seed: Of requests without one, and of the noise; None is another one in every server.
    """

    style: str = "vllm"
    defect: str | None = None
    when: str | None = None
    noise: float = 0.0
    offset: float = 0.0
    speculative: bool = False
    vocab_size: int = VOCAB_SIZE
    seed: int | None = None


class Counters(NamedTuple):
    """Draft tokens proposed and accepted since the start, and requests that run now."""

    n_drafts: int
    n_accepted: int
    n_running: int


class Service:
    """Completes prompts and lists them, for as many threads at once as there are.

    Raises:
        UsageError: a defect that cannot be planted here.
        ValueError: a vocabulary that is too small.
    """

    def __init__(self, settings: DemoSettings, style: Style) -> None:
        planted = choose_planted(settings.defect, settings.when, speculative=settings.speculative)
        seed = secrets.randbelow(2**31) if settings.seed is None else settings.seed
        self.style = style
        self.model = DemoModel(settings.vocab_size)
        self.tokenizer = self.model.tokenizer
        self.readers = readers_of(self.tokenizer)
        passes = Passes(self.model, noise=settings.noise, offset=settings.offset, seed=seed)
        self.listing = Listing(passes)
        self._drawing = Drawing(self.model, passes, planted, style.conventions)
        self._engine = Engine(
            self.model,
            passes,
            self._drawing,
            self.listing,
            speculative=settings.speculative,
            rng=np.random.default_rng(seed),
        )

    def check_model(self, body: Body) -> None:
        """Nothing, where a body names this model, or none.

        Raises:
            Refused: it names another.
        """
        if body.get("model") not in (None, MODEL):
            raise Refused(404, f"the model {body.get('model')!r} does not exist; use {MODEL}")

    def complete(self, params: SamplingParams, prompt: tuple[int, ...]) -> tuple[Choice, ...]:
        """The choices of a request.

        Raises:
            Refused: the parameters or the prompt cannot be served.
        """
        job = Job(params, prompt)
        self._check(job)
        try:
            return self._engine.complete(job)
        except EngineClosed as exc:
            raise Refused(503, "the server is shutting down") from exc

    @property
    def counters(self) -> Counters:
        """What was counted so far."""
        drawing = self._drawing
        return Counters(drawing.n_drafts, drawing.n_accepted, self._engine.n_running)

    def close(self) -> None:
        """End every request."""
        self._engine.close()

    def _check(self, job: Job) -> None:
        config, style, params, prompt = self.model.config, self.style, job.params, job.prompt
        if params.n > style.most_choices:
            raise Refused(400, f"n must be at most {style.most_choices}, got {params.n}")
        if why := refusal(params, style.conventions):
            raise Refused(400, why)
        room = config.max_model_len - len(prompt)
        if (params.max_tokens or 1) > room:
            raise Refused(
                400,
                f"prompt and max_tokens must be at most max_model_len={config.max_model_len} tokens"
                f" together, got {len(prompt)} and {params.max_tokens}",
            )
        try:
            admit(Request(job.of_one, prompt), config, style.limits)
        except RequestRefused as exc:
            raise Refused(400, str(exc)) from exc
