"""Kept set: exactly the tokens that the declared convention keeps, or a stated rounding band.

Deterministic and outside the run's alpha: it fails by fact. Conventions gate as declared, one for
all rows; another convention that would allow the set is named, and changes no verdict.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sampler_audit.results import KeptSet, LadderStep
from sampler_reference.conventions import CONVENTIONS, Conventions
from sampler_reference.distribution import scaled
from sampler_reference.kept_sets import Judgement, judge_kept
from sampler_scenarios.params import SamplingParams

DESCRIPTION = "the kept tokens are exactly those of the reference"

_SHOWN = 8


def judge(
    mask: NDArray[np.bool_],
    logits: NDArray[np.float32],
    params: SamplingParams,
    conventions: Conventions,
    *,
    mass_error: float,
    min_p_error: float,
    gates: bool = True,
) -> tuple[KeptSet, Judgement]:
    """The verdict on the kept tokens ``mask`` ``[vocab_size]`` of one row, and its raw material.

    ``gates`` is false for a row with NaN or +inf of a target that declares no policy for them:
    a deviation is then UNGATED.
    """
    found = judge_kept(mask, logits, params, conventions, mass_error, min_p_error)
    failed = found.verdict == "FAIL"
    kept_set = KeptSet(
        verdict="UNGATED" if failed and not gates else found.verdict,
        n_kept=int(mask.sum()),
        n_expected=found.n_expected,
        n_lost=found.lost.size,
        n_gained=found.gained.size,
        lost_mass=found.lost_mass,
        gained_mass=found.gained_mass,
        lost=tuple(found.lost[:_SHOWN].tolist()),
        gained=tuple(found.gained[:_SHOWN].tolist()),
        rule=found.rule,
        also_allowed_by=_other_conventions(
            mask, logits, params, conventions, mass_error, min_p_error
        )
        if failed
        else (),
    )
    return kept_set, found


def repeated(kept: KeptSet, mask: NDArray[np.bool_], again: NDArray[np.bool_]) -> KeptSet:
    """The verdict after a second call with the same batch: a kept set that changes is wrong."""
    n_changed = int((mask != again).sum())
    if not n_changed:
        return kept
    rule = f"the kept set changes from call to call, by {n_changed} tokens"
    return replace(kept, verdict="FAIL", rule=f"{rule}; {kept.rule}" if kept.rule else rule)


def _other_conventions(
    mask: NDArray[np.bool_],
    logits: NDArray[np.float32],
    params: SamplingParams,
    declared: Conventions,
    mass_error: float,
    min_p_error: float,
) -> tuple[str, ...]:
    return tuple(
        name
        for name, other in CONVENTIONS.items()
        if other.name != declared.name
        and judge_kept(mask, logits, params, other, mass_error, min_p_error).verdict != "FAIL"
    )


def ladder(
    mask: NDArray[np.bool_],
    probs: NDArray[np.float64],
    logits: NDArray[np.float32],
    found: Judgement,
) -> tuple[LadderStep, ...]:
    """The likeliest tokens of the reference, and those that were lost or gained.

    ``observed`` is the token's share of the weight that the engine kept: what it would draw.
    """
    shares = np.zeros_like(probs)
    z = scaled(logits, 1).astype(np.float64)
    # An engine may keep what a stage should have masked, which weighs nothing that is known here.
    weighed = mask & (z > -np.inf)
    if weighed.any():
        shares[weighed] = np.exp(z[weighed] - z[weighed].max())
        shares /= shares.sum()
    likeliest = np.argsort(-np.maximum(probs, shares), kind="stable")[:_SHOWN]
    shown = dict.fromkeys([*likeliest.tolist(), *found.lost[:4].tolist(), *found.gained[:4]])
    notes = {int(t): "lost" for t in found.lost} | {int(t): "gained" for t in found.gained}
    return tuple(
        LadderStep(
            token=int(token),
            logit=float(logits[token]),
            expected=float(probs[token]),
            observed=float(shares[token]),
            low=float(probs[token]),
            high=float(probs[token]),
            note=notes.get(int(token), ""),
        )
        for token in shown
        if mask[token] or probs[token] > 0
    )
