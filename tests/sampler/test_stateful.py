"""Any sequence of add, remove, reorder, recycle, commit and step equals a fresh instance."""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, Verbosity, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    precondition,
    rule,
    run_state_machine_as_test,
)

from sampler_audit.sampler.admission import Limits
from sampler_audit.sampler.batched import BatchedSampler
from sampler_audit.sampler.history import TokenHistory
from sampler_audit.sampler.processors import BatchLogitsProcessor, BatchUpdate, update_rows
from sampler_audit.sampler.stages import TokenCounts
from sampler_audit.sampler.stages.logit_bias import LogitBiasStage
from sampler_reference.conventions import CONVENTIONS
from sampler_reference.processors import process
from sampler_scenarios.requests import ModelConfig, Request

EXAMPLES = "sampler_audit.sampler.processors.examples"
DRY = f"{EXAMPLES}.dry:Dry"
SEED = st.integers(0, 2**32 - 1)
LIMITS = Limits(
    max_allowed_token_ids=40,
    max_logit_bias=8,
    max_stop_token_ids=8,
    max_bad_words_tokens=64,
    max_bad_words=16,
    max_logprobs=-1,
)
Make = Callable[..., Any]


class Sharpen(BatchLogitsProcessor):
    """Batch-level and argmax-invariant: doubles the logits of requests that say so."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._rows: dict[int, bool] = {}

    def is_argmax_invariant(self) -> bool:
        """So that it runs after temperature."""
        return True

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Rows follow their requests."""
        update_rows(
            self._rows,
            batch_update,
            lambda params, _prompt, _out: bool(params.extra_args.get("sharpen")) or None,
        )

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """Twice the logits of these rows."""
        logits[list(self._rows)] *= 2
        return logits


class Machine(RuleBasedStateMachine):
    """A sampler of five slots beside the requests as they should be.

    ``n_steps`` counts the steps that were compared, over all machines.
    """

    n_steps = 0

    def __init__(
        self,
        model: ModelConfig,
        make_request: Make,
        make_scene: Make,
        processors: Sequence[str | type],
        max_drafts: int,
    ) -> None:
        super().__init__()
        self._model, self._make_request, self._make_scene = model, make_request, make_scene
        self._processors, self._max_drafts = processors, max_drafts
        self._sampler = self._build(5)
        self._requests: dict[int, Request] = {}

    def _build(self, max_requests: int) -> BatchedSampler:
        return BatchedSampler(
            self._model,
            path="twin",
            limits=LIMITS,
            processors=self._processors,
            rng=np.random.default_rng(0),
            max_requests=max_requests,
            max_drafts=self._max_drafts,
        )

    @precondition(lambda self: len(self._requests) < 5)
    @rule(seed=SEED, chance=st.sampled_from([0, 0.15, 0.5, 1]))
    def add(self, seed: int, chance: float) -> None:
        """A seeded request; with batch-level processors some of them are asked for too."""
        rng = np.random.default_rng(seed)
        request = self._make_request(rng, chance)
        extra = dict(request.params.extra_args)
        if not self._max_drafts:
            asked = {"end_after": 3, "target_token": int(rng.integers(40)), "sharpen": True}
            extra |= {name: value for name, value in asked.items() if rng.random() < chance / 2}
        listed = int(rng.integers(-1, 4)) if rng.random() < chance else None
        params = replace(request.params, seed=seed, extra_args=extra, logprobs=listed)
        request = replace(request, params=params)
        self._requests[self._sampler.add(request)] = request

    @precondition(lambda self: self._requests)
    @rule(seed=SEED)
    def remove(self, seed: int) -> None:
        """Its slot is the next one to be taken."""
        slot = self._pick(np.random.default_rng(seed))
        self._sampler.remove(slot)
        del self._requests[slot]

    @precondition(lambda self: self._requests)
    @rule(seed=SEED, n=st.integers(0, 3))
    def commit(self, seed: int, n: int) -> None:
        """Any tokens, without a step; they open and close reasoning now and then."""
        rng = np.random.default_rng(seed)
        markers = {0: [10, 11], 1: [12, 13]}
        tokens = markers.get(int(rng.integers(6)), rng.integers(0, 40, n).tolist())
        self._emit(self._pick(rng), tokens)

    @precondition(lambda self: self._requests)
    @rule(seed=SEED, commits=st.booleans())
    def step(self, seed: int, commits: bool) -> None:
        """Some of the requests, in any order of rows."""
        Machine.n_steps += 1
        rng = np.random.default_rng(seed)
        order = rng.permutation(np.array([*self._requests]))
        slots = order[: rng.integers(1, 6)].tolist()
        scene = self._make_scene(rng, [self._requests[slot] for slot in slots], self._max_drafts)
        fresh = self._build(len(slots))
        both = [(self._sampler, slots), (fresh, [fresh.add(r) for r in scene.requests])]
        if not self._max_drafts:
            self._expect_processed_alike(scene, both)
        else:
            self._expect_reference(scene, slots)
        logits = torch.from_numpy(scene.logits)
        ours, theirs = (
            sampler.step(logits, at, scene.drafts, grammar=scene.grammar, want_mask=True)
            for sampler, at in both
        )
        assert ours.token_ids == theirs.token_ids
        assert ours.mask is not None
        assert theirs.mask is not None
        assert torch.equal(ours.mask, theirs.mask)
        assert listings(ours.log_probs) == listings(theirs.log_probs)
        if commits:
            for slot, tokens in zip(slots, ours.token_ids, strict=True):
                # A caller may drop what is behind a stop.
                self._emit(slot, [t for t in tokens if t >= 0][: rng.integers(1, 4)])

    def _expect_reference(self, scene: Any, slots: list[int]) -> None:
        processed = self._sampler.process(
            torch.from_numpy(scene.logits), slots, scene.drafts, grammar=scene.grammar
        )
        for row, request, got in zip(scene.logits, scene.rows, processed.numpy(), strict=True):
            expected = process(row, request, self._model, CONVENTIONS["sampler-audit"])
            np.testing.assert_array_equal(got, expected)

    def _expect_processed_alike(self, scene: Any, both: Any) -> None:
        ours, theirs = (
            sampler.filter(torch.from_numpy(scene.logits), at, grammar=scene.grammar)
            for sampler, at in both
        )
        assert torch.equal(ours, theirs)

    def _emit(self, slot: int, tokens: list[int]) -> None:
        room = self._model.max_model_len - len(self._requests[slot].token_ids) - 1
        self._sampler.commit(slot, tokens[:room])
        self._requests[slot] = self._requests[slot].extended(tokens[:room])

    def _pick(self, rng: np.random.Generator) -> int:
        return int(rng.choice([*self._requests]))


