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
        own_noise: Whether a token is a function of its seed and position by the noise of
            ``sampler_reference.noise``, so that seeds and single tokens can be checked.
        mass_error: Bound on the error of a cumulative probability in its arithmetic
            (the band at the top-p edge, beyond the reference's own).
        min_p_error: Bound on the error of its min_p threshold, in nats.
        special_values: Whether it states a policy for NaN and +inf logits (see the reference);
            otherwise rows that hold such values do not gate.
        slow: Whether a full row takes seconds here, so that plans must keep rows short.
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

    def draw(
        self,
        batch: Batch,
        seeds: NDArray[np.int64],
        positions: NDArray[np.int64],
        *,
        kernel: bool = False,
    ) -> NDArray[np.int64]:
        """One token of row ``batch.index`` for every (seed, position), ``[n]``.

        ``kernel`` asks a target that has two ways to draw for the one that is not its bulk way.

        Raises:
            TargetError: as ``kept``; also where ``info.draws`` is false.
        """

    def close(self) -> None:
        """Release the engine; the target is not used afterwards."""
