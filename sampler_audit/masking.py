"""What an engine that only masks is given: rows after temperature and min_p, applied here in fp32.

Its answer is then judged with these very rows and what is left of the parameters.
"""

import numpy as np
from numpy.typing import NDArray

from sampler_audit.plan import project
from sampler_reference.conventions import Conventions, effective_temperature
from sampler_scenarios.batches import PADDING, Batch, plain_batch
from sampler_scenarios.params import SamplingParams


def scaled_and_cut(batch: Batch, conventions: Conventions) -> Batch:
    """The batch as the engine's top_k/top_p code would receive it, in fp32.

    Temperature and min_p are applied here; greedy rows get neutral filters, as engines do.
    """
    logits = np.empty_like(batch.logits)
    params = []
    for i, row_params in enumerate(batch.params):
        temperature = effective_temperature(row_params.temperature, conventions)
        logits[i] = _divided(batch.logits[i], temperature or 1.0)
        if temperature == 0:
            params.append(SamplingParams())
            continue
        if row_params.min_p > 0:
            threshold = np.max(logits[i]) + np.log(np.float32(row_params.min_p))
            logits[i][logits[i] < threshold] = -np.inf
        params.append(project(row_params, ("top_k", "top_p")))
    return plain_batch(_strided_like(batch.logits, logits), params, batch.index)


def _divided(logits: NDArray[np.float32], temperature: float) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):
        return logits / np.float32(temperature)


def _strided_like(
    original: NDArray[np.float32], logits: NDArray[np.float32]
) -> NDArray[np.float32]:
    """``logits`` in storage with the row stride of ``original``; the padding would be kept."""
    stride = original.strides[0] // original.itemsize if len(original) > 1 else logits.shape[1]
    storage = np.full((len(logits), max(stride, logits.shape[1])), PADDING, dtype=np.float32)
    storage[:, : logits.shape[1]] = logits
    return storage[:, : logits.shape[1]]
