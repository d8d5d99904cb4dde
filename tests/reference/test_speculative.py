"""The law of speculative verification: hand-computed, published, and exact at every position."""

from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sampler_reference import speculative as sd

Float = NDArray[np.float64]

VERIFIES = {"standard": sd.standard_law, "block": sd.block_law}


def probs(*values: float) -> Float:
    """Float64 row."""
    return np.array(values)


def conditional(seed: int, vocab_size: int, zeros: float = 0) -> sd.Conditional:
    """A random law after every prefix, in which about ``zeros`` of the tokens have none."""

    @cache
    def law(prefix: sd.Prefix) -> Float:
        rng = np.random.default_rng([seed, *prefix])
        weights = rng.dirichlet(np.full(vocab_size, 0.7)) * (rng.random(vocab_size) >= zeros)
        weights[rng.integers(vocab_size)] += 0.1
        return np.asarray(weights / weights.sum())

    return law


def fixed(row: Float) -> sd.Conditional:
    """The same law after every prefix."""
    return lambda _: row


def worst_error(law: Mapping[sd.Prefix, float], target: sd.Conditional, vocab_size: int) -> float:
    """Largest deviation from the target's law after any prefix that is reached."""
    laws = sd.next_token_laws(dict(law), vocab_size)
    return max(float(np.abs(probs - target(prefix)).max()) for prefix, probs in laws.items())


def test_closed_forms_of_one_draft() -> None:
    """Target .2 .45 .35, draft .7 .28 .02: min is .2 .28 .02; .17 and .33 are left of the rest."""
    p, q = probs(0.2, 0.45, 0.35), probs(0.7, 0.28, 0.02)
    assert sd.acceptance_probability(p, q) == pytest.approx(0.5)
    assert sd.residual(p, q) == pytest.approx([0, 0.34, 0.66])


def test_nothing_is_left_where_draft_and_target_agree() -> None:
    """Then every draft is accepted; what q never proposes is still replaced, by a draw from p."""
    p = probs(0.25, 0.75, 0)
    assert sd.acceptance_probability(p, p) == 1
    assert sd.standard_law(np.array([p, p]), (1,), p[None]) == {(1, 0): 0.25, (1, 1): 0.75}
    for verify in VERIFIES.values():
        assert verify(np.array([p, p]), (2,), p[None]) == {(0,): 0.25, (1,): 0.75}


def test_a_masked_draft_is_never_emitted_and_one_without_q_always() -> None:
    """Where p is 0 nothing is accepted, whatever q says; where only q is 0, everything is."""
    p, bonus = probs(0, 0.4, 0.6), probs(1, 0, 0)
    for q in (probs(1, 0, 0), probs(0, 1, 0)):
        for verify in VERIFIES.values():
            law = verify(np.array([p, bonus]), (0,), q[None])
            assert all(tokens[0] != 0 for tokens in law)
            assert sum(law.values()) == pytest.approx(1)
    for verify in VERIFIES.values():
        assert verify(np.array([p, bonus]), (2,), probs(0, 1, 0)[None]) == {(2, 0): 1}


def test_standard_law_of_given_drafts_by_hand() -> None:
    """Target 1/3 2/3, draft 2/3 1/3, drafts 0 0: each is accepted with 1/2, else replaced by 1."""
    p, q = np.tile([1 / 3, 2 / 3], (3, 1)), np.tile([2 / 3, 1 / 3], (2, 1))
    expected = {(1,): 1 / 2, (0, 1): 1 / 4, (0, 0, 0): 1 / 12, (0, 0, 1): 1 / 6}
    assert sd.standard_law(p, (0, 0), q) == pytest.approx(expected)


def test_block_law_of_given_drafts_by_hand() -> None:
    """The same: r = 1/2 1/4, nothing left after one draft (S = 0), so both stay or neither."""
    p, q = np.tile([1 / 3, 2 / 3], (3, 1)), np.tile([2 / 3, 1 / 3], (2, 1))
    expected = {(1,): 3 / 4, (0, 0, 0): 1 / 12, (0, 0, 1): 1 / 6}
    assert sd.block_law(p, (0, 0), q) == pytest.approx(expected)


@pytest.mark.parametrize(("name", "accepted"), [("standard", 10 / 9), ("block", 11 / 9)])
def test_published_acceptance_of_two_drafts(name: str, accepted: float) -> None:
    """Sun et al., ICLR 2025, their motivating example: target 1/3 2/3, draft 2/3 1/3."""
    target, draft = fixed(probs(1 / 3, 2 / 3)), fixed(probs(2 / 3, 1 / 3))
    law = sd.emitted_law(sd.rows_of(target), sd.propose(draft, 2), draft, VERIFIES[name])
    # One token follows the accepted ones.
    assert sd.mean_length(law) == pytest.approx(accepted + 1)


