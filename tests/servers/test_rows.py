import math

import numpy as np
import pytest

from sampler_audit.errors import ServerNonsense
from sampler_audit.servers._rows import Entry, Step, Vocabulary, join_rows, read_row

HALF, QUARTER = math.log(0.5), math.log(0.25)


def entries(*pairs: tuple[int, float]) -> tuple[Entry, ...]:
    """Entries of (token, log-prob)."""
    return tuple(Entry(token, logprob) for token, logprob in pairs)


def test_a_row_is_sorted_and_knows_what_it_lacks() -> None:
    """Likeliest first, of equal ones the lowest id; the rest is the tail: 1 - .5 - .25."""
    row = read_row(Step(None, entries((7, QUARTER), (3, HALF))), Vocabulary(9), "POST /p")
    assert row.token_ids.tolist() == [3, 7]
    assert row.tail == pytest.approx(0.25)
    assert not row.complete
    tied = read_row(Step(None, entries((5, QUARTER), (1, QUARTER))), Vocabulary(2**40), "POST /p")
    assert tied.token_ids.tolist() == [1, 5]


def test_a_row_of_the_whole_vocabulary_says_so() -> None:
    """Only where its size is known."""
    step = Step(None, entries((0, HALF), (1, HALF)))
    assert read_row(step, Vocabulary(2), "POST /p").complete
    assert not read_row(step, Vocabulary(), "POST /p").complete


def test_a_token_that_was_appended_is_dropped() -> None:
    """Servers put the drawn token into a list in which it does not belong."""
    step = Step(Entry(9, -7.0), entries((9, -7.0), (0, HALF), (1, QUARTER)))
    row = read_row(step, Vocabulary(), "POST /p", 2)
    assert (row.token_ids.tolist(), row.own, row.own_logprob) == ([0, 1], 9, -7.0)
    inside = read_row(Step(Entry(1, QUARTER), step.listed[1:]), Vocabulary(), "POST /p", 2)
    assert inside.token_ids.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("listed", "words"),
    [
        (entries((1, HALF), (1, QUARTER)), "token '1' is listed twice"),
        (entries((0, HALF), (1, HALF), (2, QUARTER)), "the listed probabilities sum to 1.2500"),
        (entries((0, 12.5), (1, 3.0)), "12.5 is above 0, so these are logits"),
        (
            entries(
                (8, HALF),
            ),
            "token id 8 lies outside the vocabulary .8 tokens",
        ),
        (
            entries(
                (-1, HALF),
            ),
            "token id -1 lies outside",
        ),
    ],
)
def test_a_list_that_cannot_be_right_is_refused(listed: tuple[Entry, ...], words: str) -> None:
    """No statistics are needed for these."""
    with pytest.raises(ServerNonsense, match=words):
        read_row(Step(None, listed), Vocabulary(8), "POST /p")


def test_fp32_rounding_is_no_excess_mass() -> None:
    """Eight times 1/8, each log-prob printed with four digits."""
    listed = entries(*((token, -2.079) for token in range(8)))
    assert read_row(Step(None, listed), Vocabulary(8), "POST /p").tail == 0.0


def test_slices_join_into_one_row() -> None:
    """And an overlap is a token listed twice."""
    vocabulary = Vocabulary(4)
    parts = [
        read_row(Step(None, entries(*pairs)), vocabulary, "POST /p")
        for pairs in (((0, QUARTER), (1, HALF)), ((2, math.log(0.125)), (3, math.log(0.125))))
    ]
    row = join_rows(parts, vocabulary, "POST /p")
    assert (row.token_ids.tolist(), row.complete) == ([1, 0, 2, 3], True)
    with pytest.raises(ServerNonsense, match="listed twice"):
        join_rows([parts[0], parts[0]], vocabulary, "POST /p")


def test_a_forced_support_keeps_the_odds() -> None:
    """Of .5 and .25 alone: 2/3 and 1/3, exactly."""
    step = Step(None, entries((3, HALF), (7, QUARTER), (8, math.log(0.125))))
    row = read_row(step, Vocabulary(), "POST /p").restricted([7, 3])
    assert np.exp(row.logprobs).tolist() == pytest.approx([2 / 3, 1 / 3])
    assert row.complete


def test_strings_get_numbers_and_keep_their_names() -> None:
    """The same bytes have the same number; bytes that are no text have a name all the same."""
    vocabulary = Vocabulary(ids=False)
    assert [vocabulary.number(token) for token in (b" a", b"\xff", b" a")] == [0, 1, 0]
    assert (vocabulary.name(0), vocabulary.name(1), vocabulary.name(5)) == (" a", "\\xff", "5")


def test_a_string_is_no_id() -> None:
    """It would get a number of ours and be taken for another token."""
    with pytest.raises(ServerNonsense, match="' a' is told by text where ids were asked for"):
        Vocabulary(8).number(b" a")


def test_an_id_has_the_name_that_was_told_last() -> None:
    """A text is told with some answers only."""
    vocabulary = Vocabulary(10)
    assert vocabulary.number(4, " sunny") == vocabulary.number(4) == 4
    assert vocabulary.name(4) == " sunny"
