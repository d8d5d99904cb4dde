"""The protocol of seeds and noise: the same draws asked for in other surroundings, and end values.

Only for a target whose noise the reference knows. Asks the engine; what the answers mean is up to
the checks.
"""

import numpy as np
from numpy.typing import NDArray

from sampler_audit.checks import seeds
from sampler_audit.checks.noise import check as check_noise
from sampler_audit.checks.noise import end_values
from sampler_audit.draws import Target
from sampler_audit.plan import draw_seeds
from sampler_audit.results import CheckResult
from sampler_scenarios.batches import Batch, plain_batch
from sampler_scenarios.params import SamplingParams

_SEEDED = 24
_ORDERED = 128


def probe(
    batch: Batch,
    z: NDArray[np.float32],
    target: Target,
    *,
    noise: str,
    seed: int,
    cell_id: str,
) -> list[CheckResult]:
    """Seeds and noise of row ``batch.index``, which is drawn from ``z`` ``[vocab_size]``.

    ``z`` is divided by temperature and -inf where the engine kept nothing; ``noise`` is the name of
    the target's.

    Raises:
        TargetError: the engine raised, died, hung or sent nonsense.
    """
    drawn = draw_seeds(seed, f"{cell_id}/probe", _SEEDED)
    positions = np.arange(_SEEDED, dtype=np.int64) * 3 + 2**32
    seeded = _seeded_draws(batch, target, drawn, positions)
    checks = [seeds.check_equal(seeded), seeds.check_independent(seeded)]
    checks += _noise_ends(target, noise)
    for source, tokens in (("bulk", seeded.in_batch), ("kernel", seeded.by_kernel)):
        at = drawn, positions
        checks.append(
            check_noise(tokens, z.astype(np.float64), *at, noise_name=noise, source=source)
        )
    return checks


def _noise_ends(target: Target, noise: str) -> list[CheckResult]:
    """Draws whose uniform is near an end of its range, on both ways to draw."""
    checks = []
    for name, (z, seed, position) in end_values(noise).items():
        batch = plain_batch(z.astype(np.float32)[None], (SamplingParams(),), 0)
        at = np.array([seed]), np.array([position])
        for kernel in (False, True):
            tokens = target.draw(batch, *at, kernel=kernel)
            source = f"{name}, {'kernel' if kernel else 'bulk'}"
            checks.append(check_noise(tokens, z, *at, noise_name=noise, source=source))
    return checks


def _seeded_draws(
    batch: Batch, target: Target, drawn: NDArray[np.int64], positions: NDArray[np.int64]
) -> seeds.SeededDraws:
    i = batch.index
    alone = Batch(batch.logits[i : i + 1], batch.requests[i : i + 1], 0)
    reversed_batch = Batch(
        batch.logits[::-1].copy(), batch.requests[::-1], len(batch.requests) - 1 - i
    )
    single = [target.draw(alone, drawn[j : j + 1], positions[j : j + 1]) for j in range(_SEEDED)]
    order = np.arange(_ORDERED, dtype=np.int64)
    base = drawn[0] >> 1
    return seeds.SeededDraws(
        alone=target.draw(alone, drawn, positions),
        one_by_one=np.concatenate(single),
        in_batch=target.draw(batch, drawn, positions),
        other_row=target.draw(reversed_batch, drawn, positions),
        permuted=target.draw(batch, drawn[::-1].copy(), positions[::-1].copy())[::-1],
        by_kernel=target.draw(batch, drawn, positions, kernel=True),
        by_seed=target.draw(batch, base + order, np.full(_ORDERED, 7, dtype=np.int64)),
        by_position=target.draw(batch, np.full(_ORDERED, base), order),
    )