def listings(log_probs: Any) -> list[list[bytes]]:
    """All listings of a step as bytes."""
    return [
        [part.tobytes() for listing in of_request or () for part in vars(listing).values()]
        for of_request in log_probs
    ]


@pytest.fixture
def run(model: ModelConfig, random_request: Make, random_scene: Make) -> Callable[..., int]:
    """Run so many sequences of up to 40 calls, always the same; how many of them are steps."""

    def run(kind: str, n_sequences: int, **options: Any) -> int:
        before = Machine.n_steps
        # Batch-level processors take row i for request i, and so know no drafts.
        processors = [DRY]
        if kind == "batch-level":
            processors += [f"{EXAMPLES}.end_after:EndAfter", f"{EXAMPLES}.target_token:TargetToken"]

        class Configured(Machine):
            def __init__(self) -> None:
                super().__init__(
                    model,
                    random_request,
                    random_scene,
                    processors if kind == "drafts" else [*processors, Sharpen],
                    2 if kind == "drafts" else 0,
                )

        run_state_machine_as_test(
            Configured,
            settings=settings(
                max_examples=n_sequences,
                stateful_step_count=40,
                derandomize=True,
                deadline=None,
                suppress_health_check=[*HealthCheck],
                **options,
            ),
        )
        return Machine.n_steps - before

    return run


KINDS = ["drafts", "batch-level"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_sequence_equals_a_fresh_instance(kind: str, run: Callable[..., int]) -> None:
    """Tokens, masks, listings and logits of every step; with drafts the reference's logits too."""
    assert run(kind, 40) > 150


@pytest.mark.slow
@pytest.mark.skipif(
    "SAMPLER_AUDIT_LONG" not in os.environ, reason="by hand, with SAMPLER_AUDIT_LONG=1 (minutes)"
)
@pytest.mark.parametrize("kind", KINDS)
def test_ten_thousand_steps_equal_a_fresh_instance(kind: str, run: Callable[..., int]) -> None:
    """The test above, 5,000 steps of each kind or more."""
    assert run(kind, 1200) >= 5000


def forget(*_: object) -> None:
    """Nothing is written."""


def keep_stale_bias(stage: LogitBiasStage, slot: int, request: Request) -> bool:
    """The slot's last bias stays where the new request has none."""
    return write_bias(stage, slot, request) if request.params.logit_bias else stage._asked[slot]


write_bias = LogitBiasStage._write


@pytest.mark.parametrize(
    ("owner", "method", "wrong"),
    [
        (LogitBiasStage, "_write", keep_stale_bias),
        (TokenHistory, "commit", forget),
        (TokenCounts, "commit", forget),
    ],
)
def test_faults_of_the_state_are_noticed(
    owner: type, method: str, wrong: Any, run: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Power twin: a stale slot, an output that is not remembered, one that is not counted."""
    monkeypatch.setattr(owner, method, wrong)
    with pytest.raises(AssertionError):
        run("drafts", 40, phases=[Phase.generate], verbosity=Verbosity.quiet)
