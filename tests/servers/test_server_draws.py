import pytest

from sampler_audit.servers._draws import join_draws, share_out


def parts(n: int, seeds: list[int] | None, most: int, *, counts_up: bool = True) -> list[object]:
    """(n, seed of the request) of every part."""
    shared = share_out(n, seeds, most, counts_up=counts_up)
    return [(part.n, part.seed) for part in shared]


@pytest.mark.parametrize(("n", "sizes"), [(0, []), (3, [3]), (4, [4]), (10, [4, 4, 2])])
def test_unseeded_draws_fill_requests(n: int, sizes: list[int]) -> None:
    """As many a request as may be."""
    assert parts(n, None, 4) == [(size, None) for size in sizes]


def test_consecutive_seeds_share_a_request_where_the_engine_counts_up() -> None:
    """Choice i has the seed of the request plus i, so runs go together and jumps do not."""
    assert parts(6, [5, 6, 7, 9, 10, 3], 2) == [(2, 5), (1, 7), (2, 9), (1, 3)]


def test_else_every_seed_is_a_request_of_its_own() -> None:
    """Where all choices of a request have one seed, they are one draw."""
    assert parts(3, [5, 6, 7], 8, counts_up=False) == [(1, 5), (1, 6), (1, 7)]


def test_a_seed_for_each_draw() -> None:
    """Given, and wanted."""
    with pytest.raises(ValueError, match="one a draw: 3 draws, 2 seeds"):
        parts(3, [1, 2], 8)


def test_no_draws_still_have_a_shape() -> None:
    """So that callers need no special case."""
    assert join_draws([], 3).token_ids.shape == (0, 3)
