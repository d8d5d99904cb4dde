"""Values to try for each filter, typical and at the edges of its range.

Data; which cells are made of them is the plan's business.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from sampler_scenarios.covering import pairwise
from sampler_scenarios.params import FILTERS, Combo, SamplingParams, make_params

EDGE_TEMPERATURES = (0.0, 1e-6, 0.01, 0.5, 0.6, 1.0, 2.0, 100.0)
EDGE_TOP_PS = (1e-8, 0.05, 0.5, 0.8, 0.9, 0.95, 0.999, 1 - 1e-7, 1.0)
EDGE_MIN_PS = (0.0, 0.05, 0.2, 1.0)


def edge_top_ks(vocab_size: int) -> tuple[int, ...]:
    """Both spellings of off, small k, and k just below, at and above the vocabulary; ascending."""
    return tuple(sorted({-1, 0, 1, 2, 20, 50, vocab_size - 1, vocab_size, vocab_size + 1}))


_TYPICAL: Mapping[str, tuple[float, ...]] = {
    "temperature": (0.6,),
    "top_k": (20, 50),
    "top_p": (0.95, 0.9),
    "min_p": (0.05,),
}
# The first of each are the settings of the field report: only with all filters on, T = .6,
# k = 20, p = .95 and min_p = .05, did a serving engine lose the weakest surviving token.


def typical_params(combo: Combo) -> tuple[SamplingParams, ...]:
    """What people serve with: one or two settings in which exactly the filters of combo are on.

    The first is the field report's values (temperature .6, top_k 20, top_p .95, min_p .05).
    """
    choices = ({name: values[i % len(values)] for name, values in _TYPICAL.items()} for i in (0, 1))
    return tuple(
        dict.fromkeys(make_params({name: choice[name] for name in combo}) for choice in choices)
    )


@lru_cache(maxsize=64)
def edge_params(vocab_size: int) -> tuple[SamplingParams, ...]:
    """The pairwise covering array over the edge values of the four filters, off among them.

    Any two values of two filters occur together; about eighty sets of parameters.
    """
    values: Mapping[str, Sequence[float]] = {
        "temperature": EDGE_TEMPERATURES,
        "top_k": edge_top_ks(vocab_size),
        "top_p": EDGE_TOP_PS,
        "min_p": EDGE_MIN_PS,
    }
    rows = pairwise([values[name] for name in FILTERS])
    return tuple(make_params(dict(zip(FILTERS, row, strict=True))) for row in rows)
