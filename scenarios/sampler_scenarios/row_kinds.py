"""The kinds of made rows: a name, a shape, and the fault that it provokes.

Knows what goes wrong in samplers, not what is right. References of the form ``owner/name#number``
are public GitHub threads.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from sampler_scenarios import row_shapes as shapes

FINITE_COUNTS = (1, 2, 3, 4, 5, 8, 20, 64)
PLACES: tuple[shapes.Place, ...] = ("front", "last", "spread")
RUNNER_UP_MASSES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.49)
PEAK_EXPONENTS = (1, 2, 3, 4, 5, 6, 7)


@dataclass(frozen=True)
class RowKind:
    """A family of rows, one for every vocabulary of at least ``min_vocab_size`` tokens.

    Attributes:
        name: The part of a row's name before ``@``.
        why: The fault that the row provokes, in one sentence.
        build: ``vocab_size -> float32 [vocab_size]``, the same values at every call.
        min_vocab_size: The smallest vocabulary that has room for what the kind promises.
        special: Whether the row holds NaN or +inf, for which a sampler needs a stated policy.
    """

    name: str
    why: str
    build: Callable[[int], shapes.Logits]
    min_vocab_size: int = 1
    special: bool = False


_FINITE_WHY = (
    "With this few finite logits a search that expects more candidates than k drops the lowest"
    " one although p needs it (seen in vLLM 0.25.1 to 0.33.0), or looks in the wrong tile for them."
)
_PEAKED_WHY = (
    "A head of this mass leaves tail probabilities that a linear search cannot tell apart, or"
    " starves a fixed buffer of candidates (vllm-project/vllm#48927, FlashML-org/FreeToken#345)."
)
_RUNNER_UP_WHY = (
    "Of two candidates the second is needed whenever p exceeds the first one's mass; dropping"
    " it turns sampling greedy, and its mass is the size of the error."
)

KINDS: tuple[RowKind, ...] = (
    RowKind(
        "dense-normal",
        "The row most samplers were tested on: what fails here is wrong for everybody, and at p"
        " = .999 the sum over a long tail shows its rounding.",
        shapes.dense_normal,
    ),
    RowKind(
        "zipf",
        "The shape of language, rising to its maximum at the last id: a min_p threshold taken"
        " from the first logit (state-spaces/mamba#927) or a lost last tile shows.",
        shapes.zipf,
    ),
    *(
        RowKind(f"peaked-{j}", _PEAKED_WHY, partial(shapes.peaked, exponent=j), min_vocab_size=2)
        for j in PEAK_EXPONENTS
    ),
    RowKind(
        "finite-0",
        "Nothing can be drawn from a row that a grammar masked whole; the softmax is 0/0, and an"
        " engine may return NaN, an id outside the vocabulary or a neighbour's token.",
        shapes.masked,
    ),
    *(
        RowKind(
            f"finite-{count}-{place}",
            _FINITE_WHY,
            partial(shapes.finite, count=count, place=place),
            min_vocab_size=count + 1,
        )
        for count in FINITE_COUNTS
        for place in PLACES
    ),
    *(
        RowKind(
            f"runner-up-{mass}",
            _RUNNER_UP_WHY,
            partial(shapes.runner_up, mass=mass),
            min_vocab_size=2,
        )
        for mass in RUNNER_UP_MASSES
    ),
    RowKind(
        "constant",
        "Every token ties with every other: a search between minimum and maximum has no interval"
        " left, and kernels that give up here mask nothing.",
        shapes.constant,
    ),
    RowKind(
        "two-valued",
        "Two large tie groups: k and p fall inside one of them, and the group must be cut to the"
        " needed number, not kept or dropped whole.",
        shapes.two_valued,
        min_vocab_size=2,
    ),
    RowKind(
        "one-high",
        "One token above a bottom group of ties: where the k-th value is the lowest finite one, a"
        " kernel that keeps what lies above its pivot drops the whole group (vLLM 0.32 does).",
        shapes.one_high,
        min_vocab_size=2,
    ),
    RowKind(
        "bottom-ties",
        "Sixty finite logits in three groups of twenty: k = 50 cuts the lowest group, which is"
        " the case of one-high with few candidates (vLLM 0.32 keeps 40).",
        shapes.bottom_ties,
        min_vocab_size=60,
    ),
    RowKind(
        "ties-at-k",
        "Places 16 to 75 tie, so k = 20 and 50 cut the group: one path keeps all ties and another"
        " exactly k, chosen by the size of the batch (vllm-project/vllm#50979).",
        shapes.ties_at_k,
        min_vocab_size=90,
    ),
    RowKind(
        "ties-at-p",
        "Tie groups across p = .5, .8 and .9, scattered over all tiles: a budget of ties that"
        " restarts with each tile or counts atomically keeps others (vllm-project/vllm#54651).",
        shapes.ties_at_p,
        min_vocab_size=120,
    ),
    RowKind(
        "dyadic",
        "Masses .5 .25 .125 .125 put a cumulative sum on p itself, where > and >= differ by a"
        " token (huggingface/transformers#18976).",
        shapes.dyadic,
        min_vocab_size=5,
    ),
    RowKind(
        "tied-maximum",
        "Two tokens share the maximum: top_k = 1 and temperature 0 must agree on one, and many"
        " engines keep both (vllm-project/vllm#5404).",
        shapes.tied_maximum,
        min_vocab_size=2,
    ),
    RowKind(
        "bf16-rounded",
        "Logits computed in bfloat16 tie often and at random places, among them the edges of k"
        " and p; rows drawn in float32 never show it.",
        shapes.bf16_rounded,
    ),
    RowKind(
        "signed-zeros",
        "+0 and -0 are the same logit but not the same bits: a search on integer keys may split"
        " the tie group by sign.",
        shapes.signed_zeros,
        min_vocab_size=3,
    ),
    RowKind(
        "positive-infinity",
        "One overflowed logit makes the softmax compute inf - inf: the row may become undrawable or"
        " the token certain, and an engine should say which.",
        partial(shapes.with_one, value=np.inf),
        min_vocab_size=2,
        special=True,
    ),
    RowKind(
        "half-negative-infinity",
        "A grammar or allow-list masks half of the row: statistics from the first tile, such as a"
        " mean, become -inf or NaN and every later guess with them.",
        partial(shapes.with_share, value=-np.inf, every=2),
        min_vocab_size=2,
    ),
    RowKind(
        "nan-one",
        "One NaN compares false with everything: sorts and maxima lose their order, and indices"
        " leave the row (vllm-project/vllm#40376).",
        partial(shapes.with_one, value=np.nan),
        min_vocab_size=2,
        special=True,
    ),
    RowKind(
        "nan-tenth",
        "NaN in every tile: a policy that replaces NaN must hold everywhere, and the batch's other"
        " rows must not notice (sgl-project/sglang#19383).",
        partial(shapes.with_share, value=np.nan, every=10),
        min_vocab_size=2,
        special=True,
    ),
    RowKind(
        "scale-1e-8",
        "Differences far below the resolution of a bisection on values: order still decides top-k"
        " while every probability is the same to seven digits.",
        partial(shapes.scaled, scale=1e-8),
    ),
    RowKind(
        "scale-1e4",
        "Logits of thousands: one token holds all mass and a walk that finds no second one may"
        " return the last candidate (microsoft/onnxruntime-genai#1363).",
        partial(shapes.scaled, scale=1e4),
    ),
    RowKind(
        "one-1e30",
        "One huge logit stretches the interval of a search so far that all others fall into one"
        " step of it, and overflows where it is squared for a variance.",
        partial(shapes.with_one, value=1e30),
        min_vocab_size=2,
    ),
    RowKind(
        "offset-100",
        "The softmax does not see a common offset; exp without subtracting the maximum does, at"
        " 89 and above.",
        partial(shapes.scaled, offset=100.0),
    ),
    RowKind(
        "offset-minus-200",
        "As offset-100 on the other side: every exp underflows to 0, and a maximum that starts"
        " from 0 instead of -inf wins.",
        partial(shapes.scaled, offset=-200.0),
    ),
    RowKind(
        "denormals",
        "Logits below the smallest normal number: hardware that flushes them to zero turns an"
        " order into one great tie.",
        partial(shapes.scaled, scale=1e-40),
    ),
    RowKind(
        "outside-first-block",
        "The first tile is masked whole: bounds and statistics estimated from it alone are -inf"
        " or NaN, and a tile without mass may win the draw (vllm-project/vllm#44744).",
        shapes.outside_first_block,
        min_vocab_size=shapes.FIRST_BLOCK + 1,
    ),
    RowKind(
        "flat-tail",
        "Half of the mass on one token and the rest nearly flat: 18 halvings of a probability"
        " interval cannot place p = .9 in the tail (vllm-project/vllm#48927).",
        shapes.flat_tail,
        min_vocab_size=2,
    ),
)
"""Every made kind, ordinary shapes first. ``uniform`` is ``constant``."""
