"""What holds of the stages before the filters on any row."""

import math
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sampler_reference.conventions import CONVENTIONS
from sampler_reference.processors import PROCESSORS, process
from sampler_scenarios.params import STAGES, SamplingParams
from sampler_scenarios.requests import ModelConfig, Request
from sampler_scenarios.stages import audit_model, build_request

OURS = CONVENTIONS["sampler-audit"]
ROWS = st.lists(st.floats(-30, 30, width=32), min_size=1, max_size=24)
SETS = st.sets(st.sampled_from(STAGES))


@given(ROWS)
def test_a_request_without_stages_passes_bit_for_bit(row: list[float]) -> None:
    """History or not; NaN, infinities and signed zeros too."""
    x = np.array([*row, math.nan, math.inf, -math.inf, -0.0, 0.0], np.float32)
    request = build_request(x, SamplingParams(temperature=0.5, top_k=3), ())
    model = audit_model(x.size, x)
    assert process(x, request, model, OURS).tobytes() == x.tobytes()


@given(ROWS, SETS, st.sampled_from(sorted(CONVENTIONS)))
def test_no_stage_writes_into_its_row(row: list[float], stages: set[str], name: str) -> None:
    """The logits that are handed in stay, and the result is float32 of the same length."""
    x = np.array(row, np.float32)
    request, before = build_request(x, SamplingParams(), stages), x.tobytes()
    for stage in PROCESSORS.values():
        stage(x, request, audit_model(x.size, x), CONVENTIONS[name])
    result = process(x, request, audit_model(x.size, x), CONVENTIONS[name])
    assert (x.tobytes(), result.dtype, result.shape) == (before, x.dtype, x.shape)


@given(ROWS, SETS, st.integers(0, 2**32))
def test_token_ids_are_only_names(row: list[float], stages: set[str], seed: int) -> None:
    """Renaming all tokens renames the result: no stage depends on the value of an id."""
    x = np.array(row, np.float32)
    names = np.random.default_rng(seed).permutation(x.size)
    request, model = build_request(x, SamplingParams(), stages), audit_model(x.size, x)
    renamed = np.empty_like(x)
    renamed[names] = x
    expected = np.empty_like(x)
    expected[names] = process(x, request, model, OURS)
    got = process(renamed, _renamed(request, names), _renamed_model(model, names), OURS)
    np.testing.assert_array_equal(got, expected)


def _renamed(request: Request, names: NDArray[np.int64]) -> Request:
    params = request.params
    to = [int(name) for name in names]
    grammar = None
    if request.grammar is not None:
        grammar = np.empty_like(request.grammar)
        grammar[names] = request.grammar
    listed = params.allowed_token_ids
    args = dict(params.extra_args)
    if "dry_sequence_breakers" in args:
        breakers = args["dry_sequence_breakers"]
        assert isinstance(breakers, tuple)
        args["dry_sequence_breakers"] = tuple(to[i] for i in breakers)
    return Request(
        replace(
            params,
            allowed_token_ids=None if listed is None else tuple(to[i] for i in listed),
            logit_bias={to[i]: bias for i, bias in params.logit_bias.items()},
            bad_words=tuple(tuple(to[i] for i in word) for word in params.bad_words),
            stop_token_ids=tuple(to[i] for i in params.stop_token_ids),
            extra_args=args,
        ),
        tuple(to[i] for i in request.prompt_token_ids),
        tuple(to[i] for i in request.output_token_ids),
        grammar,
    )


def _renamed_model(model: ModelConfig, names: NDArray[np.int64]) -> ModelConfig:
    def to(token_ids: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(int(names[i]) for i in token_ids)

    return replace(
        model,
        eos_token_ids=to(model.eos_token_ids),
        reasoning_start=to(model.reasoning_start),
        reasoning_end=to(model.reasoning_end),
    )
