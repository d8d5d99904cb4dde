"""SamplingParams: ranges, combinations and ids."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampler_scenarios.params import (
    FILTERS,
    SamplingParams,
    combo_name,
    make_combo,
    make_params,
    parse_params,
)

PARAMS = st.builds(
    SamplingParams,
    temperature=st.floats(0, 1e30),
    top_k=st.integers(-1, 2**31),
    top_p=st.floats(0, 1, exclude_min=True),
    min_p=st.floats(0, 1),
)


@given(PARAMS)
def test_id_round_trip(params: SamplingParams) -> None:
    """An id reads back as the parameters that gave it."""
    assert parse_params(params.id) == params


@given(PARAMS)
def test_combo_is_what_the_id_leaves_on(params: SamplingParams) -> None:
    """A filter is on exactly when its value is not one of the neutral ones."""
    neutral = {"temperature": {1}, "top_k": {-1, 0}, "top_p": {1}, "min_p": {0}}
    assert params.combo == tuple(f for f in FILTERS if getattr(params, f) not in neutral[f])


@pytest.mark.parametrize(
    ("params", "stages"),
    [
        (SamplingParams(top_k=3), ()),
        (SamplingParams(logit_bias={}, bad_words=(), extra_args={"dry_multiplier": 1}), ()),
        (SamplingParams(allowed_token_ids=(1,)), ("allowed_token_ids",)),
        (SamplingParams(logit_bias={1: 2.0}), ("logit_bias",)),
        (SamplingParams(min_tokens=1), ("min_tokens",)),
        (SamplingParams(repetition_penalty=0.9), ("repetition_penalty",)),
        (SamplingParams(frequency_penalty=-0.1), ("frequency_penalty",)),
        (SamplingParams(presence_penalty=0.1), ("presence_penalty",)),
        (SamplingParams(bad_words=((1,),)), ("bad_words",)),
        (SamplingParams(thinking_token_budget=0), ("thinking_budget",)),
        (SamplingParams(min_tokens=1, logit_bias={0: 0.0}), ("logit_bias", "min_tokens")),
    ],
)
def test_stages_of_parameters(params: SamplingParams, stages: tuple[str, ...]) -> None:
    """Every value but the neutral one switches its stage on, in the order of STAGES."""
    assert params.stages == stages


def test_ids_read_well() -> None:
    """Fields in the order of FILTERS, defaults left out, one spelling for equal values."""
    assert SamplingParams().id == "neutral"
    assert SamplingParams(top_p=0.9, top_k=50).id == "top_k=50,top_p=0.9"
    assert SamplingParams(temperature=2).id == SamplingParams(temperature=2.0).id
    assert SamplingParams(top_k=0).id == "top_k=0"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("temperature", value) for value in (-1e-9, math.inf, math.nan)),
        *(("top_k", value) for value in (-2, -100)),
        *(("top_p", value) for value in (0.0, -0.1, 1.0000001, math.nan, math.inf)),
        *(("min_p", value) for value in (-0.1, 1.5, math.nan)),
    ],
)
def test_out_of_range(name: str, value: float) -> None:
    """A value outside its range names the parameter and the value."""
    with pytest.raises(ValueError, match=rf"^{name} must be .*, got {value}$"):
        make_params({name: value})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected 'neutral' or name=value of temperature, top_k, top_p, min_p: ''"),
        ("topk=5", "'topk=5'"),
        ("top_k", "'top_k'"),
        ("top_k=5,top_k=6", "'top_k=6'"),
        ("neutral,top_k=5", "'neutral'"),
        ("top_k=2.5", "top_k must be an integer, got '2.5'"),
        ("top_p=high", "top_p must be a number, got 'high'"),
        ("top_p=1.5", r"top_p must be in \(0, 1\], got 1.5"),
    ],
)
def test_no_id(text: str, message: str) -> None:
    """Text that is no id says which field is wrong."""
    with pytest.raises(ValueError, match=message):
        parse_params(text)


def test_make_combo() -> None:
    """Names in any order give the canonical combination; an unknown one is named."""
    assert make_combo(["min_p", "top_k"]) == ("top_k", "min_p")
    assert make_combo(["bad_words", "top_k", "grammar"]) == ("top_k", "grammar", "bad_words")
    assert (combo_name(("top_k", "min_p")), combo_name(())) == ("top_k+min_p", "none")
    with pytest.raises(ValueError, match="unknown filter or stage 'top_q'; known: temperature,"):
        make_combo(["top_q"])
