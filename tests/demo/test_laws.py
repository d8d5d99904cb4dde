"""What a healthy server draws, against the reference; and the same with a defect, which must fail.

Each test takes the smallest of a few chi-square p-values and passes above ALPHA: with at most four
of them a healthy server fails one with chance 4e-6. Seeds are literal.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from sampler_audit.demo import STYLES, RunningServer
from sampler_audit.demo.model import DemoModel
from sampler_reference.distribution import reference_distribution
from sampler_reference.processors import process
from sampler_scenarios.params import SamplingParams
from sampler_scenarios.requests import Request

Start = Callable[..., RunningServer]
Ask = Callable[..., tuple[int, Any]]

ALPHA = 1e-6
MODEL = DemoModel()
TEXT = "She opened the door and saw"
PROMPT = MODEL.tokenizer.encode(TEXT)

FILTERS: tuple[dict[str, float], ...] = (
    {},
    {"temperature": 0.6},
    {"top_k": 20, "top_p": 0.95, "min_p": 0.05},
    {"temperature": 1.5, "top_k": 12, "top_p": 0.8, "min_p": 0.02},
)


def pvalue(
    token_ids: Iterable[int], request: Request, style: str = "vllm", model: DemoModel = MODEL
) -> float:
    """Of draws after a request's tokens; 0 where one fell outside the support."""
    conventions = STYLES[style].conventions
    row = process(model.row(request.token_ids), request, model.config, conventions)
    probs = reference_distribution(row, request.params, conventions).probs
    counts = Counter(token_ids)
    if any(probs[token_id] == 0 for token_id in counts):
        return 0.0
    n = counts.total()
    bins: list[tuple[int, float]] = []
    rest: tuple[int, float] = (0, 0.0)
    for token_id in np.flatnonzero(probs).tolist():
        here = counts[token_id], n * float(probs[token_id])
        if here[1] >= 10:
            bins.append(here)
        else:
            rest = rest[0] + here[0], rest[1] + here[1]
    if rest[1] >= 10:
        bins.append(rest)
    elif rest[1]:
        bins[0] = bins[0][0] + rest[0], bins[0][1] + rest[1]
    observed, expected = np.array(bins).T
    return float(chisquare(observed, expected * n / expected.sum()).pvalue) if len(bins) > 1 else 1


def drawn(
    ask: Ask, server: RunningServer, body: Mapping[str, object], n: int, max_tokens: int = 1
) -> list[tuple[int, ...]]:
    """The tokens of n choices after PROMPT, or after the prompt of ``body``, seeded from 7."""
    wires: dict[str, tuple[str, dict[str, object]]] = {
        "vllm": ("/v1/completions", {"prompt": list(PROMPT), "return_token_ids": True}),
        "llama": ("/completion", {"prompt": list(PROMPT), "return_tokens": True}),
        "openai20": ("/v1/chat/completions", {"messages": [{"role": "user", "content": TEXT}]}),
    }
    path, extra = wires[server.service.style.name]
    length = "n_predict" if path == "/completion" else "max_tokens"
    most = min(n, server.service.style.most_choices)
    found: list[tuple[int, ...]] = []
    while len(found) < n:
        sent = {**extra, **body, "n": most, "seed": 7 + len(found), length: max_tokens}
        status, reply = ask(server, path, sent)
        assert status == 200, reply
        found += map(_ids, reply if isinstance(reply, list) else reply["choices"])
    return found


def _ids(choice: dict[str, Any]) -> tuple[int, ...]:
    if "message" in choice:
        return MODEL.tokenizer.encode(choice["message"]["content"])
    return tuple(choice.get("tokens") or choice["token_ids"])


NEUTRAL = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}
"""What llama-server must be told where nothing is asked for: it has defaults of its own."""


@pytest.mark.parametrize("style", ["vllm", "llama"])
@pytest.mark.parametrize("filters", FILTERS, ids=str)
def test_first_tokens(start: Start, ask: Ask, style: str, filters: dict[str, float]) -> None:
    """Each style by its own order of the filters."""
    tokens = drawn(ask, start(style=style), {**NEUTRAL, **filters}, 1280)
    request = Request(SamplingParams(**filters), PROMPT)  # type: ignore[arg-type]  # a mixed dict
    assert pvalue((t for (t,) in tokens), request, style) > ALPHA


def test_first_tokens_of_a_chat(start: Start, ask: Ask) -> None:
    """The two filters that OpenAI's API has; tokens come as text."""
    tokens = drawn(ask, start(style="openai20"), {"temperature": 0.6, "top_p": 0.8}, 1280)
    request = Request(SamplingParams(temperature=0.6, top_p=0.8), PROMPT)
    assert pvalue((t for (t,) in tokens), request) > ALPHA


def test_llama_divides_by_the_temperature_last(start: Start, ask: Ask) -> None:
    """Its draws do not fit the order of the other styles: the twin of the test above."""
    filters = FILTERS[-1]
    tokens = drawn(ask, start(style="llama"), filters, 1280)
    request = Request(SamplingParams(**filters), PROMPT)  # type: ignore[arg-type]  # a mixed dict
    assert pvalue((t for (t,) in tokens), request, "vllm") < ALPHA


