from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from sampler_audit.draws import Listed, Stepped, Target
from sampler_audit.sampler import Player
from sampler_audit.state_probe import check_rows, check_steps, check_verified
from sampler_reference.conventions import CONVENTIONS
from sampler_scenarios.batches import Batch, build_batch
from sampler_scenarios.cells import parse_cell

OWN = CONVENTIONS["sampler-audit"]


def batch_of(pattern: str) -> Batch:
    """Rows with stages, of which every request but the first lists log-probs."""
    return build_batch(parse_cell(f"bf16-rounded@256/top_k=20/batch={pattern}/stages=logit_bias"))


def shown(batch: Batch) -> NDArray[np.float32]:
    """What the torch twins draw from."""
    rows: NDArray[np.float32] = (
        Player("twin").filtered(torch.from_numpy(batch.logits), batch).numpy()
    )
    return rows


@dataclass(frozen=True)
class Stepping:
    """Answers ``step`` alone: the built-in sampler's, after a change."""

    change: Callable[[Stepped], Stepped] = lambda stepped: stepped

    def step(self, batch: Batch, seeds: NDArray[np.int64]) -> Stepped:
        """One step on the torch twins."""
        step = Player("twin").step(torch.from_numpy(batch.logits), batch, seeds)
        first = [None if each is None else each[0] for each in step.log_probs]
        return self.change(
            Stepped(
                np.array([tokens[0] for tokens in step.token_ids]),
                tuple(None if e is None else Listed(e.token_ids, e.values, e.ranks) for e in first),
            )
        )


def steps(
    change: Callable[[Stepped], Stepped], noise_name: str = OWN.noise
) -> list[tuple[str, str, str]]:
    """The two checks of steps, on a batch whose rows changed places before."""
    batch, target = batch_of("swapped"), Stepping(change)
    asked = {"noise_name": noise_name, "cell_id": "x"}
    checks = check_steps(batch, shown(batch), as_target(target), OWN, seed=3, **asked)
    return [(check.check, check.outcome, check.reason) for check in checks]


def as_target(target: Stepping) -> Target:
    """Only ``step`` is asked for."""
    return target  # type: ignore[return-value]


def test_a_right_sampler_passes() -> None:
    """Rows, tokens and lists; and a redraw after a drawn draft."""
    batch = batch_of("staggered")
    rows = range(len(batch.logits))
    assert check_rows(shown(batch), batch, rows, OWN, error=0.0).outcome == "pass"
    assert [outcome for _, outcome, _ in steps(lambda stepped: stepped)] == ["pass", "pass"]


def test_a_mate_with_a_wrong_logit_is_found() -> None:
    """Row 0 is not the audited one."""
    batch = batch_of("staggered")
    rows = shown(batch).copy()
    rows[0, rows[0].argmax()] += 1
    assert check_rows(rows, batch, [batch.index], OWN, error=0.0).outcome == "pass"
    assert check_rows(rows, batch, range(len(rows)), OWN, error=0.0).outcome == "fail"


@pytest.mark.parametrize(
    ("change", "check", "words"),
    [
        (lambda s: replace(s, token_ids=np.roll(s.token_ids, 1)), "seeds", "step, request"),
        (lambda s: replace(s, listed=(s.listed[1], *s.listed[1:])), "log-probs", "unasked"),
        (lambda s: replace(s, listed=(None, None, *s.listed[2:])), "log-probs", "lists nothing"),
        (lambda s: replace(s, listed=(None, s.listed[2], *s.listed[2:])), "log-probs", "request 1"),
    ],
)
def test_a_step_that_mixes_requests_up_is_found(
    change: Callable[[Stepped], Stepped], check: str, words: str
) -> None:
    """Tokens moved by a row; a list that nobody asked for, one too few, and another row's."""
    failed = {name: reason for name, outcome, reason in steps(change) if outcome == "fail"}
    assert words in failed[check]


def masked(stepped: Stepped) -> Stepped:
    """The last request emits the least likely token of its row."""
    batch = batch_of("swapped")
    return replace(
        stepped,
        token_ids=np.array([*stepped.token_ids[:-1], shown(batch)[-1].argmin()]),
        listed=(*stepped.listed[:-1], None),
    )


def test_without_known_noise_a_token_must_be_one_that_is_left() -> None:
    """Another seed's token passes then; one that is filtered out never does."""
    assert steps(lambda stepped: stepped, noise_name="")[0][:2] == ("seeds", "pass")
    name, outcome, reason = steps(masked, noise_name="")[0]
    assert (name, outcome) == ("seeds", "fail")
    assert "which its row does not keep" in reason


def test_a_redraw_with_other_noise_is_found() -> None:
    """Right tokens pass; those of the next position do not."""
    batch = build_batch(parse_cell("dense-normal@256/top_k=20/batch=drawn-draft-1"))
    seeds, positions = np.arange(300), np.arange(300) * 7
    logits = torch.from_numpy(batch.logits)
    at = torch.from_numpy(seeds), torch.from_numpy(positions)
    tokens = Player("twin").draw(logits, batch, *at).numpy()
    rows = shown(batch)
    assert check_verified(batch, rows, tokens, seeds, positions).outcome == "pass"
    wrong = check_verified(batch, rows, tokens, seeds, positions + 1)
    assert wrong.outcome == "fail"
    assert "verified tokens are not those of their noise" in wrong.reason
