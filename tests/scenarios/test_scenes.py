import json

import numpy as np
import pytest

from sampler_scenarios.batches import Batch, build_batch
from sampler_scenarios.cells import parse_cell
from sampler_scenarios.params import STAGES
from sampler_scenarios.patterns import PATTERNS
from sampler_scenarios.requests import Request
from sampler_scenarios.scenes import from_scene, needs_scene, to_scene


def batch_of(pattern: str, stages: str = "") -> Batch:
    """A small batch of that pattern."""
    stages = f"/stages={stages}" if stages else ""
    return build_batch(parse_cell(f"dense-normal@256/top_k=20,top_p=0.95/batch={pattern}{stages}"))


def same(a: Request, b: Request) -> bool:
    """Equal in every field."""
    grammars = a.grammar is b.grammar is None or np.array_equal(a.grammar, b.grammar)  # type: ignore[arg-type]
    tokens = (a.prompt_token_ids, a.output_token_ids) == (b.prompt_token_ids, b.output_token_ids)
    return a.params == b.params and tokens and grammars


@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_batch_comes_back_equal_through_json(pattern: str) -> None:
    """With all stages on, whose parameters are of every kind."""
    batch = batch_of(pattern, "+".join(STAGES))
    scene, arrays = to_scene(batch)
    again = from_scene(batch.logits, json.loads(json.dumps(scene)), arrays)
    pairs = zip((*batch.requests, *batch.leavers), (*again.requests, *again.leavers), strict=True)
    assert all(same(a, b) for a, b in pairs)
    assert (batch.past, batch.drafts, batch.index) == (again.past, again.drafts, again.index)
    if batch.draft_logits is not None:
        assert np.array_equal(batch.draft_logits, arrays["draft_logits"])


def test_a_plain_batch_needs_no_scene() -> None:
    """Arrays of the four filters say all of it; a stage, a past or drafts do not fit in there."""
    assert not needs_scene(batch_of("mixed-8"))
    assert needs_scene(batch_of("alone", "logit_bias"))
    assert needs_scene(batch_of("recycled"))
    assert needs_scene(batch_of("draft-1"))


def test_rows_of_drafts_see_the_drafts_before_them() -> None:
    """The audited request stands in rows 1 to 3, after a mate that has one row; a mate follows."""
    batch = batch_of("draft-bonus")
    first, second = batch.drafts[1]
    own = batch.requests[1]
    assert batch.owners == ((0, 0), (1, 0), (1, 1), (1, 2), (2, 0))
    assert batch.index == 3
    assert batch.rows[3].output_token_ids == (*own.output_token_ids, first, second)
    assert batch.rows[1].output_token_ids == own.output_token_ids
