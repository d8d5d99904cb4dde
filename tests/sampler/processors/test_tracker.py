"""From the order of requests to updates: by hand from vLLM's rules, and by random churn."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from sampler_audit.sampler.processors import (
    BatchTracker,
    BatchUpdate,
    LiveRequest,
    Moved,
    MoveDirectionality,
    update_rows,
)
from sampler_scenarios.params import SamplingParams

UNIDIRECTIONAL, SWAP = MoveDirectionality.UNIDIRECTIONAL, MoveDirectionality.SWAP
# Every third is one that a processor keeps no state of.
POOL = {
    name: LiveRequest(SamplingParams(seed=None if i % 3 == 2 else i), [i], [])
    for i, name in enumerate("abcdefghij")
}
States = dict[int, int]


def change(before: str, after: str) -> BatchUpdate | None:
    """The update between two steps, each spelled as its rows."""
    tracker = BatchTracker()
    tracker.update([POOL[name] for name in before])
    return tracker.update([POOL[name] for name in after])


def changed(before: str, after: str) -> tuple[int, list[int], dict[int, int | None], list[Moved]]:
    """The same as plain values; of an added request its row and its seed."""
    update = change(before, after)
    assert update is not None
    added = {row: params.seed for row, params, _, _ in update.added}
    return update.batch_size, list(update.removed), added, list(update.moved)


def test_the_first_requests_are_added_in_order() -> None:
    """At rows 0, 1, 2."""
    assert changed("", "abc") == (3, [], {0: 0, 1: 1, 2: None}, [])


def test_nothing_changed_is_none() -> None:
    """Also for an empty batch that stays empty."""
    assert change("abc", "abc") is None
    assert change("", "") is None


def test_lists_are_handed_over_by_reference() -> None:
    """The output of an added request is its own list, which is seen to grow; so is the prompt."""
    update = change("", "b")
    assert update is not None
    ((_, _, prompt_token_ids, output_token_ids),) = update.added
    assert prompt_token_ids is POOL["b"].prompt_token_ids
    assert output_token_ids is POOL["b"].output_token_ids


# By hand, as vllm 0.32.0 does it: v1/worker/gpu_input_batch.py, add_request, condense, swap_states.
def test_a_new_request_takes_the_lowest_free_row() -> None:
    """Rows 1 and 3 become free: b's goes to f, d's to g; neither counts as removed."""
    assert changed("abcde", "afcge") == (5, [], {1: None, 3: 6}, [])


def test_new_requests_beyond_the_free_rows_go_to_the_end() -> None:
    """One row is free and two requests are new."""
    assert changed("abc", "agcd") == (4, [], {1: 6, 3: 3}, [])


def test_a_row_left_free_is_filled_from_the_end() -> None:
    """Row 1 is free, and the request of row 3, the last, moves there."""
    assert changed("abcd", "adc") == (3, [], {}, [Moved(3, 1, UNIDIRECTIONAL)])


def test_the_lowest_free_row_is_filled_first() -> None:
    """Rows 0 and 1 are free; row 4 moves to 0, then row 3 to 1."""
    moved = [Moved(4, 0, UNIDIRECTIONAL), Moved(3, 1, UNIDIRECTIONAL)]
    assert changed("abcde", "edc") == (3, [], {}, moved)


def test_free_rows_at_the_end_are_removed() -> None:
    """From the last to the first."""
    assert changed("abcd", "a") == (1, [3, 2, 1], {}, [])
    assert changed("abcd", "") == (0, [3, 2, 1, 0], {}, [])


def test_a_row_emptied_by_a_move_is_not_removed() -> None:
    """Rows 0 and 3 are free: 2 moves to 0, only 3 is removed."""
    assert changed("abcd", "cb") == (2, [3], {}, [Moved(2, 0, UNIDIRECTIONAL)])


def test_two_rows_that_change_places_are_swapped() -> None:
    """Once, the lower row first."""
    assert changed("abcd", "adcb") == (4, [], {}, [Moved(1, 3, SWAP)])


def test_an_order_nobody_condenses_to_ends_in_swaps() -> None:
    """Row 0 is free, d moves there, and is then swapped to where it was asked for."""
    moved = [Moved(3, 0, UNIDIRECTIONAL), Moved(0, 1, SWAP), Moved(1, 2, SWAP)]
    assert changed("abcd", "bcd") == (3, [], {}, moved)


def test_whoever_misses_a_step_is_added_again() -> None:
    """With the output that it has by then."""
    tracker, request = BatchTracker(), LiveRequest(SamplingParams(), [1], [])
    tracker.update([request])
    request.output_token_ids.append(5)
    tracker.update([])
    update = tracker.update([request])
    assert update is not None
    assert update.added[0].output_token_ids == [5]


def test_a_request_admitted_again_is_another_one() -> None:
    """Equal parameters and tokens do not make it the same."""
    tracker = BatchTracker()
    tracker.update([LiveRequest(SamplingParams(seed=1))])
    assert tracker.update([LiveRequest(SamplingParams(seed=1))]) is not None


def read_as_documented(states: States, update: BatchUpdate) -> None:
    """Removed, added, moved, on rows that must be what each says they are."""
    for row in update.removed:
        states.pop(row, None)
    for row, params, _, _ in update.added:
        states.pop(row, None)
        states |= {} if params.seed is None else {row: params.seed}
    for first, second, direction in update.moved:
        left, right = states.pop(first, None), states.pop(second, None)
        states |= {} if left is None else {second: left}
        states |= {} if right is None or direction is UNIDIRECTIONAL else {first: right}


def read_added_first(states: States, update: BatchUpdate) -> None:
    """Added, removed, moved: what vLLM's own ``process_dict_updates`` does."""
    read_as_documented(states, BatchUpdate(update.batch_size, [], update.added, []))
    read_as_documented(states, BatchUpdate(update.batch_size, update.removed, [], update.moved))


def read_by_helper(states: States, update: BatchUpdate) -> None:
    """Ours."""
    update_rows(states, update, lambda params, _prompt, _output: params.seed)


orders = st.lists(st.sampled_from(sorted(POOL)), unique=True).map("".join)


@settings(derandomize=True, deadline=None)
@given(steps=st.lists(orders, max_size=12))
def test_after_any_churn_each_row_has_the_state_of_its_request(steps: list[str]) -> None:
    """Equal to a fresh start with the last step, whichever way the updates are read."""
    tracker = BatchTracker()
    updates = [tracker.update([POOL[name] for name in step]) for step in steps]
    seeds = [POOL[name].params.seed for name in (steps or [""])[-1]]
    fresh = {row: seed for row, seed in enumerate(seeds) if seed is not None}
    for read in (read_as_documented, read_added_first, read_by_helper):
        states: States = {}
        for update in filter(None, updates):
            read(states, update)
        assert states == fresh


@settings(derandomize=True, deadline=None)
@given(steps=st.lists(orders, min_size=2, max_size=12))
def test_updates_say_no_more_than_is_true(steps: list[str]) -> None:
    """None exactly where nothing changed; no row removed and added; moves end in the batch."""
    tracker = BatchTracker()
    for before, after in itertools.pairwise(["", *steps]):
        update = tracker.update([POOL[name] for name in after])
        assert (update is None) == (before == after)
        if update:
            assert not set(update.removed) & {added.row for added in update.added}
            assert len(update.added) == len(set(after) - set(before))
            assert all(move.second < len(after) for move in update.moved)
