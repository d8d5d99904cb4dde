"""The rules on which honest engines differ, as data. No stage and no engine is known by name here.

Two samplers can both be right and disagree: on which of two tied tokens is the k-th, on whether
temperature comes first or last, on whether top_p sees what top_k left. A Conventions says which.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sampler_scenarios.params import FILTERS, SamplingParams

Ties = Literal["lowest_ids", "any", "keep_all"]
"""Who of a tied group at a cut stays: the needed number by lowest id, the needed number of
whichever ids, or the whole group."""


@dataclass(frozen=True, kw_only=True)
class Conventions:
    """One engine's choices.

    Attributes:
        name: Key in CONVENTIONS.
        order: The four filters in the order in which they act. A filter before ``temperature``
            judges the undivided logits.
        joint: top_k and top_p both judge the row that reaches the first of them; otherwise the
            later one judges the renormalised survivors of the earlier.
        ties_at_k: Who of the tokens tied with the k-th stays.
        ties_at_p: Who of the tokens tied with the last of the nucleus stays.
        crossing_kept: The token at which the cumulative mass reaches top_p belongs to the nucleus.
            Where it does not, the first token stays all the same.
        greedy_below: A temperature below this is greedy; 0 always is.
        temperature_floor: A temperature in (0, floor) is raised to it, before ``greedy_below``.
        temperature_max: A higher temperature is refused by the engine.
        sources: Where these choices can be read.

    Raises:
        ValueError: an order that does not name each of the four filters once.
    """

    name: str
    order: tuple[str, ...]
    joint: bool = False
    ties_at_k: Ties = "lowest_ids"
    ties_at_p: Ties = "lowest_ids"
    crossing_kept: bool = True
    greedy_below: float = 0.0
    temperature_floor: float = 0.0
    temperature_max: float = math.inf
    sources: str

    def __post_init__(self) -> None:
        if sorted(self.order) != sorted(FILTERS):
            raise ValueError(f"order must name each of {', '.join(FILTERS)} once, got {self.order}")

    @property
    def stages(self) -> tuple[tuple[str, ...], ...]:
        """The filters in order; those that judge the same row stand together."""
        if not self.joint:
            return tuple((name,) for name in self.order)
        pair = ("top_k", "top_p")
        first = min(pair, key=self.order.index)
        return tuple(
            pair if name == first else (name,)
            for name in self.order
            if name == first or name not in pair
        )


_MIN_P_FIRST = ("temperature", "min_p", "top_k", "top_p")
_MIN_P_LAST = ("temperature", "top_k", "top_p", "min_p")

_ALL = (
    Conventions(
        name="sampler-audit",
        order=_MIN_P_FIRST,
        sources="this project's own kernels and sampler",
    ),
    Conventions(
        name="vllm-triton",
        order=_MIN_P_FIRST,
        greedy_below=1e-5,
        temperature_floor=0.01,
        temperature_max=2.0,
        sources="vllm 0.32.0: v1/sample/ops/topk_topp_triton.py, v1/worker/gpu/sample/sampler.py,"
        " sampling_params.py",
    ),
    Conventions(
        name="vllm-pytorch",
        order=_MIN_P_FIRST,
        ties_at_k="keep_all",
        ties_at_p="any",
        greedy_below=1e-5,
        temperature_floor=0.01,
        temperature_max=2.0,
        sources="vllm 0.32.0: v1/sample/ops/topk_topp_sampler.py (ascending sort, not stable)",
    ),
    Conventions(
        name="huggingface",
        order=_MIN_P_LAST,
        ties_at_k="keep_all",
        ties_at_p="any",
        sources="transformers 5.24.0: generation/utils.py (order), generation/logits_process.py",
    ),
    Conventions(
        name="flashinfer",
        order=_MIN_P_LAST,
        ties_at_k="keep_all",
        ties_at_p="keep_all",
        greedy_below=1e-6,
        sources="flashinfer fb28d72: sampling.py filter_apply_order=top_k_first;"
        " sglang 0.5.23: layers/sampler.py where a request of the batch has min_p",
    ),
    Conventions(
        name="flashinfer-joint",
        order=_MIN_P_LAST,
        joint=True,
        ties_at_k="keep_all",
        ties_at_p="keep_all",
        greedy_below=1e-6,
        sources="flashinfer fb28d72: sampling.py filter_apply_order=joint;"
        " sglang 0.5.23: layers/sampler.py where no request of the batch has min_p",
    ),
    Conventions(
        name="llama.cpp",
        order=("top_k", "top_p", "min_p", "temperature"),
        ties_at_k="any",
        ties_at_p="any",
        sources="llama.cpp 0.5.0-dev: common/common.h (order), src/llama-sampler.cpp (partial sort;"
        " among tied maxima, greedy takes the first in its order)",
    ),
)

CONVENTIONS: dict[str, Conventions] = {conventions.name: conventions for conventions in _ALL}
"""Every named set of choices."""


def effective_temperature(temperature: float, conventions: Conventions) -> float:
    """The temperature that divides the logits after the engine's own clamps; 0 means greedy.

    One that is 0 as a float32 cannot divide anything and is greedy everywhere.
    """
    if 0 < temperature < conventions.temperature_floor:
        temperature = conventions.temperature_floor
    if temperature < conventions.greedy_below or np.float32(temperature) == 0:
        return 0.0
    return temperature


def refusal(params: SamplingParams, conventions: Conventions) -> str | None:
    """Why an engine of these conventions does not take the parameters, or None where it does."""
    if params.temperature > conventions.temperature_max:
        return (
            f"{conventions.name} refuses temperature={params.temperature:g}: "
            f"its maximum is {conventions.temperature_max:g}"
        )
    return None
