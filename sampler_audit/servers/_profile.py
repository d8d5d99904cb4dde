"""Profile: what is known about an engine behind HTTP, as data; and the words its wires speak in.

A profile holds only what differs between engines. What it says about behaviour is read from source
and documentation (each engine's file names the version), so the probe of ``_capabilities`` checks
it against the server at hand.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from sampler_audit.servers._reply import Json, Reply
from sampler_audit.servers._rows import Step
from sampler_reference.conventions import Conventions, refusal
from sampler_scenarios.params import SamplingParams

Prompt = str | tuple[int, ...]
"""A prompt as text, or as the token ids themselves."""

Body = dict[str, Json]

Fact = str | int | float | bool
"""Something that a server tells about itself."""

Method = Literal["sentinel", "chosen_ids", "output"]
"""A way to the row of log-probs at a position, around the sampler: behind the prompt stands one
token more, and the server lists what predicts it; the server lists the ids that it is asked for;
it lists the likeliest with the one token that it draws from a request without filters."""

SeedRule = Literal["index", "shared", "first_of_batch", "request", "none"]
"""What a seed s does to choice i of a request: it has seed s + i; all choices have seed s; the seed
of whichever request leads the batch wins; there is one choice; the engine has no seed."""


@dataclass(frozen=True, kw_only=True)
class Signs:
    """By what an engine is told, strongest first.

    Attributes:
        owned_by: What it calls the owner of its models.
        server: Beginning of its Server header.
        header: Name of a header that it alone sends, in lower case.
        page: A path, and words that the answer there holds.
        fingerprint: Pattern of the ``system_fingerprint`` of its answers.
    """

    owned_by: str = ""
    server: str = ""
    header: str = ""
    page: tuple[str, str] | None = None
    fingerprint: str = ""


@dataclass(frozen=True, kw_only=True)
class VocabProbe:
    """A request that names a token id beyond any vocabulary, and how the refusal tells its size."""

    fields: Mapping[str, Json]
    pattern: str
    add: int = 0


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One request for tokens, before it is put in an engine's words.

    Attributes:
        params: What every sampling field is to be; None leaves all of them out.
        n: Choices.
        seed: Of the first choice; None sends none.
        logprobs: Length of the list of likeliest tokens wanted with every token; None wants none.
        token_ids: Tokens whose log-probs are wanted instead.
        cached: Whether the server may use what it remembers of the prompt.
        start: In a question about the prompt, the first position whose row is wanted.
    """

    model: str
    prompt: Prompt
    params: SamplingParams | None = field(default_factory=SamplingParams)
    n: int = 1
    seed: int | None = None
    max_tokens: int = 1
    logprobs: int | None = None
    token_ids: tuple[int, ...] = ()
    cached: bool = True
    start: int = 0


Choice = tuple[Step, ...]
"""The tokens of one choice."""


@dataclass(frozen=True, kw_only=True)
class Wire:
    """How requests are written and answers are read.

    Attributes:
        path: Where requests for tokens go.
        write: The body of a request.
        read: The choices in an answer, in order; as many as there are.
        write_prompt: The body that asks for rows of the prompt itself.
        read_prompt: Those rows, from ``Ask.start`` on.
    """

    path: str
    write: Callable[["Profile", Ask], Body]
    read: Callable[["Profile", Ask, Reply], tuple[Choice, ...]]
    write_prompt: Callable[["Profile", Ask], Body] | None = None
    read_prompt: Callable[["Profile", Ask, Reply], tuple[Step, ...]] | None = None


