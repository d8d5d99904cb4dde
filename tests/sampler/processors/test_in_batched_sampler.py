"""The examples in the whole sampler: mixed batches, drafts, slots that are used again."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from sampler_audit.sampler.admission import RequestRefused
from sampler_audit.sampler.batched import BatchedSampler
from sampler_audit.sampler.processors import ProcessorRefused
from sampler_reference.conventions import CONVENTIONS
from sampler_reference.processors import process
from sampler_scenarios.params import SamplingParams
from sampler_scenarios.requests import ModelConfig, Request

EXAMPLES = "sampler_audit.sampler.processors.examples"
DRY = f"{EXAMPLES}.dry:Dry"
TARGET = f"{EXAMPLES}.target_token:TargetToken"
BY_REQUEST = f"{EXAMPLES}.target_token:TargetTokenByRequest"
END = f"{EXAMPLES}.end_after:EndAfter"
V = 32
MODEL = ModelConfig(vocab_size=V, max_model_len=64, eos_token_ids=(4, 5))
LOGITS = torch.from_numpy(np.random.default_rng(11).normal(0, 2, (12, V)).astype(np.float32))


def sampler(*processors: str, max_drafts: int = 0) -> BatchedSampler:
    """Ours on the torch twins, with these processors."""
    return BatchedSampler(
        MODEL,
        path="twin",
        processors=processors,
        rng=np.random.default_rng(0),
        max_requests=4,
        max_drafts=max_drafts,
    )


def asking(seed: int, **extra_args: object) -> Request:
    """A request of a repetitive prompt with these extra arguments."""
    return Request(SamplingParams(seed=seed, extra_args=extra_args), (7, 8, 9, 7, 8))


def test_dry_is_the_reference_at_every_row() -> None:
    """Bit for bit: beside a mate without it, with drafts that prolong repetitions, in any row."""
    ours = sampler(DRY, max_drafts=2)
    requests = [asking(1, dry_multiplier=0.8), asking(2), asking(3, dry_multiplier=3, dry_base=2)]
    slots = [ours.add(request) for request in requests]
    drafts: Sequence[Sequence[int]] = [(9, 7), (9,), ()]
    for order in ([0, 1, 2], [2, 0, 1]):
        rows = [
            requests[i].extended(drafts[i][:j]) for i in order for j in range(len(drafts[i]) + 1)
        ]
        got = ours.process(LOGITS[:6], [slots[i] for i in order], [drafts[i] for i in order])
        expected = [
            process(logits.numpy(), request, MODEL, CONVENTIONS["sampler-audit"])
            for logits, request in zip(LOGITS, rows, strict=False)
        ]
        assert np.array_equal(got.numpy(), np.stack(expected))
        assert not torch.equal(got, LOGITS[:6])


@pytest.mark.parametrize("name", [TARGET, BY_REQUEST])
def test_a_target_is_drawn_and_a_mate_draws_as_without(name: str) -> None:
    """Whoever holds the slot next draws as without, too."""
    ours, plain = sampler(name), sampler()
    mate, target = asking(1), asking(2, target_token=30)
    alone = plain.step(LOGITS[:1], [plain.add(mate)]).token_ids
    slots = [ours.add(target), ours.add(mate)]
    assert ours.step(LOGITS[[5, 0]], slots).token_ids == ((30,), *alone)
    assert ours.step(LOGITS[[0, 5]], slots[::-1]).token_ids == (*alone, (30,))
    for slot in slots:
        ours.remove(slot)
    assert ours.step(LOGITS[:1], [ours.add(mate)]).token_ids == alone


def test_the_end_comes_with_the_tokens_that_were_committed() -> None:
    """Not with those that were drawn."""
    ours = sampler(END)
    slot = ours.add(asking(1, end_after=2))
    for emitted, n_finite in ((1, V), (2, V), (3, 2)):
        assert torch.isfinite(ours.process(LOGITS[:1], [slot])).sum() == n_finite
        ours.commit(slot, [emitted])


def test_a_resumed_request_has_its_output() -> None:
    """Tokens that it came with count."""
    ours = sampler(END)
    slot = ours.add(asking(1, end_after=2).extended([3, 3]))
    assert torch.isfinite(ours.process(LOGITS[:1], [slot])).sum() == 2


def test_processors_refuse_at_admission() -> None:
    """In their own words, as any other refusal."""
    with pytest.raises(RequestRefused, match=r"^target_token must be a token id, an integer >= 0"):
        sampler(DRY, TARGET).add(asking(1, target_token="x"))


def test_batch_level_ones_are_refused_with_drafts() -> None:
    """When the sampler is made."""
    with pytest.raises(
        ProcessorRefused, match="with speculative decoding runs slot-level ones only"
    ):
        sampler(DRY, TARGET, max_drafts=1)
