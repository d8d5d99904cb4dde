"""The built-in sampler on the thirty real rows, in every batch pattern: the field report's table.

On the torch path; that the kernels give the same bits is tests/kernels.
"""

import pytest
import torch

from sampler_audit.sampler import Sampler
from sampler_kernels import mass_error
from sampler_reference.conventions import CONVENTIONS
from sampler_reference.kept_sets import judge_kept
from sampler_scenarios.batches import PATTERNS, build_batch
from sampler_scenarios.cells import Cell
from sampler_scenarios.params import SamplingParams
from sampler_scenarios.real_rows import REAL_ROWS


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_kept_sets_are_exact_whoever_the_mates_are(temperature: float, pattern: str) -> None:
    """The settings of the field report, on the likeliest 4,096 tokens of every row."""
    params = SamplingParams(temperature=temperature, top_k=20, top_p=0.95, min_p=0.05)
    for slug in REAL_ROWS:
        batch = build_batch(Cell(f"{slug}@4096", params, pattern))
        filtered = Sampler("twin").filter(torch.from_numpy(batch.logits), batch.params)
        mask = (filtered[batch.index] > -torch.inf).numpy()
        row = batch.logits[batch.index]
        found = judge_kept(mask, row, params, CONVENTIONS["sampler-audit"], mass_error(4096))
        assert found.verdict == "EXACT", slug


def test_a_lost_survivor_is_noticed() -> None:
    """Power twin: three of the four tokens that stay on the field report's row."""
    params = SamplingParams(top_k=20, top_p=0.95, min_p=0.05)
    batch = build_batch(Cell("real-she-opened-the-door-and-saw@4096", params))
    kept = Sampler("twin").filter(torch.from_numpy(batch.logits), batch.params)[0] > -torch.inf
    ids = torch.nonzero(kept).flatten()
    kept[ids[batch.logits[0][ids].argmin()]] = False
    judged = judge_kept(
        kept.numpy(), batch.logits[0], params, CONVENTIONS["sampler-audit"], mass_error(4096)
    )
    assert (ids.numel(), judged.verdict) == (4, "FAIL")
