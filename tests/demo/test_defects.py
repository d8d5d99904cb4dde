"""Every planted defect acts over HTTP, but for those that HIDDEN says cannot, and why.

A scene is a request whose seeded answer a healthy server repeats to the token and the log-prob, and
a server with the defect changes.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from sampler_audit.demo import HIDDEN, RunningServer
from sampler_audit.demo.model import DemoModel
from sampler_audit.errors import UsageError
from sampler_reference.defects import DEFECTS

Start = Callable[..., RunningServer]
Ask = Callable[..., tuple[int, Any]]

# A small vocabulary is quick, and real rows keep their head and its ties in it.
VOCAB_SIZE = 512
MODEL = DemoModel(VOCAB_SIZE)
# Logits 7.0 6.5 6.4 6.1 ..., and the model's ends at ranks 5 and 7.
LAST = (5, 6, 7, 4)
FEW = np.argsort(-MODEL.row(LAST), kind="stable")[:6].tolist()
BEST = FEW[0]
# Logits -0.0 -0.9 -1.0 ...: all of them negative.
NEGATIVE = (5, 6, 7, 3)
RUNNER_UP = int(np.argsort(-MODEL.row(NEGATIVE))[1])
WEATHER = "The weather today is"


@dataclass(frozen=True)
class Scene:
    """A request and how often it is made, what is asked just before it, and who runs beside it."""

    body: Mapping[str, object]
    before: Mapping[str, object] = field(default_factory=dict)
    beside: Mapping[str, object] = field(default_factory=dict)
    n_requests: int = 1

    def with_(self, **fields: object) -> "Scene":
        """The scene with more in its request."""
        return replace(self, body={**self.body, **fields})


REACHABLE = [name for name in DEFECTS if name not in HIDDEN]

FILTERED = Scene(
    {
        "prompt": "My favourite number is",
        "n": 200,
        **{"temperature": 1.3, "top_k": 6, "top_p": 0.8, "min_p": 0.05},
    }
)
MIN_P = FILTERED.with_(temperature=1.5, top_k=0, top_p=0.9, min_p=0.1)
DRAFTED = FILTERED.with_(n=40, max_tokens=3)
TIED = Scene({"prompt": WEATHER, "n": 300, "temperature": 2.0, "top_k": 20})
BEST_IN_PROMPT = Scene({"prompt": [BEST, *LAST], "n": 100})
FEW_TOKENS = Scene(
    {"prompt": [0, *LAST], "n": 40, "max_tokens": 5, "ignore_eos": True, "allowed_token_ids": FEW}
)
ENDS = Scene({"prompt": [0, *LAST], "n": 20, "min_tokens": 1, "allowed_token_ids": [1, 2, BEST]})
LISTED = Scene({"prompt": WEATHER, "n": 8, "temperature": 1.5, "logprobs": 3})
ALONE = Scene({"prompt": [0, *LAST], "n": 1, "max_tokens": 3})
BIASED = {"logit_bias": {str(BEST): 50.0}}

SCENES: dict[str, Scene] = {
    **{name: FILTERED for name in REACHABLE if DEFECTS[name].law is not None},
    **dict.fromkeys(("stride-ignored", "outside-vocabulary", "first-row-seed"), FILTERED),
    **dict.fromkeys(("fixed-seed", "position-ignored"), FILTERED),
    **dict.fromkeys(("min-p-before-temperature", "min-p-last", "min-p-ignored"), MIN_P),
    "min-p-from-first-id": MIN_P,
    **dict.fromkeys(("seed-by-row", "seed-by-batch-position"), FILTERED.with_(n=20)),
    **{name: DRAFTED for name in REACHABLE if DEFECTS[name].stage == "speculative"},
    **dict.fromkeys(("ties-by-chance", "ties-kept", "batch-size-path"), TIED),
    **dict.fromkeys(
        ("order-swapped", "joint-for-sequential", "top-p-unnormalised"),
        TIED.with_(temperature=1, top_k=5, top_p=0.6),
    ),
    "top-p-keeps-nothing": TIED.with_(top_p=0.0005),
    "last-for-first": TIED.with_(top_p=0.01),
    "top-k-off-is-one": TIED.with_(top_k=0),
    "listing-widens-kept": TIED.with_(top_k=2, logprobs=10),
    "temperature-overflows-half": BEST_IN_PROMPT.with_(temperature=1e-4),
    "penalty-counts-prompt": BEST_IN_PROMPT.with_(presence_penalty=2),
    "penalty-twice": BEST_IN_PROMPT.with_(repetition_penalty=0.8),
    "penalty-window-hidden": BEST_IN_PROMPT.with_(repetition_penalty=0.8),
    "repetition-ignores-sign": Scene(
        {"prompt": [RUNNER_UP, *NEGATIVE], "n": 100, "repetition_penalty": 2.0}
    ),
    "penalty-misses-output": FEW_TOKENS.with_(presence_penalty=2),
    "presence-for-frequency": FEW_TOKENS.with_(frequency_penalty=-2),
    "bad-word-matches-prompt": BEST_IN_PROMPT.with_(bad_words=[[LAST[-1], BEST]]),
    "bad-word-ignored-prefix": BEST_IN_PROMPT.with_(bad_words=[[99, BEST]]),
    "allowed-ids-inverted": FEW_TOKENS,
    "min-tokens-off-by-one": ENDS,
    "second-eos-free": ENDS,
    "stop-set-without-eos": ENDS,
    "masked-row-draws-first-id": ENDS.with_(allowed_token_ids=[1]),
    "thinking-budget-ignored": Scene({"prompt": [9, 3, 4], "thinking_token_budget": 0}),
    "drafts-not-counted": DRAFTED.with_(repetition_penalty=0.2),
    "greedy-as-position": ALONE.with_(temperature=0, max_tokens=4),
    "log-probs-of-another-row": LISTED,
    "log-probs-after-temperature": LISTED,
    "sampled-log-prob-lost": LISTED,
    "stale-slot": Scene(ALONE.body, before={**ALONE.body, **BIASED}),
    "swap-copies-both": Scene(ALONE.body, beside=BIASED, n_requests=4),
    "bias-lost-in-mixed-batch": Scene({**ALONE.body, **BIASED}, beside={"seed": 1}, n_requests=4),
    "penalties-of-first-request": Scene(
        FEW_TOKENS.with_(frequency_penalty=2, n=1).body, beside={"seed": 1}, n_requests=8
    ),
    "neighbour-k": Scene(ALONE.body, beside={"top_k": 1}, n_requests=4),
    "seed-lost-in-mixed-batch": Scene(ALONE.body, beside={"top_k": 1}, n_requests=4),
}
"""By the name of the defect that it shows."""


def observed(ask: Ask, server: RunningServer, scene: Scene) -> list[object]:
    """Tokens and log-probs of each choice."""
    found: list[object] = []
    with company(ask, server, scene.beside):
        for i in range(scene.n_requests):
            if scene.before:
                ask(server, "/v1/completions", {"seed": 5, **scene.before})
            body = {"max_tokens": 1, "return_token_ids": True, "seed": 100 * i, **scene.body}
            status, reply = ask(server, "/v1/completions", body)
            assert status == 200, reply
            found += [(choice["token_ids"], choice["logprobs"]) for choice in reply["choices"]]
    return found


@contextmanager
def company(ask: Ask, server: RunningServer, fields: Mapping[str, object]) -> Iterator[None]:
    """A request of one choice that goes on beside others, until the server is closed."""
    if not fields:
        yield
        return
    body = {"prompt": [8, 8, 8], "max_tokens": 4000, "ignore_eos": True, **fields}
    mate = threading.Thread(target=ask, args=(server, "/v1/completions", body))
    mate.start()
    while mate.is_alive() and not server.service.counters.n_running:
        mate.join(0.01)
    try:
        yield
    finally:
        server.service.close()
        mate.join()


@pytest.mark.parametrize("name", REACHABLE)
def test_a_defect_acts(start: Start, ask: Ask, name: str) -> None:
    """And nothing but the defect makes the difference: a second healthy server repeats the first,
    with or without company.
    """  # noqa: D205 - one sentence
    scene, speculative = SCENES[name], DEFECTS[name].stage == "speculative"
    alone = replace(scene, beside={}, before={}, n_requests=scene.n_requests)
    settings = {"speculative": speculative, "vocab_size": VOCAB_SIZE}
    healthy = observed(ask, start(**settings), scene)
    assert observed(ask, start(**settings, seed=2), alone) == healthy
    assert observed(ask, start(**settings, defect=name), scene) != healthy


def test_hidden_and_shown_are_all() -> None:
    """A new defect needs a scene here, or a reason in HIDDEN."""
    assert set(SCENES) == set(REACHABLE)
    assert set(HIDDEN) <= set(DEFECTS)


@pytest.mark.parametrize("name", HIDDEN)
def test_a_hidden_defect_is_refused_with_its_reason(start: Start, name: str) -> None:
    """As a usage error, before anything listens."""
    with pytest.raises(UsageError, match="cannot show over HTTP"):
        start(defect=name)


@pytest.mark.parametrize("when", [None, "top_k", "logit_bias", "top_k+top_p+min_p"])
def test_when_says_where_a_defect_acts(start: Start, ask: Ask, when: str | None) -> None:
    """The request has the four filters on, and no stage."""
    healthy = observed(ask, start(vocab_size=VOCAB_SIZE), FILTERED)
    server = start(vocab_size=VOCAB_SIZE, defect="weakest-dropped", when=when)
    planted = observed(ask, server, FILTERED)
    assert (planted != healthy) == (when != "logit_bias")


@pytest.mark.parametrize("style", ["llama", "openai20"])
def test_defects_act_in_every_style(start: Start, ask: Ask, style: str) -> None:
    """By the rules of the style: llama-server's chain loses its weakest token too."""
    wires: dict[str, tuple[str, dict[str, object]]] = {
        "llama": ("/completion", {"prompt": WEATHER, "return_tokens": True, "n_predict": 1}),
        "openai20": (
            "/v1/chat/completions",
            {"messages": [{"role": "user", "content": WEATHER}], "max_tokens": 1},
        ),
    }
    path, body = wires[style]
    body = {**body, "n": 64, "seed": 3, "temperature": 0.7, "top_p": 0.8}
    replies = [
        ask(start(style=style, vocab_size=VOCAB_SIZE, defect=defect), path, body)
        for defect in (None, "weakest-dropped")
    ]
    assert replies[0][0] == replies[1][0] == 200
    assert replies[0] != replies[1]
