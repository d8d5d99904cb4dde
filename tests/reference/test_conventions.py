"""Conventions as data: names, orders, clamps and refusals."""

from dataclasses import replace

import pytest

from sampler_reference.conventions import CONVENTIONS, effective_temperature, refusal
from sampler_scenarios.params import STAGES, SamplingParams

OURS = CONVENTIONS["sampler-audit"]
VLLM = CONVENTIONS["vllm-triton"]


def test_names_are_the_ones_that_targets_declare() -> None:
    """A target names its conventions by these strings."""
    assert list(CONVENTIONS) == [
        "sampler-audit",
        "vllm-triton",
        "vllm-pytorch",
        "huggingface",
        "flashinfer",
        "flashinfer-joint",
        "llama.cpp",
    ]
    assert all(CONVENTIONS[name].name == name for name in CONVENTIONS)


def test_joint_puts_top_k_and_top_p_on_one_row() -> None:
    """Only the joint rule judges two filters together, at the place of the first of them."""
    stages = CONVENTIONS["flashinfer-joint"].stages
    assert stages == (("temperature",), ("top_k", "top_p"), ("min_p",))
    assert OURS.stages == (("temperature",), ("min_p",), ("top_k",), ("top_p",))


@pytest.mark.parametrize("order", [("top_k",), ("top_k", "top_k", "top_p", "min_p"), ()])
def test_an_order_that_is_no_order_of_the_four_filters_is_refused(order: tuple[str, ...]) -> None:
    """The message names what must be there."""
    with pytest.raises(ValueError, match="each of temperature, top_k, top_p, min_p once"):
        replace(OURS, order=order)


@pytest.mark.parametrize(
    "processing", [("logit_bias", "logit_bias"), ("logit_bias", "top_k"), ("bias",)]
)
def test_processing_that_names_no_stage_or_one_twice_is_refused(
    processing: tuple[str, ...],
) -> None:
    """The message names what there is; a filter is no stage."""
    with pytest.raises(ValueError, match=r"processing must name stages of grammar, .*, none twice"):
        replace(OURS, processing=processing)


def test_processing_of_vllm() -> None:
    """Bias and penalties do not commute: before them in V2 (all stages), after bad words in V1."""
    assert VLLM.processing == OURS.processing == STAGES
    assert CONVENTIONS["vllm-pytorch"].processing == (
        *("grammar", "allowed_token_ids", "bad_words", "min_tokens", "logit_bias", "processor"),
        *("repetition_penalty", "frequency_penalty", "presence_penalty", "thinking_budget"),
    )


def test_an_engine_without_a_stage_refuses_it() -> None:
    """Transformers 5.20.0 has no presence penalty and no budget, llama.cpp no bad words."""
    huggingface, llama = CONVENTIONS["huggingface"], CONVENTIONS["llama.cpp"]
    params = SamplingParams(presence_penalty=1.0, thinking_token_budget=3)
    assert refusal(params, huggingface) == "huggingface has no presence_penalty"
    words = SamplingParams(bad_words=((1,),))
    assert refusal(words, llama) == "llama.cpp has no bad_words"
    assert refusal(words, huggingface) is None
    assert refusal(params, VLLM) is None


def test_only_counter_based_noise_is_named() -> None:
    """Tokens are a function of seed and position in our sampler and in vLLM's second runner."""
    named = {name: c.noise for name, c in CONVENTIONS.items() if c.noise}
    assert named == {"sampler-audit": "philox", "vllm-triton": "murmur"}


@pytest.mark.parametrize(
    ("temperature", "expected"),
    # vllm 0.32.0, sampling_params.py: (0, 0.01) is raised to 0.01 before the greedy rule at 1e-5.
    [(0.0, 0.0), (1e-6, 0.01), (0.005, 0.01), (0.01, 0.01), (0.5, 0.5), (2.0, 2.0)],
)
def test_vllm_raises_tiny_temperatures(temperature: float, expected: float) -> None:
    """A tiny temperature is random at the floor; only 0 is greedy."""
    assert effective_temperature(temperature, VLLM) == expected


def test_our_sampler_divides_by_any_temperature_that_float32_can_hold() -> None:
    """No floor and no threshold: what rounds to 0 in float32 is greedy, nothing else."""
    assert effective_temperature(1e-6, OURS) == 1e-6
    assert effective_temperature(1e-46, OURS) == 0


def test_flashinfer_engines_are_greedy_below_a_millionth() -> None:
    """Sglang 0.5.23, sampling_params.py: T < 1e-6 becomes top_k 1."""
    flashinfer = CONVENTIONS["flashinfer"]
    assert effective_temperature(9e-7, flashinfer) == 0
    assert effective_temperature(1e-6, flashinfer) == 1e-6


def test_a_temperature_above_the_maximum_is_refused_by_name() -> None:
    """The reason says who refuses, what, and the limit."""
    reason = refusal(SamplingParams(temperature=100), VLLM)
    assert reason == "vllm-triton refuses temperature=100: its maximum is 2"
    assert refusal(SamplingParams(temperature=2), VLLM) is None
    assert refusal(SamplingParams(temperature=100), OURS) is None