@dataclass(frozen=True, kw_only=True)
class Profile:
    """An engine.

    Attributes:
        title: What people call it.
        conventions: Its honest choices; more than one where a server does not tell which of its
            code paths it takes. The first is the likeliest.
        methods: Ways to a reference row, the best first.
        logprob_cap: Longest list of log-probs as started without flags; None is the vocabulary.
        chosen_ids: How many chosen ids one request may list.
        ids: Whether answers name tokens by id; otherwise by text.
        prompt_ids: Whether prompts may be token ids.
        fields: SamplingParams field to name on the wire. What is not here cannot be sent.
        unsendable: Why a field is not, where there is more to say.
        off: Values on the wire that mean off, where they differ from SamplingParams' own.
        omitted: Fields that are left out while they are neutral, because "off" cannot be said.
        neutral: Sampling fields of this engine alone, at values that change nothing.
        answer: Fields that make answers readable, sent even where sampling fields are not.
        bias_pairs: Whether logit_bias is a list of pairs; otherwise an object.
        defaults: What the engine does where a field is left out, in words.
        n_limit: Most choices of a request; None is not known to have a limit.
        row_with_draw: Whether a drawn token comes with a list of the likeliest.
        asks_own: Whether the drawn token's log-prob is asked for with every draw, because the
            token cannot be told otherwise.
        seed_rule: See SeedRule.
        seed_max: Largest seed.
        replays: Whether a fresh server without seeds repeats the draws of the last fresh one.
        minus_infinity: Log-probs at or below this are -inf.
        cache_field: What turns the prompt cache off: a switch (``cache_prompt``), or a word that
            nobody used before (``cache_salt``).
        forced: How a small support can be forced: by ids, or by the same bias on each.
        tokenize: Path and field that turn text into token ids.
        facts: What the server tells about itself: name to path and keys; the path ``model`` is the
            entry of the model in ``/v1/models``.
        acceptance: Metrics that count accepted and proposed draft tokens.
    """

    name: str
    title: str
    signs: Signs
    wire: Wire
    conventions: tuple[Conventions, ...]
    methods: tuple[Method, ...]
    logprob_cap: int | None
    fields: Mapping[str, str]
    ids: bool = True
    prompt_ids: bool = True
    chosen_ids: int = 0
    unsendable: Mapping[str, str] = field(default_factory=dict)
    off: Mapping[str, Json] = field(default_factory=dict)
    omitted: frozenset[str] = frozenset()
    neutral: Mapping[str, Json] = field(default_factory=dict)
    answer: Mapping[str, Json] = field(default_factory=dict)
    bias_pairs: bool = False
    defaults: str
    n_limit: int | None = 1
    row_with_draw: bool = True
    asks_own: bool = False
    seed_rule: SeedRule = "request"
    seed_max: int = 2**32 - 2
    replays: bool = False
    minus_infinity: float = -9999.0
    cache_field: Literal["", "cache_prompt", "cache_salt"] = ""
    forced: Literal["", "allowed_token_ids", "logit_bias"] = ""
    tokenize: tuple[str, str] | None = None
    vocab_probe: VocabProbe | None = None
    facts: Mapping[str, tuple[str | int, ...]] = field(default_factory=dict)
    acceptance: tuple[str, str] | None = None

    def refusal(self, params: SamplingParams) -> str | None:
        """Why the engine cannot be asked for these parameters, or None where it can."""
        neutral = SamplingParams()
        for name in SENT_FIELDS:
            if name not in self.fields and getattr(params, name) != getattr(neutral, name):
                why = self.unsendable.get(name, "it has no such field")
                return f"{self.title} cannot be sent {name}: {why}"
            if not self.ids and getattr(params, name) and name in _NAMING_TOKENS:
                return f"{self.title} names tokens by text, so {name} cannot name any by id"
        return refusal(params, self.conventions[0])

    def force(self, params: SamplingParams, token_ids: Iterable[int]) -> SamplingParams | None:
        """The parameters under which only ``token_ids`` can be drawn, with their odds unchanged.

        None where the engine has no way. The row to expect is ``Row.restricted(token_ids)``.
        """
        if self.forced == "allowed_token_ids":
            return replace(params, allowed_token_ids=tuple(token_ids))
        if self.forced == "logit_bias":
            return replace(params, logit_bias=dict.fromkeys(token_ids, MOST_BIAS))
        return None


MOST_BIAS = 100.0
"""The largest bias that engines take. All others keep e^-100 of their odds, which is none."""

SENT_FIELDS = (
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "repetition_penalty",
    "frequency_penalty",
    "presence_penalty",
    "logit_bias",
    "allowed_token_ids",
    "bad_words",
    "min_tokens",
    "stop_token_ids",
    "ignore_eos",
    "thinking_token_budget",
)
"""The fields of SamplingParams that change the law; the rest is said by Ask."""

_NAMING_TOKENS = frozenset({"logit_bias", "allowed_token_ids", "bad_words", "stop_token_ids"})
