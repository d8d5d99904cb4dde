"""Server: an engine behind HTTP as an audit sees it. Prompts in, log-probs and drawn tokens out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from sampler_audit.servers._draws import Draws
from sampler_audit.servers._profile import Fact, Method, Profile, Prompt
from sampler_audit.servers._rows import Row
from sampler_scenarios.params import SamplingParams

Kind = Literal["raw", "after temperature", "after filters", "unknown"]
"""What the log-probs beside a draw are: the model's own, divided by temperature, or of what the
filters left."""

MOST_LISTED = 1000
"""Length of a list where the server sets no limit: what is beyond is one tail of known mass."""


@dataclass(frozen=True, kw_only=True)
class ServerInfo:
    """What is audited. Every field is plain JSON, and none is secret.

    Attributes:
        engine: Name of the profile.
        title: What people call the engine.
        version: What it says of its version; empty where it says nothing.
        url: Without user, password and ``/v1``.
        model: The model that requests name.
        endpoint: Where they go.
        conventions: Names of the rules that the engine may follow, the likeliest first.
        evidence: What the engine was recognised by.
        warnings: What may make the audit wrong.
        facts: What else it tells about itself.
        ids: Whether tokens are told by id; else the ids here are numbers of this run's own.
        vocab_size: None where it is not known.
        defaults: What a request without sampling fields means.
        fingerprints: The ``system_fingerprint`` of every version that answered so far.
    """

    engine: str
    title: str
    version: str
    url: str
    model: str
    endpoint: str
    conventions: tuple[str, ...]
    evidence: tuple[str, ...]
    warnings: tuple[str, ...]
    facts: Mapping[str, Fact]
    ids: bool
    vocab_size: int | None
    defaults: str
    fingerprints: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What a server was seen to do at one prompt.

    Attributes:
        methods: Ways to a reference row that worked, the best first.
        logprob_cap: Longest list of log-probs that came; 0 where none did.
        logprobs: What the log-probs beside a draw are.
        n_per_request: Most choices of a request that came, of those that were tried.
        acts: For each sampling field whether it changes the law; None where this prompt cannot
            tell (its likeliest token is too likely), where no single token could (penalties,
            stop tokens), or where the server has no such field or refused the value.
        refused: What it said of the fields that it refused.
        seeds: Whether equal seeds give equal draws and others do not; None without seeds.
        constant: Draws without seeds were all equal where that was next to impossible.
        dropped: What was asked for, accepted, and did not come back.
        n_requests: What finding out cost.
    """

    methods: tuple[Method, ...]
    logprob_cap: int
    logprobs: Kind
    n_per_request: int
    acts: Mapping[str, bool | None]
    refused: Mapping[str, str]
    seeds: bool | None
    constant: bool
    dropped: tuple[str, ...]
    n_requests: int


class Server(Protocol):
    """An engine behind HTTP. Every method may run many times at once."""

    @property
    def info(self) -> ServerInfo:
        """What it is."""

    @property
    def profile(self) -> Profile:
        """What is known about its kind."""

    def name(self, token_id: int) -> str:
        """The text of a token, where it was told."""

    def refusal(self, params: SamplingParams) -> str | None:
        """Why it cannot be asked for these parameters, or None where it can."""

    async def tokenize(self, text: str) -> tuple[int, ...] | None:
        """The token ids of a text as a prompt; None where the server does not tell."""

    async def reference_row(
        self,
        prompt: Prompt,
        *,
        k: int | None = None,
        method: Method | None = None,
        token_ids: Sequence[int] = (),
        cached: bool = False,
    ) -> Row:
        """The log-probs that predict the token after ``prompt``, untouched by the sampler.

        ``k`` is the length of the list (default: as long as it may be, at most MOST_LISTED).
        ``token_ids`` are those that the method ``chosen_ids`` asks for (default: all).

        Raises:
            ServerError: it does not answer, or answers nonsense.
        """

    async def prompt_rows(
        self, token_ids: Sequence[int], *, start: int = 1, k: int | None = None
    ) -> tuple[Row, ...]:
        """The rows that predict tokens ``start`` and on of a prompt, each with its own token.

        Raises:
            ServerError: as above; also where the server gives no log-probs of prompts.
        """

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
        """``n`` times the ``max_tokens`` tokens after ``prompt``.

        ``params`` None leaves every sampling field out: the server's defaults. ``seeds`` are one a
        draw. ``logprobs`` asks for the row of each drawn token's own step. ``per_request`` bounds
        the choices of a request. ``arrived`` is handed every request's draws as they come.

        Raises:
            ServerError: it cannot be asked for this, does not answer, or answers nonsense.
            ValueError: not one seed a draw, or one beyond ``profile.seed_max``.
        """

    async def capabilities(self, prompt: Prompt) -> Capabilities:
        """Find out what the server does; what is found also serves the calls that follow.

        Raises:
            ServerError: it does not answer at all.
        """

    async def acceptance_rate(self) -> float | None:
        """Share of drafted tokens that were accepted since the server started, where it tells."""

    async def close(self) -> None:
        """Let go of the connections; the server is not used afterwards."""


class Probed(Server, Protocol):
    """What the probe needs beyond that."""

    @property
    def n_limit(self) -> int:
        """Most choices of a request, by what is known before it is tried."""

    @property
    def n_requests(self) -> int:
        """Requests for tokens so far."""
