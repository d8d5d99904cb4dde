"""The probe: what a server does, found out by few requests, before anything is read into its draws.

A field that is accepted and ignored looks like a broken sampler, and log-probs mean four different
things. So: extreme values, whose effect no draw can miss, and the same list at two temperatures.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sampler_audit.errors import ServerError, ServerNonsense, ServerRefused
from sampler_audit.servers._draws import Draws
from sampler_audit.servers._profile import SENT_FIELDS, Method, Prompt
from sampler_audit.servers._protocol import MOST_LISTED, Capabilities, Kind, Probed
from sampler_audit.servers._rows import Row
from sampler_scenarios.params import SamplingParams

MISTAKE = 1e-6
"""Probability that a field without effect is taken for one that acts."""

MOST_DRAWS = 64
"""Draws that one field may cost; a prompt whose likeliest token needs more tells nothing."""

SHORT = 20
"""Length of a list that nobody refuses who lists anything, and that is enough to compare."""

NEAR = 0.05
"""Log-probs this close are the same: the noise of bf16 between two batches, and no temperature."""


async def probe(server: Probed, prompt: Prompt) -> Capabilities:
    """Find out what the server does at ``prompt``.

    Raises:
        ServerError: it does not answer, or gives no row by any way.
    """
    before = server.n_requests
    rows, dropped = await _rows(server, prompt)
    row = next(iter(rows.values()))
    n, plain = await _several(server, prompt, row)
    if n == 1 and server.n_limit > 1:
        dropped = (*dropped, "n")
    acts: dict[str, bool | None] = {}
    refused: dict[str, str] = {}
    for extreme in _extremes(server, row):
        try:
            acts[extreme.field] = await _acts(server, prompt, row, extreme, n)
        except ServerRefused as exc:
            acts[extreme.field], refused[extreme.field] = None, str(exc)
    try:
        seeds = await _seeds(server, prompt, row, n)
    except ServerRefused as exc:
        seeds, refused["seed"] = None, str(exc)
    return Capabilities(
        methods=tuple(rows),
        logprob_cap=len(row.token_ids),
        logprobs=await _kind(server, prompt, row),
        n_per_request=n,
        acts={name: acts.get(name) for name in SENT_FIELDS},
        refused=refused,
        seeds=seeds,
        constant=_constant(plain, row),
        dropped=dropped,
        n_requests=server.n_requests - before,
    )


async def _rows(server: Probed, prompt: Prompt) -> tuple[dict[Method, Row], tuple[str, ...]]:
    """The longest row of every way that works, and what came of the others."""
    rows: dict[Method, Row] = {}
    dropped: list[str] = []
    problem: ServerError | None = None
    for method in server.profile.methods:
        known = [int(token) for row in rows.values() for token in row.token_ids[:5]][:5]
        try:
            if method != "chosen_ids":
                rows[method] = await _longest(server, prompt, method)
            elif known:
                rows[method] = await server.reference_row(prompt, method=method, token_ids=known)
        except (ServerRefused, ServerNonsense) as exc:
            problem = problem or exc
            dropped.append(f"{method}: {exc}")
    if not rows:
        raise problem or ServerError(f"{server.profile.title} offers no way to a reference row")
    return rows, tuple(dropped)


async def _longest(server: Probed, prompt: Prompt, method: Method) -> Row:
    """The answer to an over-long list, or to what its refusal names, or to a short one."""
    try:
        return await server.reference_row(prompt, k=MOST_LISTED, method=method)
    except ServerRefused as exc:
        named = {int(number) for number in re.findall(r"\d+", str(exc))} - {exc.status}
    tried = [k for k in sorted(named, reverse=True) if 0 < k < MOST_LISTED]
    for k in [*tried, SHORT, 5]:
        try:
            return await server.reference_row(prompt, k=k, method=method)
        except ServerRefused:
            continue
    return await server.reference_row(prompt, k=1, method=method)


async def _several(server: Probed, prompt: Prompt, row: Row) -> tuple[int, Draws]:
    """The most choices of one request that came, of as many as a field may cost."""
    needed = _needed(math.exp(row.logprobs[0])) or MOST_DRAWS
    most = min(server.n_limit, needed)
    try:
        return most, await server.draw(prompt, SamplingParams(), needed, per_request=most)
    except (ServerRefused, ServerNonsense):
        if most == 1:
            raise
        return 1, await server.draw(prompt, SamplingParams(), needed, per_request=1)


@dataclass(frozen=True)
class _Extreme:
    """A setting under which only some tokens can be drawn."""

    field: str
    params: SamplingParams
    token_ids: frozenset[int]


def _extremes(server: Probed, row: Row) -> Iterator[_Extreme]:
    """The fields that the engine has, each at a value that no draw can miss."""
    third = int(row.token_ids[min(2, len(row.token_ids) - 1)])
    # Tokens this near an edge may be tied with it in bf16.
    top, second = _within(row, 0, 0.1), _within(row, min(1, len(row.token_ids) - 1), 0.1)
    table = (
        _Extreme("temperature", SamplingParams(temperature=0.01), _within(row, 0, 0.2)),
        _Extreme("top_k", SamplingParams(top_k=2), second),
        _Extreme("top_p", SamplingParams(top_p=0.01), top),
        _Extreme("min_p", SamplingParams(min_p=0.99), top),
        _Extreme("logit_bias", SamplingParams(logit_bias={third: 50.0}), frozenset({third})),
        _Extreme(
            "allowed_token_ids", SamplingParams(allowed_token_ids=(third,)), frozenset({third})
        ),
    )
    return (e for e in table if e.field in server.profile.fields and not server.refusal(e.params))


async def _acts(server: Probed, prompt: Prompt, row: Row, extreme: _Extreme, n: int) -> bool | None:
    needed = _needed(_mass(row, extreme.token_ids))
    if needed is None or not extreme.token_ids:
        return None
    drawn = await server.draw(prompt, extreme.params, needed, per_request=n)
    return set(drawn.token_ids[:, 0].tolist()) <= extreme.token_ids


async def _kind(server: Probed, prompt: Prompt, row: Row) -> Kind:
    """What the log-probs beside a draw are, by the same list at T = 1, at T = .5 and with top_k."""
    if not server.profile.row_with_draw or len(row.token_ids) < 3:
        return "unknown"
    length = min(len(row.token_ids), SHORT)
    params = SamplingParams(temperature=0.5)
    (cold,) = (await server.draw(prompt, params, 1, logprobs=length)).rows
    if not cold or not len(cold[0].token_ids):
        return "unknown"
    gaps, cold_gaps = _gaps(row, cold[0])
    if len(gaps) < 2 or np.ptp(gaps) < 4 * NEAR:
        return "unknown"
    raw = np.abs(cold_gaps - gaps).max() <= NEAR
    divided = np.abs(cold_gaps - 2 * gaps).max() <= 2 * NEAR
    if not raw and not divided:
        return "unknown"
    if await _filters(server, prompt, length):
        return "after filters"
    return "raw" if raw else "after temperature"


async def _filters(server: Probed, prompt: Prompt, length: int) -> bool:
    """Whether the list is short where top_k is."""
    params = SamplingParams(top_k=2)
    if server.refusal(params):
        return False
    (cut,) = (await server.draw(prompt, params, 1, logprobs=length)).rows
    return bool(cut) and int(np.isfinite(cut[0].logprobs).sum()) <= 2 < length


async def _seeds(server: Probed, prompt: Prompt, row: Row, n: int) -> bool | None:
    """Whether a second request with the same seeds repeats the first, and seeds differ at all."""
    needed = _needed(math.exp(row.logprobs[0]))
    if "seed" not in server.profile.fields or needed is None:
        return None
    seeds = range(1, needed + 1)
    first = await server.draw(prompt, SamplingParams(), needed, seeds=seeds, per_request=n)
    again = await server.draw(prompt, SamplingParams(), needed, seeds=seeds, per_request=n)
    same = np.array_equal(first.token_ids, again.token_ids)
    return same and len(np.unique(first.token_ids[:, 0])) > 1


def _constant(plain: Draws, row: Row) -> bool:
    """Whether unseeded draws never differed, though that had a chance of at most MISTAKE."""
    if _needed(math.exp(row.logprobs[0])) is None:
        return False
    return len(np.unique(plain.token_ids[:, 0])) == 1


def _needed(mass: float) -> int | None:
    """Draws after which tokens of this mass alone are no chance; None beyond MOST_DRAWS."""
    if mass >= 1:
        return None
    needed = max(2, math.ceil(math.log(MISTAKE) / math.log(max(mass, 1e-300))))
    return needed if needed <= MOST_DRAWS else None


def _mass(row: Row, token_ids: frozenset[int]) -> float:
    return math.fsum(np.exp(row.logprobs[np.isin(row.token_ids, sorted(token_ids))]))


def _within(row: Row, rank: int, nats: float) -> frozenset[int]:
    """The tokens down to ``nats`` below the one of that rank; none where the list ends before."""
    inside = row.logprobs >= row.logprobs[rank] - nats
    if inside.all() and not row.complete:
        return frozenset()
    return frozenset(row.token_ids[inside].tolist())


def _gaps(row: Row, other: Row) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Log-probs of the tokens that both list, below the likeliest of them."""
    _, here, there = np.intersect1d(row.token_ids, other.token_ids, return_indices=True)
    values = row.logprobs[here], other.logprobs[there]
    one, two = (logprobs - logprobs.max(initial=-np.inf) for logprobs in values)
    return one, two
