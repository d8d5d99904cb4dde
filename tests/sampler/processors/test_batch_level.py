"""update_rows and the argmax groups, rule by rule."""

import torch

from sampler_audit.sampler.processors import (
    Added,
    BatchLogitsProcessor,
    BatchUpdate,
    EngineConfig,
    Moved,
    MoveDirectionality,
    group_by_argmax,
    update_rows,
)
from sampler_scenarios.params import SamplingParams
from sampler_scenarios.requests import ModelConfig

UNIDIRECTIONAL, SWAP = MoveDirectionality.UNIDIRECTIONAL, MoveDirectionality.SWAP


def seed_of(params: SamplingParams, _prompt: list[int] | None, _output: list[int]) -> int | None:
    """State of a request: its seed, or none."""
    return params.seed


def added(row: int, seed: int | None) -> Added:
    """A request with that seed, new in that row."""
    return Added(row, SamplingParams(seed=seed), None, [])


def updated(
    rows: dict[int, int],
    removed: tuple[int, ...] = (),
    new: tuple[Added, ...] = (),
    moved: tuple[Moved, ...] = (),
) -> tuple[dict[int, int], bool]:
    """``rows`` after an update, and whether anything was said to have changed."""
    changed = update_rows(rows, BatchUpdate(9, removed, new, moved), seed_of)
    return rows, changed


def test_no_update_changes_nothing() -> None:
    """None is no update."""
    rows = {0: 5}
    assert not update_rows(rows, None, seed_of)
    assert rows == {0: 5}


def test_removed_rows_lose_their_state() -> None:
    """Those without one are no change."""
    assert updated({0: 5, 1: 6}, removed=(1,)) == ({0: 5}, True)
    assert updated({0: 5}, removed=(1,)) == ({0: 5}, False)


def test_an_added_request_replaces_what_its_row_held() -> None:
    """Also where it has no state of its own."""
    assert updated({0: 5}, new=(added(0, 7),)) == ({0: 7}, True)
    assert updated({0: 5}, new=(added(0, None),)) == ({}, True)
    assert updated({}, new=(added(0, None),)) == ({}, False)


def test_a_state_that_is_false_is_a_state() -> None:
    """A seed of 0 is kept, moved and removed like any other."""
    assert updated({}, new=(added(0, 0),)) == ({0: 0}, True)
    assert updated({0: 0}, moved=(Moved(0, 1, SWAP),)) == ({1: 0}, True)
    assert updated({0: 0}, removed=(0,)) == ({}, True)


def test_a_move_replaces_and_leaves_nothing_behind() -> None:
    """Also where the request that moves has no state."""
    assert updated({0: 5, 3: 6}, moved=(Moved(3, 0, UNIDIRECTIONAL),)) == ({0: 6}, True)
    assert updated({0: 5}, moved=(Moved(3, 0, UNIDIRECTIONAL),)) == ({}, True)


def test_a_swap_changes_places() -> None:
    """Also where one of the two has no state."""
    assert updated({0: 5, 3: 6}, moved=(Moved(0, 3, SWAP),)) == ({0: 6, 3: 5}, True)
    assert updated({0: 5}, moved=(Moved(0, 3, SWAP),)) == ({3: 5}, True)
    assert updated({1: 5}, moved=(Moved(0, 3, SWAP),)) == ({1: 5}, False)


def test_the_order_is_removed_added_moved() -> None:
    """Row 1 is removed, given to a new request, and then swapped with row 0."""
    rows, _ = updated({0: 5, 1: 6}, (1,), (added(1, 7),), (Moved(0, 1, SWAP),))
    assert rows == {0: 7, 1: 5}


def test_moves_are_read_one_after_the_other() -> None:
    """A cycle of three: what row 1 got from the first swap goes on in the second."""
    rows, _ = updated({0: 5, 1: 6, 2: 7}, moved=(Moved(0, 1, SWAP), Moved(1, 2, SWAP)))
    assert rows == {0: 6, 1: 7, 2: 5}


class Named(BatchLogitsProcessor):
    """Does nothing; says whether it leaves the argmax alone."""

    invariant = False

    def is_argmax_invariant(self) -> bool:
        """As the class says."""
        return self.invariant

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """No state."""

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """No change."""
        return logits


class Invariant(Named):
    """The same, of the other group."""

    invariant = True


def test_groups_keep_the_order_given() -> None:
    """Two of each kind, interleaved."""
    device = torch.device("cpu")
    config = EngineConfig(
        model=ModelConfig(vocab_size=4), max_requests=2, max_drafts=0, device=device
    )
    a, b, c, d = (cls(config, device, False) for cls in (Named, Invariant, Named, Invariant))
    assert group_by_argmax([a, b, c, d]) == ([a, c], [b, d])


def test_parameters_are_accepted_unless_a_class_says_otherwise() -> None:
    """The default raises nothing."""
    Named.validate_params(SamplingParams())
