"""Generation: one choice of a request while its tokens are drawn. Knows no sampler and no HTTP."""

from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sampler_audit.sampler.log_probs import TokenLogProbs, Wanted, wanted_by
from sampler_scenarios.batches import Batch
from sampler_scenarios.params import SamplingParams
from sampler_scenarios.requests import ModelConfig, Request

Logits = NDArray[np.float32]

Finish = Literal["stop", "length", "abort"]
"""A stop token came, the tokens were all that were asked for, or none could be drawn."""


@dataclass(frozen=True, eq=False)
class Choice:
    """A finished choice.

    Attributes:
        token_ids: What was drawn, the stop token included.
        listings: For each token what was listed; empty where nothing was asked for.
        finish: Why it ended.
    """

    token_ids: tuple[int, ...]
    listings: tuple[TokenLogProbs, ...]
    finish: Finish


@dataclass(frozen=True, eq=False)
class Job:
    """A request for tokens, whose choices the engine will set as ``result``."""

    params: SamplingParams
    prompt: tuple[int, ...]
    result: Future[tuple[Choice, ...]] = field(default_factory=Future)

    @cached_property
    def of_one(self) -> SamplingParams:
        """The parameters of each choice."""
        return replace(self.params, n=1)

    @property
    def wanted(self) -> Wanted | None:
        """What is to be listed with each token."""
        return wanted_by(self.params)


@dataclass(frozen=True, eq=False)
class Emitted:
    """A token, the row that it came from, and what the step listed with it, where it did."""

    token_id: int
    row: Logits
    listing: TokenLogProbs | None = None


@dataclass(eq=False)
class Generation:
    """A choice with the seed of its draws, and the request that held its slot before it."""

    job: Job
    seed: int
    predecessor: Request | None
    output: list[int] = field(default_factory=list)
    listings: list[TokenLogProbs] = field(default_factory=list)
    finish: Finish | None = None

    @property
    def request(self) -> Request:
        """The request as it is now."""
        return Request(self.job.of_one, self.job.prompt, tuple(self.output))

    def emit(self, token_id: int, model: ModelConfig) -> None:
        """One more token; it may be the last."""
        params, asked = self.job.params, self.job.params.max_tokens
        if token_id < 0:
            self.finish = "abort"
            return
        self.output.append(token_id)
        ends = set(params.stop_token_ids) | set(() if params.ignore_eos else model.eos_token_ids)
        if token_id in ends and len(self.output) >= params.min_tokens:
            self.finish = "stop"
        elif token_id >= model.vocab_size:
            # What follows a token that does not exist is nobody's to say.
            self.finish = "abort"
        elif len(self.output) == asked:
            self.finish = "length"

    @property
    def choice(self) -> Choice:
        """The choice, once it has finished."""
        return Choice(tuple(self.output), tuple(self.listings), self.finish or "abort")


@dataclass(frozen=True, eq=False)
class ServedBatch(Batch):
    """A batch of requests of one model."""

    served: ModelConfig = field(kw_only=True)

    @property
    def model(self) -> ModelConfig:
        """That model."""
        return self.served