def test_one_hot_draft_is_accepted_with_its_probability() -> None:
    """.5 .3 .2 and draft 1: .3, else .5 .2 renormalised; the bonus token is drawn from its row."""
    p = np.array([[0.5, 0.3, 0.2], [0.1, 0.0, 0.9]])
    expected = {(0,): 0.5, (2,): 0.2, (1, 0): 0.03, (1, 2): 0.27}
    for verify in VERIFIES.values():
        assert verify(p, (1,), None) == pytest.approx(expected)


@pytest.mark.parametrize("verify", VERIFIES.values())
def test_a_placeholder_is_a_plain_draw_that_ends_the_step(verify: sd.Verify) -> None:
    """Rows and drafts behind it do not count."""
    p, q = np.array([[0.5, 0.5], [0.2, 0.8], [1, 0]]), np.array([[0.5, 0.5], [0, 1]])
    assert verify(p, (-1, 1), q) == {(0,): 0.5, (1,): 0.5}
    assert verify(p, (0, -1), q) == pytest.approx({(0, 0): 0.2, (0, 1): 0.8})
    assert verify(p, (0, -1), None) == pytest.approx({(0, 0): 0.1, (0, 1): 0.4, (1,): 0.5})


@pytest.mark.parametrize("verify", VERIFIES.values())
def test_a_greedy_target_emits_its_own_tokens(verify: sd.Verify) -> None:
    """Temperature 0 leaves one token: a draft is accepted where it is that token."""
    p = np.eye(3)[[2, 0, 1]]
    q = np.tile([0.2, 0.3, 0.5], (2, 1))
    assert verify(p, (2, 0), q) == pytest.approx({(2, 0, 1): 1})
    assert verify(p, (2, 1), q) == pytest.approx({(2, 0): 1})
    assert verify(p, (1, 0), None) == pytest.approx({(2,): 1})


def test_a_step_without_drafts_is_a_draw() -> None:
    """Only the bonus row is there."""
    target = fixed(probs(0.25, 0.75))
    for verify in VERIFIES.values():
        law = sd.emitted_law(sd.rows_of(target), sd.propose(target, 0), target, verify)
        assert law == {(0,): 0.25, (1,): 0.75}


def test_proposals_are_the_law_of_the_drafts() -> None:
    """Each draft is drawn after the ones before it; placeholders follow."""
    draft = {(): probs(0.25, 0.75), (0,): probs(1, 0), (1,): probs(0.5, 0.5)}
    law = sd.propose(lambda prefix: draft[prefix], 2, n_placeholders=1)
    assert law == {(0, 0, -1): 0.25, (1, 0, -1): 0.375, (1, 1, -1): 0.375}


steps = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**32 - 1),
        "vocab_size": st.integers(2, 5),
        "n_drafts": st.integers(0, 3),
        "n_placeholders": st.integers(0, 1),
        "zeros": st.sampled_from([0.0, 0.4]),
    }
)


def laws(
    seed: int, vocab_size: int, n_drafts: int, n_placeholders: int, zeros: float, verify: sd.Verify
) -> tuple[sd.Conditional, list[dict[sd.Prefix, float]]]:
    """The target; and a step's law with q, with the same drafts but no q, and with one draft."""
    target, draft = conditional(seed, vocab_size, zeros), conditional(seed + 1, vocab_size, zeros)
    drawn = sd.propose(draft, n_drafts, n_placeholders)
    alone = {next(iter(drawn)): 1.0}
    rows: Callable[[sd.Prefix], Float] = sd.rows_of(target)
    told = [(drawn, draft), (drawn, None), (alone, None)]
    return target, [sd.emitted_law(rows, proposals, q, verify) for proposals, q in told]


@settings(derandomize=True)
@given(step=steps, name=st.sampled_from(sorted(VERIFIES)))
def test_every_position_that_is_reached_follows_the_target(step: dict[str, int], name: str) -> None:
    """Exactly, with q, without, and for drafts that are always the same: only rounding remains."""
    target, emitted = laws(**step, verify=VERIFIES[name])
    for law in emitted:
        assert sum(law.values()) == pytest.approx(1, abs=1e-12)
        assert worst_error(law, target, step["vocab_size"]) < 1e-12


@settings(derandomize=True)
@given(step=steps)
def test_block_verification_never_emits_fewer_tokens(step: dict[str, int]) -> None:
    """Sun et al., ICLR 2025: never worse than token by token."""
    _, standard = laws(**step, verify=sd.standard_law)
    _, block = laws(**step, verify=sd.block_law)
    for a, b in zip(standard, block, strict=True):
        assert sd.mean_length(b) > sd.mean_length(a) - 1e-12


def test_a_verifier_told_another_q_is_wrong() -> None:
    """Drafts from .6 .4, q said to be .5 .5: B54's other half; both rules show it."""
    target, drawn = fixed(probs(0.3, 0.7)), sd.propose(fixed(probs(0.6, 0.4)), 1)
    for verify in VERIFIES.values():
        law = sd.emitted_law(sd.rows_of(target), drawn, fixed(probs(0.5, 0.5)), verify)
        # By hand: .6 * .3/.5 is accepted as 0, and nothing else becomes 0.
        assert sd.next_token_laws(law, 2)[()] == pytest.approx([0.36, 0.64])
