"""The stages of vLLM 0.32.0's samplers, equal bit for bit to our reference by its conventions."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from sampler_audit.sampler.batched import BatchedSampler
from sampler_reference.conventions import CONVENTIONS, Conventions
from sampler_reference.distribution import scaled
from sampler_reference.filters import min_p_edge
from sampler_reference.processors import PROCESSORS, process
from sampler_scenarios.params import SamplingParams
from sampler_scenarios.requests import ModelConfig, Request

pytestmark = pytest.mark.e2e

# Neither a multiple of 32, of which bitmasks are made, nor of any block of the kernels.
MODEL = ModelConfig(
    vocab_size=401,
    max_model_len=256,
    eos_token_ids=(3, 77),
    reasoning_start=(5, 6),
    reasoning_end=(7, 8, 9),
)
V1, V2 = CONVENTIONS["vllm-pytorch"], CONVENTIONS["vllm-triton"]
N_BATCHES, MOST_REQUESTS, N_EDGES = 520, 8, 40
MOST_DRAFTS = 3
HOT = 12
"""Prompts, outputs and settings are of these tokens, so that each stage finds something to do."""

EVERY = np.ones(MODEL.vocab_size, np.bool_)
ONLY_STOPS = np.isin(np.arange(MODEL.vocab_size), MODEL.eos_token_ids)

Calls = list[tuple[str, dict[str, Any]]]
Answers = list[dict[str, NDArray[Any]]]
Run = Callable[[str, list[tuple[dict[str, Any], Calls]]], list[Answers]]


@dataclass(frozen=True, eq=False)
class Row:
    """A row of a step; the request counts the ``n_drafts`` drafts before it as emitted."""

    logits: NDArray[np.float32]
    request: Request
    n_drafts: int
    is_last: bool


@dataclass
class Traffic:
    """Requests that come, take part in steps, emit tokens and go; slots are used again.

    Attributes:
        calls: What vLLM's samplers are asked.
        steps: The rows of each step, by the index of its call.
        arrived: Every request as it came, by name.
    """

    rng: np.random.Generator
    settings: Callable[[SamplingParams], dict[str, Any]]
    without: tuple[str, ...] = ()
    most_drafts: int = 0
    present: dict[str, Request] = field(default_factory=dict)
    calls: Calls = field(default_factory=list)
    steps: dict[int, list[Row]] = field(default_factory=dict)
    arrived: dict[str, Request] = field(default_factory=dict)

    def tokens(self, low: int, high: int) -> tuple[int, ...]:
        """Some of the hot ones, as many as in [low, high)."""
        return tuple(self.rng.integers(HOT, size=self.rng.integers(low, high)).tolist())

    def arrive(self) -> None:
        """A request with a history."""
        name, prompt, output = f"r{len(self.calls)}", self.tokens(1, 30), self.tokens(0, 25)
        grammar = EVERY if self.rng.random() < 0.3 else None
        request = Request(self.params((*prompt, *output)), prompt, output, grammar)
        # Some output comes with the request, as after a preemption, and the rest after it.
        n_known = int(self.rng.integers(len(output) + 1))
        self.arrived[name] = replace(request, output_token_ids=output[:n_known])
        settings = self.settings(request.params) | {"grammar": grammar is not None}
        came = {"settings": settings, "prompt": prompt, "output": output[:n_known]}
        self.calls.append(("add", {"name": name, **came}))
        if output[n_known:]:
            self.emit(name, output[n_known:])
        self.present[name] = request

    def emit(self, name: str, tokens: tuple[int, ...]) -> None:
        """Have vLLM append them."""
        self.calls.append(("commit", {"names": [name], "token_ids": [tokens]}))

    def params(self, history: tuple[int, ...]) -> SamplingParams:
        """A random subset of the settings, with words that the history has begun."""
        rng = self.rng
        tails = tuple((*history[-n:], *self.tokens(1, 2)) for n in (1, 2, 3))
        hot = rng.permutation(HOT).tolist()
        drawn: dict[str, Any] = {
            "temperature": rng.choice([0.0, 0.6, 0.7, 1.3]),
            "min_p": rng.choice([0.02, 0.1, 1.0]),
            "repetition_penalty": rng.uniform(0.5, 2),
            "frequency_penalty": rng.uniform(-2, 2),
            "presence_penalty": rng.uniform(-2, 2),
            "logit_bias": {token: rng.normal(0, 5) for token in hot[:5]},
            "allowed_token_ids": tuple(rng.permutation(MODEL.vocab_size)[:60].tolist()),
            "bad_words": (*tails, self.tokens(1, 4), self.tokens(1, 4)),
            "min_tokens": int(rng.integers(1, 40)),
            "stop_token_ids": tuple(hot[-2:]),
            "thinking_token_budget": int(rng.integers(15)),
        }
        taken = {k: v for k, v in drawn.items() if k not in self.without and rng.random() < 0.4}
        return SamplingParams(**taken)

    def step(self) -> None:
        """A step of some of those present, in any order."""
        rng = self.rng
        names = rng.permutation(list(self.present))[: rng.integers(1, 7)].tolist()
        drafted = self.most_drafts > 0 and rng.random() < 0.4
        drafts = [self.tokens(0, self.most_drafts + 1) if drafted else () for _ in names]
        logits = iter(self.logits(sum(len(tokens) + 1 for tokens in drafts)))
        rows = [
            Row(next(logits), self.at_row(name, tokens[:j]), j, j == len(tokens))
            for name, tokens in zip(names, drafts, strict=True)
            for j in range(len(tokens) + 1)
        ]
        grammars = [EVERY if r.request.grammar is None else r.request.grammar for r in rows]
        step = {"names": names, "drafts": drafts, "grammar": np.stack(grammars)}
        self.steps[len(self.calls)] = rows
        self.calls.append(("process", step | {"logits": np.stack([r.logits for r in rows])}))

    def at_row(self, name: str, drafts: tuple[int, ...]) -> Request:
        """Behind the drafts, under a grammar that is another one at every row."""
        request = self.present[name].extended(drafts)
        if request.grammar is None:
            return request
        some = self.rng.random(MODEL.vocab_size) < 0.5
        return replace(request, grammar=ONLY_STOPS if self.rng.random() < 0.3 else some)

    def logits(self, n_rows: int) -> NDArray[np.float32]:
        """Of three kinds: all different, with ties, and with tokens that are masked already."""
        logits = self.rng.normal(0, 3, (n_rows, MODEL.vocab_size)).astype(np.float32)
        if self.rng.random() < 0.3:
            # Ties, and zeros of both signs, on which the rule of repetition_penalty turns.
            logits = np.round(logits)
        if self.rng.random() < 0.3:
            logits[self.rng.random(logits.shape) < 0.2] = -np.inf
        return logits

    def go_on(self) -> None:
        """Some end, and some of the others emit tokens."""
        for name in list(self.present):
            if self.rng.random() < 0.15 or len(self.present[name].token_ids) > 200:
                del self.present[name]
                self.calls.append(("remove", {"name": name}))
            elif self.rng.random() < 0.3:
                tokens = self.tokens(1, 4)
                self.present[name] = self.present[name].extended(tokens)
                self.emit(name, tokens)


def traffic(
    rng: np.random.Generator, settings: Callable[[SamplingParams], dict[str, Any]], **others: Any
) -> Traffic:
    """Batches of a population of at most eight."""
    made = Traffic(rng, settings, **others)
    while len(made.steps) < N_BATCHES:
        while len(made.present) < MOST_REQUESTS and (not made.present or rng.random() < 0.5):
            made.arrive()
        made.step()
        made.go_on()
    return made


def expected(row: Row, conventions: Conventions) -> NDArray[np.float32]:
    """The row after its stages, temperature and min_p."""
    params = row.request.params
    x = scaled(process(row.logits, row.request, MODEL, conventions), params.temperature)
    if params.temperature and params.min_p:
        x[x < min_p_edge(float(x.max()), params, conventions)] = -np.inf
    return x


def n_differing(made: Traffic, answers: Answers, conventions: Conventions) -> int:
    """How many rows differ in any bit; zeros of either sign are one."""
    return sum(
        not np.array_equal(expected(row, conventions), got)
        for i, rows in made.steps.items()
        for row, got in zip(rows, answers[i]["processed"], strict=True)
    )


V2Answers = tuple[Traffic, Answers, NDArray[np.float32]]
EDGES = [SamplingParams(min_p=p) for p in np.random.default_rng(79).uniform(0.01, 1, N_EDGES)]


def edge_rows() -> NDArray[np.float32]:
    """Rows whose tokens are within four units in the last place of the edge of their min_p."""
    rows = np.random.default_rng(80).normal(4, 3, (N_EDGES, MODEL.vocab_size)).astype(np.float32)
    for x, params in zip(rows, EDGES, strict=True):
        edge = np.float32(x.max() + np.log(np.float32(params.min_p)))
        near = np.arange(-4, 5).astype(np.float32) * np.spacing(edge)
        x[x < x.max()] = (edge + near)[np.arange(MODEL.vocab_size - 1) % 9]
    return rows


def edge_calls() -> Calls:
    """A step of requests with these parameters."""
    names = [str(i) for i in range(N_EDGES)]
    came = [{"settings": {"min_p": p.min_p}, "prompt": (0,), "output": ()} for p in EDGES]
    added: Calls = [("add", {"name": n, **c}) for n, c in zip(names, came, strict=True)]
    return [*added, ("process", {"names": names, "logits": edge_rows()})]


@pytest.fixture(scope="module")
def v2(
    run_vllm: Run,
    vllm_facts: Callable[..., dict[str, Any]],
    vllm_settings: Callable[[SamplingParams], dict[str, Any]],
) -> tuple[Traffic, Answers, NDArray[np.float32]]:
    """Traffic, what Model Runner V2's sampler made of it, and of the rows at edges of min_p."""
    made = traffic(np.random.default_rng(71), vllm_settings, most_drafts=MOST_DRAFTS)
    facts = vllm_facts(MODEL, max_drafts=MOST_DRAFTS, max_requests=MOST_REQUESTS)
    asked = [(facts, made.calls), (vllm_facts(MODEL, max_requests=N_EDGES), edge_calls())]
    of_traffic, of_edges = run_vllm("v2", asked)
    return made, of_traffic, of_edges[-1]["processed"]


