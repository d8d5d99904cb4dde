"""Right values of the fault corpus that are no single law: rows, seeds, masks and listings."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import stats

from sampler_audit.draws import NOT_REACHED
from sampler_audit.sampler import PlantedPlayer, Player
from sampler_audit.sampler.seeds import choices
from sampler_reference.defects import DEFECTS
from sampler_scenarios.batches import Batch, plain_batch
from sampler_scenarios.corpus import CORPUS
from sampler_scenarios.params import SamplingParams
from sampler_scenarios.requests import Request

OURS = Player("twin")
FLAT = np.zeros((4, 1000), np.float32)


def draw(batch: Batch, n: int, player: Player = OURS) -> NDArray[np.int64]:
    """Tokens of the audited row for seeds 0 to n - 1, ``[n]``."""
    at = torch.arange(n), torch.zeros(n, dtype=torch.int64)
    return np.asarray(player.draw(torch.from_numpy(batch.logits), batch, *at))


def test_each_row_has_its_own_top_k() -> None:
    """B13: two uniform rows of four with k = 4 and 1."""
    batch = plain_batch(FLAT[:2, :4], (SamplingParams(top_k=4), SamplingParams(top_k=1)), 0)
    kept = OURS.filtered(torch.from_numpy(batch.logits), batch) > -torch.inf
    assert kept.sum(1).tolist() == [4, 1]


def test_a_row_of_nan_leaves_its_neighbours_alone() -> None:
    """B15: best ids 3, 5, 9 beside a row of NaN; to the bit what they are without it."""
    logits = np.zeros((4, 16), np.float32)
    logits[[0, 1, 3], [3, 5, 9]] = 10
    sane = plain_batch(logits, [SamplingParams(top_k=5, top_p=0.9)] * 4, 0)
    poisoned = replace(sane, logits=logits.copy())
    poisoned.logits[2] = np.nan
    good = [0, 1, 3]
    rows = [OURS.filtered(torch.from_numpy(b.logits), b)[good] for b in (sane, poisoned)]
    assert rows[0].tolist() == rows[1].tolist()
    assert rows[1].argmax(1).tolist() == [3, 5, 9]
    assert draw(replace(poisoned, index=2), 20).tolist() == [-1] * 20


def test_a_seed_means_the_same_in_every_row() -> None:
    """B39: and four seeds give four ids of a thousand."""
    params = [SamplingParams()] * 4
    tokens = [draw(plain_batch(FLAT, params, i), 4).tolist() for i in range(4)]
    assert tokens[0] == tokens[1] == tokens[2] == tokens[3]
    assert len(set(tokens[0])) == 4


def test_choices_of_a_seeded_request_differ() -> None:
    """B41: eight, with seed 5."""
    assert len({own.seed for own in choices(SamplingParams(n=8, seed=5))}) == 8


@pytest.mark.parametrize("mate_seed", [None, 7])
def test_a_mate_without_a_seed_changes_nothing(mate_seed: int | None) -> None:
    """B42: request A with seed 42 beside B."""
    a, b = SamplingParams(seed=42), SamplingParams(seed=mate_seed)
    alone = draw(plain_batch(FLAT[:1], (a,), 0), 20)
    assert draw(plain_batch(FLAT[:2], (a, b), 0), 20).tolist() == alone.tolist()


def test_steps_repeat_a_token_by_chance_only() -> None:
    """B43: of four equal tokens a quarter of 400 steps; four standard errors are 35."""
    batch, n = plain_batch(FLAT[:1, :4], (SamplingParams(),), 0), 401
    at = torch.zeros(n, dtype=torch.int64), torch.arange(n)
    tokens = OURS.draw(torch.from_numpy(batch.logits), batch, *at)
    assert abs(int((tokens[1:] == tokens[:-1]).sum()) - 100) < 35


@pytest.mark.parametrize("entry", ["B47", "B54"])
def test_verified_drafts_have_the_targets_law(entry: str) -> None:
    """By 20,000 steps at a false-alarm rate of 1e-4; the planted twin is at 1e-20."""
    own = CORPUS[entry]
    pvalue = {}
    for name in ("", own.defects[0]):
        player = PlantedPlayer("twin", DEFECTS[name]) if name else OURS
        counts = np.bincount(draw(own.batch(), 20_000, player), minlength=3)
        pvalue[name] = stats.chisquare(counts, 20_000 * np.array(own.probs)).pvalue
    assert pvalue[""] > 1e-4
    assert pvalue[own.defects[0]] < 1e-20


def test_a_certain_draft_leaves_the_law_alone() -> None:
    """B55, a control: .5 .3 .2 with draft 2, accepted in a fifth of the steps; alpha 1e-4."""
    rows = np.log(np.array([[0.5, 0.3, 0.2]] * 2, np.float32))
    batch = Batch(rows, (Request(),), 0, drafts=((2,),))
    counts = np.bincount(draw(batch, 20_000), minlength=3)
    assert stats.chisquare(counts, 20_000 * np.array([0.5, 0.3, 0.2])).pvalue > 1e-4
    bonus = draw(replace(batch, index=1), 20_000)
    assert (bonus != NOT_REACHED).mean() == pytest.approx(0.2, abs=0.015)


def test_constraints_that_leave_nothing_draw_nothing() -> None:
    """B65: an allow-list of one token, which a bad word bans."""
    assert draw(CORPUS["B65"].batch(), 5).tolist() == [-1] * 5


@pytest.mark.parametrize(("emitted", "masked"), [(2, True), (3, True), (4, False)])
def test_stop_tokens_wait_for_min_tokens(emitted: int, masked: bool) -> None:
    """B66: min_tokens 4; every stop token, the model's and the request's, biased by 100."""
    batch = CORPUS["B66"].batch()
    request = replace(batch.requests[0], output_token_ids=(0,) * emitted)
    batch = replace(batch, requests=(request,))
    row = OURS.filtered(torch.from_numpy(batch.logits), batch)[0]
    stops = [3, *batch.model.eos_token_ids]
    assert torch.isneginf(row[stops]).tolist() == [masked] * len(stops)


def test_a_listing_has_distinct_ids_with_their_ranks() -> None:
    """B78: logits 9 8 7 6, three listed: the sampled id and the others of the best three."""
    batch = plain_batch(
        np.array([[9, 8, 7, 6]], np.float32), (SamplingParams(temperature=0.0, logprobs=3),), 0
    )
    step = OURS.step(torch.from_numpy(batch.logits), batch, np.array([1]))
    listed = step.log_probs[0]
    assert listed is not None
    assert listed[0].token_ids.tolist() == [0, 1, 2]
    assert listed[0].ranks.tolist() == [1, 2, 3]


def test_listed_values_are_the_models_own() -> None:
    """B75: the logarithms of .1 .2 .3 .4, whatever temperature and top_k say."""
    logits = np.log(np.array([[0.1, 0.2, 0.3, 0.4]], np.float32))
    params = SamplingParams(temperature=0.5, top_k=2, logprobs=-1)
    batch = plain_batch(logits, (params,), 0)
    listed = OURS.step(torch.from_numpy(logits), batch, np.array([1])).log_probs[0]
    assert listed is not None
    values = dict(zip(listed[0].token_ids.tolist(), listed[0].values.tolist(), strict=True))
    published = {0: -2.303, 1: -1.609, 2: -1.204, 3: -0.916}
    assert values == pytest.approx(published, abs=1e-3)
