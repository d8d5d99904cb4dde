"""The rules on which honest engines differ, as data. No stage and no engine is known by name here.

Two samplers can both be right and disagree: on which of two tied tokens is the k-th, on whether
temperature comes first or last, on whether top_p sees what top_k left. A Conventions says which.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sampler_scenarios.params import FILTERS, STAGES, SamplingParams

Ties = Literal["lowest_ids", "any", "keep_all"]
"""Who of a tied group at a cut stays: the needed number by lowest id, the needed number of
whichever ids, or the whole group."""

Scope = Literal["output", "prompt+output"]
"""The tokens of a request that a stage looks back on."""


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
        processing: The stages before the filters in the order in which they act; an engine that
            has no such stage leaves it out.
        repetition_scope: Where repetition_penalty looks for a token.
        count_scope: Where frequency_penalty and presence_penalty count it.
        bad_words_scope: Where the first tokens of a bad word may stand.
        penalty_window: The three penalties look at the last so many tokens of their scope; 0 is no
            limit.
        repetition_rule: ``by_sign`` divides a positive logit and multiplies any other, ``divide``
            divides all (Keskar et al. 2019), which helps a token of negative logit.
        reciprocal: Where the rule divides, the engine multiplies by float32(1 / penalty).
        min_p_arithmetic: How min_p's threshold ``max + ln(min_p)`` is rounded: not at all, or as
            float32 of the sum of two float32.
        noise: Name of the noise in sampler_reference.noise that the seed of a request determines;
            empty where its tokens are not a function of its seed and the position.
        sources: Where these choices can be read.

    Raises:
        ValueError: an order that does not name each of the four filters once, or processing that
            names a stage twice or one that is not known.
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
    processing: tuple[str, ...] = STAGES
    repetition_scope: Scope = "prompt+output"
    count_scope: Scope = "output"
    bad_words_scope: Scope = "output"
    penalty_window: int = 0
    repetition_rule: Literal["by_sign", "divide"] = "by_sign"
    reciprocal: bool = False
    min_p_arithmetic: Literal["float64", "float32"] = "float64"
    noise: str = ""
    sources: str

    def __post_init__(self) -> None:
        if sorted(self.order) != sorted(FILTERS):
            raise ValueError(f"order must name each of {', '.join(FILTERS)} once, got {self.order}")
        if not set(self.processing) <= set(STAGES) or len(set(self.processing)) < len(
            self.processing
        ):
            raise ValueError(
                f"processing must name stages of {', '.join(STAGES)}, none twice,"
                f" got {self.processing}"
            )

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
_PENALTIES = ("repetition_penalty", "frequency_penalty", "presence_penalty")

_SGLANG = (
    *("frequency_penalty", "min_tokens", "presence_penalty", "repetition_penalty"),
    *("grammar", "logit_bias", "processor"),
)
"""sglang 0.5.23: sampling/sampling_batch_info.py, then layers/sampler.py. The additive penalties
are summed and then added at once, which may round otherwise."""

_ALL = (
    Conventions(
        name="sampler-audit",
        order=_MIN_P_FIRST,
        noise="philox",
        sources="this project's own kernels and sampler",
    ),
    Conventions(
        name="vllm-triton",
        order=_MIN_P_FIRST,
        greedy_below=1e-5,
        temperature_floor=0.01,
        temperature_max=2.0,
        reciprocal=True,
        min_p_arithmetic="float32",
        noise="murmur",
        sources="vllm 0.32.0: v1/sample/ops/topk_topp_triton.py, v1/worker/gpu/sample (sampler.py,"
        " penalties.py, min_p.py, gumbel.py), sampling_params.py",
    ),
    Conventions(
        name="vllm-pytorch",
        order=_MIN_P_FIRST,
        ties_at_k="keep_all",
        ties_at_p="any",
        greedy_below=1e-5,
        temperature_floor=0.01,
        temperature_max=2.0,
        processing=(
            *("grammar", "allowed_token_ids", "bad_words", "min_tokens", "logit_bias"),
            *("processor", *_PENALTIES, "thinking_budget"),
        ),
        reciprocal=True,
        sources="vllm 0.32.0: v1/sample/ops/topk_topp_sampler.py (ascending sort, not stable),"
        " v1/sample/sampler.py (order), _custom_ops.py apply_repetition_penalties_torch",
    ),
    Conventions(
        name="huggingface",
        order=_MIN_P_LAST,
        ties_at_k="keep_all",
        ties_at_p="any",
        processing=(
            *("logit_bias", "repetition_penalty", "bad_words", "min_tokens"),
            *("allowed_token_ids", "grammar", "processor"),
        ),
        bad_words_scope="prompt+output",
        sources="transformers 5.24.0: generation/utils.py (order), generation/logits_process.py;"
        " stages as in 5.20.0: logit_bias is sequence_bias, the masks are prefix_allowed_tokens_fn,"
        " and a bad word that is an end-of-sequence token is ignored",
    ),
    Conventions(
        name="flashinfer",
        order=_MIN_P_LAST,
        ties_at_k="keep_all",
        ties_at_p="keep_all",
        greedy_below=1e-6,
        processing=_SGLANG,
        repetition_scope="output",
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
        processing=_SGLANG,
        repetition_scope="output",
        sources="flashinfer fb28d72: sampling.py filter_apply_order=joint;"
        " sglang 0.5.23: layers/sampler.py where no request of the batch has min_p",
    ),
    Conventions(
        name="llama.cpp",
        order=("top_k", "top_p", "min_p", "temperature"),
        ties_at_k="any",
        ties_at_p="any",
        processing=("grammar", "logit_bias", *_PENALTIES, "processor"),
        count_scope="prompt+output",
        penalty_window=64,
        sources="llama.cpp 0.5.0-dev: common/common.h (order), src/llama-sampler.cpp (partial sort;"
        " among tied maxima, greedy takes the first in its order; frequency and presence penalty"
        " are summed before they are subtracted, which may round otherwise), common/sampling.cpp"
        " (without grammar_first the grammar acts only where it refuses the first draw)",
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
    missing = [stage for stage in params.stages if stage not in conventions.processing]
    return f"{conventions.name} has no {missing[0]}" if missing else None
