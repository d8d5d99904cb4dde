"""AuditPlan: which cells a run tries, how often it draws, and at what false-alarm rate.

The full product of rows, settings, vocabularies and batches is not the plan. For every
combination of filters the core plan holds each kind of row at typical values, a pairwise covering
array of edge values, and each vocabulary size and batch pattern at least once; ``quick`` leaves
out kinds, edges and crowds, and a slow target the largest sizes. Nothing here is random:
the same arguments give the same cells, and the seed only moves the draws.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sampler_audit.errors import UsageError
from sampler_scenarios.batches import PATTERNS
from sampler_scenarios.cells import Cell, parse_cell
from sampler_scenarios.combos import STAGE_COMBOS, select_combos
from sampler_scenarios.params import FILTERS, STAGES, Combo, SamplingParams, combo_name
from sampler_scenarios.real_rows import REAL_ROWS
from sampler_scenarios.rows import KINDS, LARGE_VOCAB_SIZES, VOCAB_SIZES, check_row_name
from sampler_scenarios.settings import edge_params, typical_params

Gate = Literal["e-value", "chi-square"]

DEFAULT_DRAWS = 200
REAL_VOCAB_SIZE = 49152

CORE_KINDS = (
    "dense-normal",
    "peaked-3",
    "finite-2-front",
    "finite-3-spread",
    "finite-20-spread",
    "runner-up-0.05",
    "runner-up-0.49",
    "one-high",
    "ties-at-k",
    "bf16-rounded",
)
"""Kinds of row that ``--rows quick`` tries with every combination."""


PROBE_PATTERN = "mixed-8"
"""The batch pattern in which seeds and noise are probed and kept sets are asked for twice."""

PATTERN_KINDS = {
    "alone": "dense-normal",
    "strided": "bf16-rounded",
    "mixed-7": "ties-at-k",
    PROBE_PATTERN: "finite-5-spread",
    "mixed-64": "ties-at-k",
    "same-64": "finite-5-spread",
}
"""The kind of row that sits in each batch pattern. Engines change their path, and with it the fate
of ties and of few finite logits, at batches of 8 and of more than 64."""

PROBED_ROWS = ("dense-normal@8193", "bf16-rounded@512", "ties-at-k@129")
"""Rows, beside the one of PATTERN_KINDS, on which the draws of every combination are probed."""

STATEFUL_KINDS = {
    "recycled": "dense-normal",
    "swapped": "bf16-rounded",
    "staggered": "ties-at-k",
    "draft-1": "dense-normal",
    "draft-2": "finite-20-spread",
    "draft-bonus": "bf16-rounded",
    "drawn-draft-1": "dense-normal",
}
"""The kind of row in each pattern that needs a sampler with state: a past, or drafts to verify."""

STAGE_KINDS = ("dense-normal", "bf16-rounded", "finite-20-spread")
"""Kinds of row on which stages are tried, in turn: dense, tied, and with few tokens left."""

Patterns = tuple[tuple[str, ...], ...]
"""Names of STATEFUL_KINDS that a target can play: those with a past, and those with drafts."""

CROWD = 64

TAIL = 32768
"""Vocabulary size of the rows whose cut lies among thousands of tokens."""

EVEN = 131072
"""Vocabulary size of a uniform law: float32 sums that are added one by one are off by then."""


_FEW = 40
"""Combinations up to this number are few: those with stages are tried in every way."""


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Vocabulary sizes of a plan, so that an engine that is slow here still gets every kind.

    ``base`` serves synthetic rows, ``edge`` the covering array, ``crowd`` rows among mates, and
    ``real`` is the number of likeliest tokens of a real row that are kept.
    """

    base: int
    edge: int
    crowd: int
    real: int
    vocab_sizes: tuple[int, ...]


FAST = Sizes(base=2048, edge=512, crowd=512, real=4096, vocab_sizes=VOCAB_SIZES)
SLOW = Sizes(
    base=1024,
    edge=129,
    crowd=128,
    real=4096,
    vocab_sizes=tuple(v for v in VOCAB_SIZES if v not in LARGE_VOCAB_SIZES),
)


@dataclass(frozen=True, kw_only=True)
class AuditPlan:
    """What will be tried. ``n_draws`` is the most draws a cell gets; ``alpha`` is for the run."""

    cells: tuple[Cell, ...]
    n_draws: int
    alpha: float
    gate: Gate
    seed: int
    combos: str
    rows: str


