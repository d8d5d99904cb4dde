"""What an engine is (TargetInfo) and what may be asked of it (Target)."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sampler_scenarios.batches import Batch


@dataclass(frozen=True, kw_only=True)
class TargetInfo:
    """What is audited, and what may be asked of it. Every field is plain JSON.

    Attributes:
        name: The target's name on the command line.
        engine: Product and version, ``vllm 0.32.0``.
        device: Where it ran, ``cpu (Triton 3.9.0 interpreter)``.
        path: Which code path this is, and whether this installation would take it by itself.
        convention: Name of the declared entry of ``sampler_reference.conventions.CONVENTIONS``.
        draws: Whether it draws tokens; otherwise it only masks logits, with top_k and top_p.
        own_noise: Whether a token is a function of its seed and position by the noise of its
            convention, so that seeds and single tokens can be checked.
        mass_error: Bound on the error of a cumulative probability in its arithmetic
            (the band at the top-p edge, beyond the reference's own).
        min_p_error: Bound on the error of its min_p threshold, in nats.
        special_values: Whether it states a policy for NaN and +inf logits (see the reference);
            otherwise rows that hold such values do not gate.
        slow: Whether a full row takes seconds here, so that plans must keep rows short.
        stages: The stages before the filters that it has, of ``params.STAGES``.
        stateful: Whether it keeps requests in slots, so that batches may have a past, and a
            ``step`` may be asked for.
        verifies_drafts: Whether batches may have drafts.
        logits_error: Bound on the relative error of its logits after all stages and temperature,
            0 where they are the reference's to the bit; None where it does not show them.
    """

    name: str
    engine: str
    device: str
    path: str
    convention: str
    draws: bool
    own_noise: bool = False
    mass_error: float = 0.0
    min_p_error: float = 0.0
    special_values: bool = False
    slow: bool = False
    stages: tuple[str, ...] = ()
    stateful: bool = False
    verifies_drafts: bool = False
    logits_error: float | None = None


@dataclass(frozen=True, eq=False)
class Listed:
    """The tokens that a reply lists at one position, ``[n]``, the sampled one first.

    ``values`` are float32 log-probs, ``ranks`` int64: how many tokens are at least as likely, -1
    where the engine does not say.
    """

    token_ids: NDArray[np.int64]
    values: NDArray[np.float32]
    ranks: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Stepped:
    """What one step drew: a token of every request, int64 ``[n_requests]``, and its listing."""

    token_ids: NDArray[np.int64]
    listed: tuple[Listed | None, ...]


NOT_REACHED = -2
"""In place of a token: the step rejected a draft before the row that was asked for."""


class Target(Protocol):
    """An engine, as the audit sees it: arrays in, arrays out."""

    @property
    def info(self) -> TargetInfo:
        """What it is."""

    def kept(self, batch: Batch) -> NDArray[np.bool_]:
        """Which tokens survive the filters, ``[batch, vocab_size]``.

        A target that only masks (``info.draws`` is false) ignores temperature and min_p: the
        caller has applied them to the rows.

        Raises:
            TargetError: the engine raised, died, hung or sent nonsense.
        """

    def filtered(self, batch: Batch) -> NDArray[np.float32]:
        """What is drawn from, ``[batch, vocab_size]``: -inf where a token does not survive.

        Raises:
            TargetError: as ``kept``; also where ``info.logits_error`` is None.
        """

    def step(self, batch: Batch, seeds: NDArray[np.int64]) -> Stepped:
        """One step of every request, with a seed for each.

        Raises:
            TargetError: as ``kept``; also where ``info.stateful`` is false.
        """

    def draw(
        self,
        batch: Batch,
        seeds: NDArray[np.int64],
        positions: NDArray[np.int64],
        *,
        kernel: bool = False,
    ) -> NDArray[np.int64]:
        """One token of row ``batch.index`` for every (seed, position), ``[n]``.

        -1 where nothing can be drawn, NOT_REACHED where a draft before the row was rejected. The
        position is that of the request's first row.

        ``kernel`` asks a target that has two ways to draw for the one that is not its bulk way.

        Raises:
            TargetError: as ``kept``; also where ``info.draws`` is false.
        """

    def close(self) -> None:
        """Release the engine; the target is not used afterwards."""