def test_v2_stages_are_the_references(v2: V2Answers) -> None:
    """Allowed ids to min_p on 520 mixed batches, no bit of them outside convention vllm-triton."""
    assert len(v2[0].steps) >= 500
    assert n_differing(*v2[:2], V2) == 0


@pytest.mark.parametrize(
    "other",
    [
        {"reciprocal": False},
        {"repetition_rule": "divide"},
        {"repetition_scope": "output"},
        {"count_scope": "prompt+output"},
        {"bad_words_scope": "prompt+output"},
        {"processing": tuple(sorted(V2.processing, key="logit_bias".__eq__))},
    ],
)
def test_other_conventions_differ(v2: V2Answers, other: dict[str, Any]) -> None:
    """The twin: each choice of the convention decides rows of this traffic."""
    assert n_differing(*v2[:2], replace(V2, **other)) > 0


def test_every_stage_decides_rows(v2: V2Answers) -> None:
    """Each stage that vLLM has changes what reaches it in at least 100 rows."""
    changed: Counter[str] = Counter()
    for row in (row for rows in v2[0].steps.values() for row in rows):
        x = row.logits
        for stage in V2.processing:
            before, x = x, PROCESSORS[stage](x, row.request, MODEL, V2)
            changed[stage] += not np.array_equal(before, x)
    assert all(changed[stage] >= 100 for stage in V2.processing if stage != "processor")