def build_plan(
    *,
    combos: str = "core",
    rows: str = "core",
    only: str | None = None,
    n_draws: int | None = None,
    alpha: float = 1e-4,
    gate: Gate = "e-value",
    seed: int,
    slow: bool = False,
    stages: Sequence[str] = (),
    stateful: bool = False,
    verifies_drafts: bool = False,
) -> AuditPlan:
    """The plan for one target: ``slow`` asks for short rows.

    ``stages`` are those that the target has; ``stateful`` says whether a batch may have a past,
    ``verifies_drafts`` whether it may have drafts. ``all`` combinations hold each stage beside
    every combination of filters, and all pairs of stages.

    Raises:
        UsageError: an unknown combination, row or id, or a number outside its range.
    """
    if n_draws is not None and n_draws < 1:
        raise UsageError(f"draws must be at least 1, got {n_draws}")
    if not 0 < alpha < 1:
        raise UsageError(f"alpha must be between 0 and 1, got {alpha}")
    if seed < 0:
        raise UsageError(f"seed must be >= 0, got {seed}")
    try:
        selected = _selected(combos, stages)
        if only is not None:
            cells = [parse_cell(only)]
            combos, rows = combo_name(cells[0].combo), cells[0].row
        else:
            rows = _rows_of(combos, rows)
            patterns = _stateful_patterns(stateful, verifies_drafts)
            cells = list(_cells(selected, rows, slow=slow, patterns=patterns))
    except ValueError as exc:
        raise UsageError(str(exc)) from exc
    return AuditPlan(
        cells=tuple(dict.fromkeys(cells)),
        n_draws=n_draws or DEFAULT_DRAWS,
        alpha=alpha,
        gate=gate,
        seed=seed,
        combos=combos,
        rows=rows,
    )


def draw_seeds(seed: int, cell_id: str, n: int) -> NDArray[np.int64]:
    """The noise seeds of a cell's draws, ``[n]``: a hash of (run seed, cell id, draw index).

    A longer sequence begins with the shorter one, so a cell can be drawn on or repeated alone.
    """
    digest = hashlib.sha256(f"{seed}/{cell_id}".encode()).digest()
    words = np.frombuffer(digest, dtype=np.uint32)
    return np.random.SeedSequence(words.tolist()).generate_state(n, np.uint64).view(np.int64)


def combo_order(combo: Combo) -> tuple[int, ...]:
    """Sort key: the smaller combination first, then in the order of FILTERS and STAGES."""
    return len(combo), *((*FILTERS, *STAGES).index(name) for name in combo)


def _selected(combos: str, stages: Sequence[str]) -> list[Combo]:
    """The combinations asked for, of filters and of the target's stages."""
    wanted = select_combos(combos)
    if "all" in (name.strip() for name in combos.split(",")):
        wanted |= frozenset(STAGE_COMBOS)
    possible = {*FILTERS, *stages}
    return sorted((combo for combo in wanted if possible.issuperset(combo)), key=combo_order)


def _rows_of(combos: str, rows: str) -> str:
    """``core`` combinations are the fast plan: all sixteen, on fewer kinds of row."""
    return "quick" if (combos, rows) == ("core", "core") else rows


def _stateful_patterns(stateful: bool, verifies_drafts: bool) -> Patterns:
    past = tuple(name for name in STATEFUL_KINDS if PATTERNS[name].past and stateful)
    drafts = (name for name in STATEFUL_KINDS if PATTERNS[name].n_drafts and verifies_drafts)
    return tuple(names for names in (past, tuple(drafts)) if names)


def _cells(combos: Sequence[Combo], rows: str, *, slow: bool, patterns: Patterns) -> Iterator[Cell]:
    sizes, quick = SLOW if slow else FAST, rows == "quick"
    if rows not in ("quick", "core", "full"):
        yield from _named_rows(combos, rows.split(","), sizes)
        return
    turns: dict[Combo, int] = {}
    for index, combo in enumerate(combos):
        if stages := _split(combo)[1]:
            alone, *crowded = _staged(combo, index, sizes, patterns)
            # Counted by stage, so that it meets every past and every way of drafts beside some set
            # of filters.
            turn = turns[stages] = turns.get(stages, index) + 1
            if rows == "full" or len(combos) <= _FEW:
                yield from (alone, *crowded)
            else:
                yield from (*([] if quick else [alone]), crowded[turn % len(crowded)])
            continue
        yield from _stateful(combo, sizes, patterns)
        yield from _typical(combo, sizes, full=rows == "full", quick=quick)
        yield from _patterns(combo, sizes, quick=quick)
        yield from _vocabularies(combo, sizes, quick=quick)
        if not quick:
            yield from _tails(combo)
            yield from _edges(combo, sizes)


def _named_rows(combos: Sequence[Combo], names: Sequence[str], sizes: Sizes) -> Iterator[Cell]:
    """Every setting of every combination on the rows asked for: kinds, full names, or ``real``."""
    for name in (n.strip() for n in names):
        for full_name in _expand(name, sizes):
            check_row_name(full_name)
            for combo in combos:
                filters, stages = _split(combo)
                for params in typical_params(filters):
                    yield Cell(full_name, params, stages=stages)


def _expand(name: str, sizes: Sizes) -> Sequence[str]:
    if name == "real":
        return [f"{slug}@{REAL_VOCAB_SIZE}" for slug in REAL_ROWS]
    if "@" in name:
        return [name]
    if name in REAL_ROWS:
        return [f"{name}@{REAL_VOCAB_SIZE}"]
    smallest = {kind.name: kind.min_vocab_size for kind in KINDS}.get(name, 1)
    return [f"{name}@{max(sizes.base, smallest)}"]


