"""The public fault corpus: our sampler is right on it, and the audit finds each planted twin.

docs/fault-corpus.md says what is found by what; ``--update-golden`` writes it anew.
"""

import math
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Protocol

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import optimize, stats

from sampler_audit.sampler import PlantedPlayer, Player
from sampler_reference.conventions import CONVENTIONS
from sampler_reference.defect_laws import right_law
from sampler_reference.defects import DEFECTS
from sampler_reference.processors import process
from sampler_reference.speculative import emitted_law, next_token_laws, propose, rows_of
from sampler_reference.speculative_defects import WRONG_LAWS
from sampler_scenarios.corpus import CORPUS, Entry

Law = NDArray[np.float64]
TABLE = Path(__file__).parents[2] / "docs" / "fault-corpus.md"
OURS = CONVENTIONS["sampler-audit"]
IN_PROCESS = [entry for entry in CORPUS.values() if entry.visible == "in process"]
TWINS = [(entry.id, name) for entry in IN_PROCESS for name in entry.defects]
CELLS = list(dict.fromkeys(cell for entry in IN_PROCESS for cell in entry.cells))
EXACT = ("kept set", "logits", "log-probs")
N_DRAWS = (1, 20, 50, 100, 200, 500, 1000)


class Outcome(Protocol):
    """What ``audited`` gives."""

    failing: list[str]
    n_draws: int


Audited = Callable[..., Outcome]


@pytest.mark.parametrize("entry", [e for e in IN_PROCESS if e.kept], ids=lambda e: e.id)
def test_our_sampler_keeps_and_weighs_what_is_right(entry: Entry) -> None:
    """The ids of the report; probabilities, where it has some, to its three digits."""
    batch = entry.batch()
    row = Player("twin").filtered(torch.from_numpy(batch.logits), batch)[batch.index].numpy()
    kept = np.flatnonzero(row > -np.inf)
    assert kept.tolist() == list(entry.kept)
    weights = np.exp(row[kept].astype(np.float64) - row.max())
    if entry.probs:
        assert weights / weights.sum() == pytest.approx(entry.probs, abs=6e-4)


@pytest.mark.parametrize("cell", CELLS)
def test_our_sampler_passes_the_audit(cell: str, audited: Audited) -> None:
    """By the reference, in every cell of the corpus; the false-alarm rate of a cell is 1e-4."""
    assert audited(cell, Player("twin"), 200).failing == []


@pytest.mark.parametrize(("entry", "defect"), TWINS)
def test_the_audit_finds_the_planted_twin(
    entry: str, defect: str, audited: Audited, table: str
) -> None:
    """In a cell of the entry, by the check and with the draws that the table says."""
    assert found_line(CORPUS[entry], defect, audited) in table.splitlines()


def test_the_table_is_up_to_date(table: str) -> None:
    """All lines that do not depend on an audit are as they are now, and none is missing."""
    measured = [line for line in table.splitlines() if line.startswith("| B")][: len(TWINS)]
    assert [line.split(" | ")[:4] for line in measured] == [
        line.split(" | ")[:4] for line in lines(lambda entry, defect: found(entry, defect, "", 0))
    ]
    assert table.startswith(HEAD)
    assert table.endswith(hidden())


def test_every_defect_of_the_corpus_is_known_and_planted() -> None:
    """A twin is a planted defect, and one that was planted for an entry is that entry's."""
    assert {name for entry in CORPUS.values() for name in entry.defects} <= set(DEFECTS)
    for name, defect in DEFECTS.items():
        assert not defect.entry or name in CORPUS[defect.entry].defects
    assert all(entry.control or entry.defects for entry in IN_PROCESS)


# faults.md of the corpus: draws for a token outside the right set with a chance of 99.9 %, or for
# a chi-square at 1e-6 with a power of 99 %, computed there from the published laws.
@pytest.mark.parametrize(
    ("entry", "defect", "published"),
    [
        ("B01", "top-k-ignored", 23),
        ("B09", "ties-kept", 12),
        ("B23", "joint-for-sequential", 34),
        ("B25", "temperature-last", 293),
        ("B57", "repetition-ignores-sign", 70),
        ("B59", "penalty-counts-prompt", 98),
        ("B54", "acceptance-by-best-token", 609),
        ("B47", "draft-shares-noise", 3300),
    ],
)
def test_draws_needed_from_tokens_alone(entry: str, defect: str, published: int) -> None:
    """Within 2 %, the rounding of the published laws."""
    assert draws_alone(CORPUS[entry], defect) == pytest.approx(published, rel=0.02)


@pytest.fixture
def table(request: pytest.FixtureRequest, audited: Audited) -> str:
    """The table of the documentation, written anew where that is asked for."""
    if request.config.getoption("--update-golden") and not request.config.stash.get(DONE, False):
        rows = lines(lambda entry, defect: found_line(entry, defect, audited))
        TABLE.write_text(HEAD + "\n".join(rows) + "\n" + hidden(), encoding="utf-8")
        request.config.stash[DONE] = True
    return TABLE.read_text(encoding="utf-8")


DONE = pytest.StashKey[bool]()