def test_v2_rounds_the_edge_of_min_p(v2: V2Answers) -> None:
    """Its arithmetic is float32: that of float64 keeps other tokens in some of 40 rows."""
    by_arithmetic = {
        arithmetic: np.stack(
            [
                expected(Row(x, Request(p), 0, True), replace(V2, min_p_arithmetic=arithmetic))
                for x, p in zip(edge_rows(), EDGES, strict=True)
            ]
        )
        for arithmetic in ("float32", "float64")
    }
    np.testing.assert_array_equal(v2[2], by_arithmetic["float32"])
    assert (v2[2] != by_arithmetic["float64"]).any()


def ours(made: Traffic, conventions: Conventions) -> Answers:
    """The same calls, put to our sampler."""
    sampler = BatchedSampler(
        MODEL,
        path="twin",
        conventions=conventions,
        rng=np.random.default_rng(0),
        max_requests=MOST_REQUESTS,
        max_drafts=made.most_drafts,
    )
    slots: dict[str, int] = {}
    answers: Answers = []
    for i, (method, asked) in enumerate(made.calls):
        answers.append({})
        if method == "add":
            slots[asked["name"]] = sampler.add(made.arrived[asked["name"]])
        elif method == "remove":
            sampler.remove(slots.pop(asked["name"]))
        elif method == "commit":
            sampler.commit(slots[asked["names"][0]], asked["token_ids"][0])
        else:
            present = [slots[name] for name in asked["names"]]
            step = torch.from_numpy(asked["logits"]), present, asked["drafts"]
            grammar = [row.request.grammar for row in made.steps[i]]
            answers[-1]["processed"] = sampler.filter(*step, grammar=grammar).numpy()
            # Of a greedy row a filter leaves one token; vLLM's is as it was.
            greedy = [row.request.params.temperature == 0 for row in made.steps[i]]
            if any(greedy):
                processed = sampler.process(*step, grammar=grammar).numpy()
                answers[-1]["processed"][greedy] = processed[greedy]
    return answers


