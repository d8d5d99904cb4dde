"""Planted faults are found, named, and shown with at most six steps; right classes have none."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from sampler_audit.processor_audit.search import Searched
from sampler_audit.processor_audit.settings import Settings
from sampler_audit.sampler.processors.examples.dry import Dry
from sampler_audit.sampler.processors.examples.end_after import EndAfter
from sampler_audit.sampler.processors.examples.target_token import (
    TargetToken,
    TargetTokenByRequest,
)

BIAS: Settings = {"extra_args": {"bias": 4.0}}
TARGET: Settings = {"extra_args": {"target_token": 3}}
MOST_STEPS = 6
"""What the smallest sequence of a planted fault may take."""

Search = Callable[..., Searched]


# What each was written to do wrong; the audit finds that and nothing else.
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("KeepsTheLastOne", "leak"),
        ("IgnoresMoves", "moved"),
        ("SwapCopiesToBoth", "swapped"),
        ("BiasesEverybody", "neighbour"),
        ("FiresTheDice", "nondeterministic"),
        ("ClaimsArgmaxInvariance", "argmax"),
        ("ForcesAMaskedToken", "masked"),
        ("DividesByZero", "nan"),
        ("ReturnsItsBuffer", "aliased"),
        ("ReturnsTheCopy", "dropped"),
        ("ReturnsNothing", "returned"),
        ("RaisesInLargeBatches", "raised"),
        ("StaleSlot", "leak"),
        ("RowForSlot", "order"),
        ("ForgetsDrafts", "neighbour"),
    ],
)
def test_a_planted_fault_is_found(
    wrong: ModuleType, searched: Search, name: str, kind: str
) -> None:
    """By its own name, and small enough to read."""
    (fault,) = searched(getattr(wrong, name), BIAS).faults
    assert fault["kind"] == kind
    assert 1 <= len(fault["steps"]) <= MOST_STEPS


@pytest.mark.parametrize("name", ["Bias", "SlotBias"])
def test_what_the_wrong_ones_derive_from_is_right(
    wrong: ModuleType, searched: Search, name: str
) -> None:
    """So that what is found is what was planted."""
    found = searched(getattr(wrong, name), BIAS)
    assert found.faults == ()
    assert min(found.counts[n] for n in ("removed", "moves", "swaps", "changed rows")) > 0


@pytest.mark.parametrize(
    ("cls", "settings"),
    [
        (Dry, {"extra_args": {"dry_multiplier": 2.0, "dry_allowed_length": 1}}),
        (EndAfter, {"extra_args": {"end_after": 2}}),
        (TargetToken, TARGET),
        (TargetTokenByRequest, TARGET),
    ],
)
def test_our_examples_are_right(searched: Search, cls: type, settings: Settings) -> None:
    """And change rows, or nothing would have been tried."""
    found = searched(cls, settings)
    assert found.faults == ()
    assert found.counts["changed rows"] > 0


def test_a_seed_repeats_the_search(wrong: ModuleType, searched: Search) -> None:
    """Sequences, what is found, and the smallest sequence; another seed tries others."""
    first, again, other = (searched(wrong.StaleSlot, BIAS, seed=seed) for seed in (7, 7, 8))
    assert first == again
    assert first.counts != other.counts


def test_nothing_is_written(
    wrong: ModuleType, searched: Search, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hypothesis would make a folder where the user stands."""
    monkeypatch.chdir(tmp_path)
    searched(wrong.ReturnsNothing, BIAS)
    assert list(tmp_path.iterdir()) == []
