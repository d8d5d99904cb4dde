"""Trace replay: tokens that replace what is drawn, for debugging."""

from collections.abc import Sequence

from sampler_audit.sampler.history import TokenHistory
from sampler_scenarios.requests import Request


class Traces:
    """The trace of every slot that has one. Its token i is emitted as output token i."""

    def __init__(self, history: TokenHistory) -> None:
        self._history = history
        self._traces: dict[int, tuple[int, ...]] = {}

    def add(self, slot: int, request: Request) -> None:
        """Rewrite all that the slot holds."""
        self._traces[slot] = request.params.trace_token_ids or ()

    def replay(
        self, slots: Sequence[int], token_ids: Sequence[tuple[int, ...]]
    ) -> tuple[tuple[int, ...], ...]:
        """Each request's token, or what its trace has for this step. Traced ones have no drafts."""
        return tuple(
            (traced,) if (traced := self._next(slot)) is not None else drawn
            for slot, drawn in zip(slots, token_ids, strict=True)
        )

    def _next(self, slot: int) -> int | None:
        trace = self._traces[slot]
        n_emitted = int(self._history.total_len.host[slot] - self._history.prompt_len.host[slot])
        return trace[n_emitted] if n_emitted < len(trace) else None