def test_v2_stages_are_ours(v2: V2Answers) -> None:
    """Our sampler under the convention gives the same bits for the same traffic."""
    made, answers, _ = v2
    mine = ours(made, V2)
    for i in made.steps:
        np.testing.assert_array_equal(mine[i]["processed"], answers[i]["processed"])


@pytest.fixture(scope="module")
def v1(
    run_vllm: Run,
    vllm_facts: Callable[..., dict[str, Any]],
    vllm_settings: Callable[[SamplingParams], dict[str, Any]],
) -> dict[int, tuple[Traffic, Answers]]:
    """The same for V1, by the most drafts, without the settings for which it has another rule."""
    # Its thinking budget counts what it forced itself, and its min_p cuts probabilities; with
    # drafts it has no logit_bias.
    without = ("thinking_token_budget", "min_p")
    made = {
        0: traffic(np.random.default_rng(72), vllm_settings, without=without),
        MOST_DRAFTS: traffic(
            np.random.default_rng(78),
            vllm_settings,
            without=(*without, "logit_bias"),
            most_drafts=MOST_DRAFTS,
        ),
    }
    told = [
        (vllm_facts(MODEL, max_drafts=n, max_requests=MOST_REQUESTS), made[n].calls) for n in made
    ]
    return {n: (made[n], got) for n, got in zip(made, run_vllm("v1", told), strict=True)}


def test_v1_stages_are_the_references(v1: dict[int, tuple[Traffic, Answers]]) -> None:
    """520 mixed batches without drafts."""
    assert n_differing(*v1[0], V1) == 0


def test_v1_forgets_drafts_in_min_tokens_of_the_bonus_row(
    v1: dict[int, tuple[Traffic, Answers]],
) -> None:
    """Known fault of V1: stop tokens stay masked where accepted drafts have made up min_tokens.

    That apart it is the reference's in 520 batches with drafts.
    """
    made, answers = v1[MOST_DRAFTS]
    assert n_differing(made, answers, V1) > 0
    as_v1 = replace(made)
    as_v1.steps = {i: [without_drafts(row) for row in rows] for i, rows in made.steps.items()}
    assert n_differing(as_v1, answers, V1) == 0


def without_drafts(row: Row) -> Row:
    """A bonus row whose min_tokens is counted without the drafts before it."""
    params, n_output = row.request.params, len(row.request.output_token_ids)
    if not row.is_last or n_output - row.n_drafts >= params.min_tokens:
        return row
    later = replace(params, min_tokens=params.min_tokens + row.n_drafts)
    return replace(row, request=replace(row.request, params=later))
