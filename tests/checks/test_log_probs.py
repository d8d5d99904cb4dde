from dataclasses import replace

import numpy as np
import pytest

from sampler_audit.checks import log_probs
from sampler_audit.draws import Listed
from sampler_reference.log_probs import list_tokens, log_softmax

VALUES = log_softmax(np.log(np.array([0.1, 0.4, 0.2, 0.2, 0.1])))
EXPECTED = list_tokens(VALUES, 4, 3)
RIGHT = Listed(EXPECTED.token_ids, EXPECTED.values.astype(np.float32), EXPECTED.ranks)


def outcome(found: Listed, *, chosen: bool = False) -> tuple[str, str]:
    """What the check says."""
    result = log_probs.check(found, EXPECTED, VALUES, chosen=chosen, who="request 2")
    return result.outcome, result.reason


def test_the_right_list_passes() -> None:
    """.4, then the two .2 in any order, behind the sampled token 4; tied ranks are the worst."""
    assert RIGHT.ranks.tolist() == [5, 1, 3, 3]
    swapped = replace(RIGHT, token_ids=np.array([4, 1, 3, 2]))
    assert outcome(RIGHT)[0] == outcome(swapped)[0] == "pass"
    assert outcome(swapped, chosen=True)[1] == "request 2: token 3 is listed in place of token 2"


def test_ranks_that_the_engine_does_not_say_are_not_asked_for() -> None:
    """Those of all but the sampled token, whose own still counts."""
    assert outcome(replace(RIGHT, ranks=np.array([5, -1, -1, -1])))[0] == "pass"
    assert outcome(replace(RIGHT, ranks=np.array([4, -1, -1, -1])))[0] == "fail"


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (Listed(RIGHT.token_ids[:3], RIGHT.values[:3], RIGHT.ranks[:3]), "3 tokens are listed"),
        (replace(RIGHT, token_ids=np.array([4, 1, 1, 2])), "listed twice"),
        (replace(RIGHT, token_ids=np.array([0, 1, 2, 3])), "begins with token 0"),
        (replace(RIGHT, token_ids=np.array([4, 0, 2, 3])), "token 0 is listed in place of token 1"),
        (replace(RIGHT, token_ids=np.array([4, 1, 9, 3])), "token 9 is listed in place of token 2"),
        (replace(RIGHT, values=RIGHT.values + np.float32(1e-4)), "token 4 has -2.30249"),
        (replace(RIGHT, ranks=np.array([4, 1, 2, 2])), "rank 4 instead of 5"),
    ],
)
def test_a_wrong_list_fails_and_says_how(found: Listed, words: str) -> None:
    """The first complaint, with whose list it is."""
    verdict, reason = outcome(found)
    assert verdict == "fail"
    assert reason.startswith("request 2: ")
    assert words in reason
