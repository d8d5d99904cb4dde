"""The protocol of rows and steps: every row of a batch against the reference, then seeded steps.

Only for a target that shows its logits, and steps only for one with state. Asks the engine; what
the answers mean is up to the checks.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sampler_audit.checks import log_probs, logits, noise
from sampler_audit.draws import Stepped, Target
from sampler_audit.plan import draw_seeds
from sampler_audit.results import CheckResult
from sampler_reference.conventions import Conventions, effective_temperature
from sampler_reference.distribution import scaled
from sampler_reference.log_probs import list_tokens, values_of
from sampler_reference.noise import ACCEPTANCE, DRAFT, RESIDUAL, accepts, race, uniforms
from sampler_reference.processors import process
from sampler_reference.speculative import residual
from sampler_scenarios.batches import Batch

_ROUNDING = 1e-5
"""Relative error of a probability ratio in float32, with room."""

_STEPS = 1
"""Steps, each with other seeds; every request's token is checked in every one."""


def expected_row(batch: Batch, i: int, conventions: Conventions) -> NDArray[np.float32]:
    """Row i as it reaches the filters, ``[vocab_size]``: every stage of its request has acted."""
    request = batch.rows[i]
    row: NDArray[np.float32] = batch.logits[i]
    if request.combo == request.params.combo:
        return row
    return process(row, request, batch.model, conventions)


def check_rows(
    filtered: NDArray[np.float32],
    batch: Batch,
    rows: Sequence[int],
    conventions: Conventions,
    *,
    error: float,
) -> CheckResult:
    """The logits of ``rows``, which the engine shows after all stages, temperature and filters."""
    for i in rows:
        temperature = effective_temperature(batch.rows[i].params.temperature, conventions)
        expected = scaled(expected_row(batch, i, conventions), temperature)
        found = logits.check(filtered[i], expected, error=error)
        if found.outcome != "pass":
            return found
    return found


def check_steps(
    batch: Batch,
    filtered: NDArray[np.float32],
    target: Target,
    conventions: Conventions,
    *,
    noise_name: str,
    seed: int,
    cell_id: str,
) -> list[CheckResult]:
    """Tokens and listings of every request of the batch, each step with seeds of its own.

    ``noise_name`` is empty for a target whose tokens are no known function of seed and position.

    Raises:
        TargetError: the engine raised, died, hung or sent nonsense.
    """
    n = len(batch.requests)
    drawn = draw_seeds(seed, f"{cell_id}/steps", _STEPS * n).reshape(_STEPS, n)
    steps = [target.step(batch, seeds) for seeds in drawn]
    return [
        _tokens(batch, filtered, steps, drawn, noise_name),
        *(_listings(batch, step, conventions) for step in steps[:1]),
    ]


def check_verified(
    batch: Batch,
    filtered: NDArray[np.float32],
    tokens: NDArray[np.int64],
    seeds: NDArray[np.int64],
    positions: NDArray[np.int64],
) -> CheckResult:
    """Each token of the first row is the drawn draft or its replacement, as the noise has it.

    Where the uniform is so near its edge that rounding may decide, either is right.
    """
    assert batch.draft_logits is not None
    z_draft = batch.draft_logits[0].astype(np.float64)
    p = _softmax(filtered[batch.index].astype(np.float64))
    q = _softmax(z_draft)
    drafts = race(z_draft, seeds, positions, domain=DRAFT)
    u = uniforms(seeds, positions, np.array([0]), ACCEPTANCE)[:, 0]
    edge = p[drafts] - u * q[drafts]
    unsure = np.abs(edge) <= _ROUNDING * np.maximum(p[drafts], q[drafts])
    with np.errstate(divide="ignore"):
        left = np.log(residual(p, q))
    replaced = accepts(tokens, left, seeds, positions, domain=RESIDUAL)
    right = np.where(edge > 0, tokens == drafts, replaced)
    wrong = np.flatnonzero(~(right | unsure))
    if not wrong.size:
        return CheckResult(check="noise", outcome="pass")
    at = int(wrong[0])
    reason = (
        f"{wrong.size} of {tokens.size} verified tokens are not those of their noise; seed"
        f" {seeds[at]}, position {positions[at]}, draft {drafts[at]} gave {tokens[at]}"
    )
    return CheckResult(check="noise", outcome="fail", reason=reason)