HEAD = """\
# The public fault corpus

Faults of samplers that were reported in public, each with its smallest input, and how the audit
finds a sampler in which the same fault is planted. `tests/audit/test_fault_corpus.py` writes this
page with `--update-golden`, and checks every line. *Draws* are the tokens that the audit drew, 0
where the kept set, the logits or the listed log-probs show the fault by themselves. *From tokens
alone* is how many tokens show it to somebody who sees nothing else: a token that must not occur
with a chance of 99.9 %, or a chi-square at 1e-6 with a power of 99 %.

| Entry | Kind | Reports | Planted twin | Found by | Draws | From tokens alone |
|---|---|---|---|---|---|---|
"""


def lines(line_of: Callable[[Entry, str], str]) -> list[str]:
    """A line for each planted twin, in the order of the corpus."""
    return [line_of(CORPUS[entry], defect) for entry, defect in TWINS]


def found_line(entry: Entry, defect: str, audited: Audited) -> str:
    """The first check to fail, at the smallest number of draws at which one does."""
    player = PlantedPlayer("twin", DEFECTS[defect])
    for n_draws, cell in product(N_DRAWS, entry.cells):
        audit = audited(cell, player, n_draws)
        # A planted law shows its logarithms in place of logits: equal laws have other logits.
        failing = [c for c in audit.failing if c != "logits" or DEFECTS[defect].law is None]
        if failing:
            check = failing[0]
            return found(entry, defect, check, 0 if check in EXACT else audit.n_draws)
    raise AssertionError(f"{defect} is not found in {', '.join(entry.cells)}")


def found(entry: Entry, defect: str, check: str, n_draws: int) -> str:
    """A line of the table."""
    alone = draws_alone(entry, defect)
    return (
        f"| {entry.id} | {entry.title} | {links(entry)} | {defect} | {check} | {n_draws:,} |"
        f" {'' if alone is None else f'{alone:,}'} |"
    )


def hidden() -> str:
    """The entries that no line of the table has: controls, then what cannot be seen in process."""
    controls = "".join(
        f"- {e.id}, {e.title}: {links(e)}. {e.right}.\n" for e in CORPUS.values() if e.control
    )
    unseen = "".join(
        f"| {e.id} | {e.title} | {links(e)} | {where(e)} | {e.reason} |\n"
        for e in CORPUS.values()
        if e.visible != "in process"
    )
    return (
        "\n## Negative controls\n\nFiled as faults, and none: the audit passes them.\n\n"
        f"{controls}{MORE_CONTROLS}\n## Not visible in process\n\n"
        "| Entry | Kind | Reports | Visible | Why not in process |\n|---|---|---|---|---|\n"
        f"{unseen}"
    )


MORE_CONTROLS = """\
- min_p applied twice: the second time nothing is left to remove.
- top_k and top_p that judge jointly, where that is the declared convention (B23).
- A repetition penalty that multiplies negative logits (NVIDIA/FasterTransformer#777, withdrawn).
- Noise that differs between two devices, where tokens are not declared a function of the seed.
"""


def where(entry: Entry) -> str:
    """Where it can be seen instead."""
    return "through a server" if entry.visible == "server" else "nowhere here"


def links(entry: Entry) -> str:
    """The public reports; a pull request answers to the address of an issue too."""
    parted = ((source, *source.split("#")) for source in entry.sources)
    return ", ".join(f"[{s}](https://github.com/{name}/issues/{n})" for s, name, n in parted)


def draws_alone(entry: Entry, defect: str) -> int | None:
    """Draws that show the wrong law; None where the law of one draw is not what is wrong."""
    laws = laws_of(entry, defect)
    return None if laws is None else draws_between(*laws)


def laws_of(entry: Entry, name: str) -> tuple[Law, Law] | None:
    """The right and the wrong law of the entry's input, where the defect has one there."""
    defect, batch = DEFECTS[name], entry.batch()
    if name in WRONG_LAWS and batch.draft_logits is not None and entry.own is not None:
        p, q = np.exp(batch.logits[0]).astype(np.float64), np.exp(batch.draft_logits[0])
        p, q = p / p.sum(), q.astype(np.float64) / q.sum(dtype=np.float64)
        law = emitted_law(
            rows_of(lambda _: p), propose(lambda _: q, 1), lambda _: q, WRONG_LAWS[name]
        )
        return p, next_token_laws(law, p.size)[()]
    row, request = batch.logits[batch.index], batch.rows[batch.index]
    x = process(row, request, batch.model, OURS)
    right = right_law(x, request.params, OURS)
    if defect.law is not None:
        return right, defect.law(x, request.params, OURS)
    if defect.process is not None and not batch.drafts:
        wrong = defect.process(row, request, batch.model, OURS)
        return right, right_law(wrong, request.params, OURS)
    return None


def draws_between(right: Law, wrong: Law) -> int | None:
    """How many draws from ``wrong`` show that they are not from ``right``; None where it is."""
    outside = float(wrong[right == 0].sum()) + (not wrong.any())
    if outside > 0:
        return max(1, math.ceil(math.log(1e-3) / math.log1p(-min(outside, 1 - 1e-12))))
    possible = right > 0
    distance = float(((wrong - right)[possible] ** 2 / right[possible]).sum())
    if distance < 1e-12:
        return None
    df = int(possible.sum()) - 1
    critical = stats.chi2.isf(1e-6, df)
    noncentrality = optimize.brentq(
        lambda nc: stats.ncx2.sf(critical, df, nc) - 0.99, 1, 100 + 20 * critical
    )
    return math.ceil(noncentrality / distance)