@pytest.mark.parametrize(
    ("defect", "filters"),
    [
        ("temperature-ignored", FILTERS[1]),
        ("weakest-dropped", FILTERS[2]),
        ("top-k-plus-one", {"top_k": 3}),
    ],
)
def test_first_tokens_of_a_defect(
    start: Start, ask: Ask, defect: str, filters: dict[str, float]
) -> None:
    """The power twin: 1280 draws tell each of these."""
    tokens = drawn(ask, start(defect=defect), filters, 1280)
    request = Request(SamplingParams(**filters), PROMPT)  # type: ignore[arg-type]  # a mixed dict
    assert pvalue((t for (t,) in tokens), request) < ALPHA


# Verifying drafts costs time in proportion to the vocabulary. After SMALL_PROMPT the likeliest
# tokens of the small model have .12 .07 .06 .05 .05, and logits around 6.5, and the model's two
# ends have ranks 5 and 7.
SMALL = DemoModel(512)
SMALL_PROMPT = (5, 6, 7, 4)
BEST, SECOND, THIRD = np.argsort(-SMALL.row(SMALL_PROMPT), kind="stable")[:3].tolist()
IN_PROMPT = (BEST, *SMALL_PROMPT)

STAGES = (
    SamplingParams(logit_bias={BEST: -2.0, THIRD: 1.5}),
    SamplingParams(allowed_token_ids=(SECOND, THIRD, 17)),
    SamplingParams(bad_words=((BEST,), (SECOND, THIRD))),
    SamplingParams(min_tokens=1, max_tokens=1, stop_token_ids=(SECOND,)),
    SamplingParams(repetition_penalty=0.85, frequency_penalty=1.0, presence_penalty=0.7),
)


def pvalue_of_stages(ask: Ask, server: RunningServer, params: SamplingParams) -> float:
    """Of 1280 draws after a prompt that holds the likeliest token."""
    body = {name: getattr(params, name) for name in (*params.stages, "stop_token_ids")}
    tokens = drawn(ask, server, {**body, "prompt": list(IN_PROMPT)}, 1280)
    return pvalue((t for (t,) in tokens), Request(params, IN_PROMPT), model=SMALL)


@pytest.mark.parametrize("params", STAGES, ids=lambda params: "+".join(params.stages))
def test_stages(start: Start, ask: Ask, params: SamplingParams) -> None:
    """Each by itself, and the penalties together, of which repetition alone sees the prompt."""
    assert pvalue_of_stages(ask, start(vocab_size=512), params) > ALPHA


@pytest.mark.parametrize(
    ("defect", "params"),
    [
        ("allowed-ids-inverted", STAGES[1]),
        ("bad-word-ignored-prefix", STAGES[2]),
        ("second-eos-free", STAGES[3]),
        ("penalty-twice", STAGES[4]),
    ],
)
def test_stages_of_a_defect(start: Start, ask: Ask, defect: str, params: SamplingParams) -> None:
    """The power twin."""
    assert pvalue_of_stages(ask, start(vocab_size=512, defect=defect), params) < ALPHA


# The first token after it is one of four, of .52 .21 .19 .08 at this temperature.
LATER_PROMPT = (5, 6, 7, 3)
LATER = SamplingParams(temperature=0.8, top_k=4, frequency_penalty=1.0, presence_penalty=0.5)


def later_pvalue(ask: Ask, server: RunningServer, n_tokens: int) -> float:
    """The smallest of the last of ``n_tokens`` tokens, given each of the two commonest runs before
    it; of 800 choices.
    """  # noqa: D205 - one sentence
    body = {name: getattr(LATER, name) for name in (*LATER.combo, *LATER.stages)}
    choices = drawn(ask, server, {**body, "prompt": list(LATER_PROMPT)}, 800, n_tokens)
    whole = [choice for choice in choices if len(choice) == n_tokens]
    before = Counter(choice[:-1] for choice in whole).most_common(2)
    return min(
        pvalue(
            [choice[-1] for choice in whole if choice[:-1] == run],
            Request(LATER, LATER_PROMPT, run),
            model=SMALL,
        )
        for run, _ in before
    )


@pytest.mark.parametrize("n_tokens", [2, 3])
@pytest.mark.parametrize("speculative", [False, True])
def test_later_tokens(start: Start, ask: Ask, speculative: bool, n_tokens: int) -> None:
    """Drawn plainly, or by verifying a draft: the second token is then what became of it, and the
    third is often the one after it. Earlier tokens count as output.
    """  # noqa: D205 - one sentence
    server = start(vocab_size=512, speculative=speculative)
    assert later_pvalue(ask, server, n_tokens) > ALPHA
    assert (server.service.counters[0] > 0) == speculative


@pytest.mark.parametrize(
    ("defect", "n_tokens"),
    [("filter-skipped-at-drafts", 2), ("residual-not-renormalised", 2), ("bonus-unfiltered", 3)],
)
def test_later_tokens_of_a_defect(start: Start, ask: Ask, defect: str, n_tokens: int) -> None:
    """The power twin."""
    server = start(vocab_size=512, speculative=True, defect=defect)
    assert later_pvalue(ask, server, n_tokens) < ALPHA
