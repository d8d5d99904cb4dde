"""BatchedSampler: requests in slots, and a step for those that the caller names, in any order.

It knows neither a model nor a scheduler: logits come in, tokens go out, and the caller says which
of them were emitted.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch

import sampler_kernels as kernels
from sampler_audit.sampler.admission import Limits, RequestRefused, admit
from sampler_audit.sampler.draw import Draw, DrawPath
from sampler_audit.sampler.filters import Filters
from sampler_audit.sampler.history import TokenHistory
from sampler_audit.sampler.launches import Launches
from sampler_audit.sampler.layout import Layout
from sampler_audit.sampler.log_probs import LogProbs, LogProbsMode, TokenLogProbs
from sampler_audit.sampler.logits import StepLogits
from sampler_audit.sampler.pipeline import Path
from sampler_audit.sampler.prompt_log_probs import Prompts
from sampler_audit.sampler.slots import Slots
from sampler_audit.sampler.speculative import Verifier
from sampler_audit.sampler.stages import (
    Grammar,
    GrammarStage,
    ProcessorStage,
    StepInput,
    Surroundings,
    TokenCounts,
    build_stages,
    check_grammar,
)
from sampler_audit.sampler.step import Step
from sampler_audit.sampler.trace import Traces
from sampler_reference.conventions import CONVENTIONS, Conventions, refusal
from sampler_scenarios.requests import ModelConfig, Request

DEFAULT_LIMITS = Limits()


class SlotState(Protocol):
    """Whatever is kept for every slot."""

    def add(self, slot: int, request: Request, /) -> object:
        """Rewrite all that the slot holds."""


class BatchedSampler:
    """A sampler with state, of the conventions that it is given.

    A request's tokens depend on its own logits, history, parameters and seed: not on the slot, the
    row, or who else is in the batch. Rows of one request stand together: 1, and 1 for each draft.
    ``rng`` gives seeds to requests without one. ``draw_path`` "masked" rules the fused path out.
    """

    def __init__(
        self,
        model: ModelConfig,
        *,
        path: Path = "kernel",
        conventions: Conventions = CONVENTIONS["sampler-audit"],
        limits: Limits = DEFAULT_LIMITS,
        processors: Sequence[str | type] = (),
        rng: np.random.Generator,
        max_requests: int = 64,
        max_drafts: int = 0,
        log_probs_mode: LogProbsMode = "raw_logprobs",
        device: torch.device | str = "cpu",
        draw_path: DrawPath = "fused",
        verify_method: kernels.VerifyMethod = "standard",
    ) -> None:
        device, launches = torch.device(device), Launches(path)
        self._max_drafts = max_drafts
        self._launches = launches
        self._slots = Slots(max_requests)
        self._history = TokenHistory(max_requests, model.max_model_len, device, launches)
        around = Surroundings(
            model=model,
            conventions=conventions,
            limits=limits,
            n_slots=max_requests,
            device=device,
            launches=launches,
            history=self._history,
        )
        self._around = around
        self._processors = ProcessorStage(around, processors, max_drafts)
        self._counts = TokenCounts(around)
        self._grammar = GrammarStage(around)
        self._stages = build_stages(around, self._processors, self._counts)
        self._filters = Filters(around)
        self._draw = Draw(around, self._filters, draw_path, rng)
        self._verifier = Verifier(launches, self._draw, verify_method)
        self._log_probs = LogProbs(launches, log_probs_mode)
        self._prompts = Prompts(log_probs_mode, path)
        self._traces = Traces(self._history)
        # Custom processors come first: they alone may raise, and the slot is not yet taken.
        self._states: tuple[SlotState, ...] = (
            self._processors,
            *(stage for stage in self._stages if stage is not self._processors),
            *(self._history, self._counts, self._filters, self._draw),
            *(self._log_probs, self._prompts, self._traces),
        )

    def add(self, request: Request) -> int:
        """The slot that holds the request from now on; what it has emitted counts as output.

        Raises:
            RequestRefused: its parameters cannot be served here, or all slots are taken.
        """
        around = self._around
        admit(
            request,
            around.model,
            around.limits,
            speculative=self._max_drafts > 0,
            processors=[self._processors],
            processing=around.conventions.processing,
        )
        if reason := refusal(request.params, around.conventions):
            raise RequestRefused(reason)
        slot = self._slots.next
        if slot is None:
            raise RequestRefused(
                f"max_requests={around.n_slots} requests fit at a time, got one more; remove one"
            )
        for state in self._states:
            state.add(slot, request)
        return self._slots.take()

    def prompt_log_probs(self, slot: int, logits: torch.Tensor) -> tuple[TokenLogProbs | None, ...]:
        """Take the logits of the prompt's next rows; the listings of its tokens so far.

        ``logits`` are ``[n, vocab_size]``, any n: how a prompt is cut changes no bit. Row i scores
        token i + 1, so that the first token has no listing.

        Raises:
            KeyError: no request holds the slot.
            ValueError: the request asked for none, or more rows than the prompt has tokens.
        """
        self._slots.require([slot])
        return self._prompts.take(slot, logits)

    def remove(self, slot: int) -> None:
        """The request has ended, and its slot may be taken again.

        Raises:
            KeyError: no request holds the slot.
        """
        self._slots.give_back(slot)
        self._processors.remove(slot)

    def commit(self, slot: int, token_ids: Sequence[int]) -> None:
        """The request has emitted these tokens, whatever a step drew.

        Raises:
            KeyError: no request holds the slot.
            ValueError: a token outside the vocabulary, or more than max_model_len leaves room for.
        """
        self._slots.require([slot])
        model = self._around.model
        if outside := [t for t in token_ids if not 0 <= t < model.vocab_size]:
            raise ValueError(
                f"token_ids must be in [0, {model.vocab_size}), got {outside[0]}; commit only "
                "tokens that the request has emitted"
            )
        room = model.max_model_len - self._history.length(slot)
        if len(token_ids) > room:
            raise ValueError(
                f"token_ids must be at most the {room} that max_model_len={model.max_model_len} "
                f"leaves room for, got {len(token_ids)}; remove the request"
            )
        for state in (self._history, self._counts, self._processors):
            state.commit(slot, token_ids)

    def process(
        self,
        logits: torch.Tensor,
        slots: Sequence[int],
        drafts: Sequence[Sequence[int]] = (),
        *,
        grammar: Grammar = None,
    ) -> torch.Tensor:
        """What reaches temperature and the filters, float32 ``[n_rows, vocab_size]``.

        The caller's own tensor where no stage acts; it is never changed. Arguments as in ``step``.
        """
        step = self._begin(logits, slots, drafts, grammar)
        return self._processed(logits, step).tensor.float()

    def filter(
        self,
        logits: torch.Tensor,
        slots: Sequence[int],
        drafts: Sequence[Sequence[int]] = (),
        *,
        grammar: Grammar = None,
    ) -> torch.Tensor:
        """What is drawn from, float32 ``[n_rows, vocab_size]``: -inf where filtered out.

        Of a greedy request one token is left. Arguments as in ``step``.
        """
        step = self._begin(logits, slots, drafts, grammar)
        x = self._processed(logits, step)
        self._filter(x, step)
        self._filters.cut_greedy(x, step.layout)
        return x.tensor.float()

    def step(
        self,
        logits: torch.Tensor,
        slots: Sequence[int],
        drafts: Sequence[Sequence[int]] = (),
        draft_logits: torch.Tensor | None = None,
        *,
        grammar: Grammar = None,
        want_mask: bool = False,
    ) -> Step:
        """A token of every request, or the verification of its drafts. Nothing is committed.

        Args:
            logits: ``[n_rows, vocab_size]`` float32, bfloat16 or float16; not changed.
            slots: The requests, each once, in the order of their rows.
            drafts: For each request its draft tokens; -1 is a placeholder that is never accepted.
            draft_logits: float32 ``[n_requests, most drafts, vocab_size]``, what each draft was
                drawn from; None where drafts were not drawn, such as an n-gram's.
            grammar: For each row the tokens that its grammar allows, or None.
            want_mask: Return the kept set of each row.

        Raises:
            KeyError: no request holds one of the slots.
            ValueError: slots, drafts, grammar and logits do not fit together.
        """
        self._launches.take()
        step = self._begin(logits, slots, drafts, grammar)
        layout, listing = step.layout, self._log_probs.asked(step.layout)
        x = self._processed(logits, step)
        processed_listing = listing and self._log_probs.processed
        obstacle = self._draw.fused_obstacle(layout, processed_log_probs=processed_listing)
        listed = None
        if obstacle is None:
            self._filters.divide(x, layout)
            self._after_temperature(x, step)
            drawn = self._draw.fused(x.tensor, layout, want_mask=want_mask)
        else:
            self._filter(x, step)
            listed = x.share() if processed_listing else None
            self._filters.cut_greedy(x, layout)
            if layout.max_drafts:
                drawn = self._verifier.verify(x.tensor, layout, draft_logits, want_mask=want_mask)
            else:
                drawn = self._draw.masked(x.tensor, layout, want_mask=want_mask)
        token_ids = self._traces.replay(slots, drawn.token_ids)
        if listing and listed is None:
            listed = self._raw(logits, step)
        log_probs = self._log_probs.of_step(listed, layout, token_ids)
        return Step(
            token_ids=token_ids,
            log_probs=log_probs,
            mask=drawn.mask,
            fused_obstacle=obstacle,
            launches=self._launches.take(),
        )

    def _begin(
        self,
        logits: torch.Tensor,
        slots: Sequence[int],
        drafts: Sequence[Sequence[int]],
        grammar: Grammar,
    ) -> StepInput:
        self._slots.require(slots)
        total_len = self._history.total_len.host
        layout = Layout(slots, drafts, total_len, self._around.device, self._launches)
        if layout.max_drafts > self._max_drafts:
            raise ValueError(
                f"drafts must be at most max_drafts={self._max_drafts} a request, "
                f"got {layout.max_drafts}"
            )
        expected = (layout.n_rows, self._around.model.vocab_size)
        if tuple(logits.shape) != expected:
            raise ValueError(
                f"logits must be [1 row a request and 1 a draft, vocab_size], {list(expected)}, "
                f"got {list(logits.shape)}"
            )
        check_grammar(grammar, layout, self._around.model.vocab_size)
        conventions = self._around.conventions
        if "grammar" not in conventions.processing and any(m is not None for m in grammar or ()):
            raise ValueError(f"grammar must be None: {conventions.name} has no grammar, got a mask")
        return StepInput(layout, grammar, self._history)

    def _processed(self, logits: torch.Tensor, step: StepInput) -> StepLogits:
        """The logits after every stage that some row of the step asks for."""
        x = StepLogits(logits, self._launches)
        for stage in self._stages:
            if stage.acts(step):
                stage.apply(x, step)
        return x

    def _raw(self, logits: torch.Tensor, step: StepInput) -> torch.Tensor:
        """The logits as a model under a grammar gives them."""
        x = StepLogits(logits, self._launches)
        if self._grammar.acts(step):
            self._grammar.apply(x, step)
        return x.tensor

    def _filter(self, x: StepLogits, step: StepInput) -> None:
        self._filters.apply(x, step.layout, lambda y: self._after_temperature(y, step))

    def _after_temperature(self, x: StepLogits, step: StepInput) -> None:
        self._processors.apply_after_temperature(x, step)