def _softmax(z: NDArray[np.float64]) -> NDArray[np.float64]:
    weights = np.exp(z - z.max())
    probs: NDArray[np.float64] = weights / weights.sum()
    return probs


def _tokens(
    batch: Batch,
    filtered: NDArray[np.float32],
    steps: Sequence[Stepped],
    drawn: NDArray[np.int64],
    noise_name: str,
) -> CheckResult:
    """Every token is the one that the request's own seed and position pick from its own row.

    Without noise that is known: it is one of those that are left in its own row.
    """
    if not noise_name:
        return _inside(batch, filtered, steps)
    for step, seeds in zip(steps, drawn, strict=True):
        for i, row in enumerate(_first_rows(batch)):
            at = seeds[i : i + 1], np.array([batch.requests[i].position])
            z = filtered[row].astype(np.float64)
            token, source = step.token_ids[i : i + 1], f"step, request {i}"
            drafts = batch.drafts[i] if batch.drafts else ()
            if drafts and _accepted(z, drafts[0], *at) is not False:
                # Near its edge the uniform may settle it either way.
                if token[0] == drafts[0] or _accepted(z, drafts[0], *at) is None:
                    continue
                reason = f"{source}: draft {drafts[0]} is accepted, but {token[0]} was emitted"
                return CheckResult(check="seeds", outcome="fail", reason=reason)
            if drafts:
                z[drafts[0]] = -np.inf
                found = noise.check(token, z, *at, domain=RESIDUAL, source=source)
            else:
                found = noise.check(token, z, *at, noise_name=noise_name, source=source)
            if found.outcome != "pass":
                return CheckResult(check="seeds", outcome=found.outcome, reason=found.reason)
    return CheckResult(check="seeds", outcome="pass")


def _first_rows(batch: Batch) -> list[int]:
    """The first row of every request: later ones follow its drafts."""
    return [row for row, (_, after) in enumerate(batch.owners) if after == 0]


def _accepted(
    z: NDArray[np.float64], draft: int, seeds: NDArray[np.int64], positions: NDArray[np.int64]
) -> bool | None:
    """Whether a draft that counts as certain is accepted; None where rounding may decide."""
    p = _softmax(z)[draft]
    u = uniforms(seeds, positions, np.array([0]), ACCEPTANCE)[0, 0]
    return None if abs(p - u) <= _ROUNDING * max(p, u) else bool(u < p)


def _inside(batch: Batch, filtered: NDArray[np.float32], steps: Sequence[Stepped]) -> CheckResult:
    rows = _first_rows(batch)
    for step in steps:
        for i, token in enumerate(step.token_ids.tolist()):
            if not 0 <= token < filtered.shape[1] or np.isneginf(filtered[rows[i], token]):
                reason = f"step, request {i} drew {token}, which its row does not keep"
                return CheckResult(check="seeds", outcome="fail", reason=reason)
    return CheckResult(check="seeds", outcome="pass")


def _listings(batch: Batch, step: Stepped, conventions: Conventions) -> CheckResult:
    for i, (request, found) in enumerate(zip(batch.requests, step.listed, strict=True)):
        params = request.params
        wants = params.logprobs is not None or params.logprob_token_ids is not None
        if (found is not None) != wants:
            told = "lists nothing" if found is None else "lists tokens unasked"
            return CheckResult(check=log_probs.NAME, outcome="fail", reason=f"request {i} {told}")
        if found is None:
            continue
        row = batch.logits[_first_rows(batch)[i]]
        if step.token_ids[i] < 0:
            # Nothing was left to draw, so that the list has nothing to begin with.
            continue
        values = values_of(row, request, batch.model, conventions, "raw_logprobs")
        chosen, n = params.logprob_token_ids, params.logprobs
        expected = list_tokens(values, int(step.token_ids[i]), n if n is not None else 0, chosen)
        result = log_probs.check(
            found, expected, values, chosen=chosen is not None, who=f"request {i}"
        )
        if result.outcome != "pass":
            return result
    return CheckResult(check=log_probs.NAME, outcome="pass")