def _typical(combo: Combo, sizes: Sizes, *, full: bool, quick: bool) -> Iterator[Cell]:
    settings = typical_params(combo)
    for index, kind in enumerate(KINDS):
        if quick and kind.name not in CORE_KINDS:
            continue
        if full:
            for vocab_size in VOCAB_SIZES:
                if vocab_size >= kind.min_vocab_size:
                    yield Cell(f"{kind.name}@{vocab_size}", settings[index % len(settings)])
        for params in settings if full else settings[index % len(settings) :][:1]:
            yield Cell(f"{kind.name}@{max(sizes.base, kind.min_vocab_size)}", params)
    slugs = REAL_ROWS[:3] if quick else REAL_ROWS
    for index, slug in enumerate(slugs):
        for params in settings if full else settings[index % len(settings) :][:1]:
            yield Cell(f"{slug}@{REAL_VOCAB_SIZE if full else sizes.real}", params)


def _tails(combo: Combo) -> Iterator[Cell]:
    """Cuts far down a long row, where a search that runs out of steps or of precision shows."""
    if "top_p" not in combo:
        return
    for top_p in (0.9, 0.999):
        deep = SamplingParams(temperature=1.5, top_k=TAIL - 1, top_p=top_p, min_p=1e-6)
        for kind in ("dense-normal", "flat-tail", "peaked-2"):
            yield Cell(f"{kind}@{TAIL}", project(deep, combo))
    even = SamplingParams(temperature=0.6, top_k=EVEN - 1, top_p=0.95, min_p=0.05)
    yield Cell(f"constant@{EVEN}", project(even, combo))


def _patterns(combo: Combo, sizes: Sizes, *, quick: bool) -> Iterator[Cell]:
    """Every batch pattern, on the row that shows what it changes; a quick plan has fewer crowds."""
    settings = typical_params(combo)
    # Seeds and noise are probed there: on sparse, tied and dense rows, one longer than a tile.
    yield Cell(PROBED_ROWS[len(combo) % len(PROBED_ROWS)], settings[0], PROBE_PATTERN)
    for index, (pattern, kind) in enumerate(PATTERN_KINDS.items()):
        if not quick or PATTERNS[pattern].n_mates < CROWD or set(combo) == set(FILTERS):
            yield Cell(f"{kind}@{sizes.crowd}", settings[index % len(settings)], pattern)


def _stateful(combo: Combo, sizes: Sizes, patterns: Patterns) -> Iterator[Cell]:
    """Every pattern with a past or with drafts."""
    settings = typical_params(combo)
    for index, pattern in enumerate(name for names in patterns for name in names):
        row = f"{STATEFUL_KINDS[pattern]}@{sizes.crowd}"
        yield Cell(row, settings[index % len(settings)], pattern)


def _staged(combo: Combo, index: int, sizes: Sizes, patterns: Patterns) -> Iterator[Cell]:
    """A combination with stages: alone, then among mates, with every past, with every draft."""
    filters, stages = _split(combo)
    params = typical_params(filters)[0]
    kind = STAGE_KINDS[index % len(STAGE_KINDS)]
    yield Cell(f"{kind}@{sizes.base}", params, stages=stages)
    yield Cell(f"dense-normal@{sizes.crowd}", params, PROBE_PATTERN, stages)
    for pattern in (name for names in patterns for name in names):
        yield Cell(f"{STATEFUL_KINDS[pattern]}@{sizes.crowd}", params, pattern, stages)


def _split(combo: Combo) -> tuple[Combo, Combo]:
    """The filters and the stages of a combination."""
    return tuple(n for n in combo if n in FILTERS), tuple(n for n in combo if n in STAGES)


def _vocabularies(combo: Combo, sizes: Sizes, *, quick: bool) -> Iterator[Cell]:
    settings = typical_params(combo)
    for index, vocab_size in enumerate(sizes.vocab_sizes):
        if not (quick and vocab_size in LARGE_VOCAB_SIZES):
            yield Cell(f"dense-normal@{vocab_size}", settings[index % len(settings)])


def _edges(combo: Combo, sizes: Sizes) -> Iterator[Cell]:
    """A pairwise covering array of edge values, projected on the combination's filters."""
    kinds = ("dense-normal", "finite-8-spread", "two-valued")
    projected = dict.fromkeys(project(params, combo) for params in edge_params(sizes.edge))
    for index, params in enumerate(projected):
        yield Cell(f"{kinds[index % len(kinds)]}@{sizes.edge}", params)


def project(params: SamplingParams, combo: Combo) -> SamplingParams:
    """The parameters with every filter outside ``combo`` neutral."""
    neutral = SamplingParams()
    chosen = dict.fromkeys(combo, params)
    return SamplingParams(
        temperature=chosen.get("temperature", neutral).temperature,
        top_k=chosen.get("top_k", neutral).top_k,
        top_p=chosen.get("top_p", neutral).top_p,
        min_p=chosen.get("min_p", neutral).min_p,
    )
