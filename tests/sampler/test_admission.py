from typing import Any

import numpy as np
import pytest

from sampler_audit.sampler.admission import Limits, RequestRefused, admit, stop_set
from sampler_scenarios.params import SamplingParams
from sampler_scenarios.requests import ModelConfig, Request

MODEL = ModelConfig(vocab_size=2000, max_model_len=16, eos_token_ids=(1, 2))


def refuse(request: Request, limits: Limits | None = None, *, speculative: bool = False) -> str:
    """The words in which a request is refused."""
    with pytest.raises(RequestRefused) as refusal:
        admit(request, MODEL, limits or Limits(), speculative=speculative)
    return str(refusal.value)


# The ranges are those of vllm 0.32.0's sampling_params.py, less its maximum temperature, which is
# a convention; where it takes a value and stumbles later (a seed of 65 bits) we refuse it at once.
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n": 0}, "n must be from 1 to 16384, got 0"),
        ({"n": 16385}, "n must be from 1 to 16384, got 16385"),
        ({"n": 2, "temperature": 0}, "n must be 1 where temperature is 0 (greedy), got 2"),
        ({"temperature": -1.0}, "temperature must be finite as float32 and >= 0, got -1.0"),
        ({"temperature": 1e39}, "temperature must be finite as float32 and >= 0, got 1e+39"),
        ({"top_k": 2.5}, "top_k must be an integer, got 2.5"),
        ({"seed": 1.5}, "seed must be an integer, got 1.5"),
        ({"top_k": -2}, "top_k must be -1 or 0 (off) or >= 1, got -2"),
        ({"top_p": 0.0}, "top_p must be in (0, 1], got 0.0"),
        ({"min_p": 1.5}, "min_p must be in [0, 1], got 1.5"),
        (
            {"repetition_penalty": 0.0},
            "repetition_penalty must be finite and > 0 as float32, got 0.0",
        ),
        (
            {"repetition_penalty": 1e-50},
            "repetition_penalty must be finite and > 0 as float32, got 1e-50",
        ),
        (
            {"logit_bias": {3: 1e39}},
            "logit_bias must be finite as float32 for every token id, got {3: 1e+39}",
        ),
        ({"frequency_penalty": 2.1}, "frequency_penalty must be in [-2, 2], got 2.1"),
        ({"presence_penalty": -2.1}, "presence_penalty must be in [-2, 2], got -2.1"),
        (
            {"logit_bias": {3: float("inf")}},
            "logit_bias must be finite as float32 for every token id, got {3: inf}",
        ),
        (
            {"allowed_token_ids": ()},
            "allowed_token_ids must be at least one token id, or None, got ()",
        ),
        (
            {"bad_words": ((1,), ())},
            "bad_words must be token sequences of at least one token each, got ((1,), ())",
        ),
        ({"min_tokens": -1}, "min_tokens must be >= 0, got -1"),
        (
            {"min_tokens": 5, "max_tokens": 4},
            "min_tokens must be at most max_tokens=4, got 5",
        ),
        ({"max_tokens": 0}, "max_tokens must be >= 1, or None, got 0"),
        (
            {"thinking_token_budget": -1},
            "thinking_token_budget must be >= 0, or None, got -1",
        ),
        (
            {"seed": 2**64},
            "seed must be an integer of 64 bits, or None, got 18446744073709551616",
        ),
        ({"logprobs": -2}, "logprobs must be -1 (all) or >= 0, or None, got -2"),
        ({"prompt_logprobs": -2}, "prompt_logprobs must be -1 (all) or >= 0, or None, got -2"),
    ],
)
def test_refused_at_construction(settings: dict[str, Any], message: str) -> None:
    """What the parameters alone can judge never reaches a sampler."""
    with pytest.raises(ValueError) as refusal:  # noqa: PT011 - the whole message is compared
        SamplingParams(**settings)
    assert str(refusal.value) == message


# What each row refuses is the table of vllm 0.32.0's sampling_params.py and of its worker.
@pytest.mark.parametrize(
    ("params", "message"),
    [
        (
            SamplingParams(allowed_token_ids=(5, 2000)),
            "allowed_token_ids must be token ids in [0, 2000), got 2000",
        ),
        (
            SamplingParams(allowed_token_ids=(1.5,)),  # type: ignore[arg-type]  # what is refused
            "allowed_token_ids must be token ids in [0, 2000), got 1.5",
        ),
        (
            SamplingParams(logit_bias={-1: 1.0}),
            "logit_bias must be token ids in [0, 2000), got -1",
        ),
        (
            SamplingParams(stop_token_ids=(2001,)),
            "stop_token_ids must be token ids in [0, 2000), got 2001",
        ),
        (
            SamplingParams(bad_words=((3, 4), (5, 3000))),
            "bad_words must be token ids in [0, 2000), got 3000",
        ),
        (
            SamplingParams(logprob_token_ids=(-7,)),
            "logprob_token_ids must be token ids in [0, 2000), got -7",
        ),
        (
            SamplingParams(trace_token_ids=(9, 5000)),
            "trace_token_ids must be token ids in [0, 2000), got 5000",
        ),
        (
            SamplingParams(allowed_token_ids=tuple(range(1025))),
            "allowed_token_ids must hold at most 1024 token ids, got 1025",
        ),
        (
            SamplingParams(logit_bias=dict.fromkeys(range(1025), 0.5)),
            "logit_bias must hold at most 1024 token ids, got 1025",
        ),
        (
            SamplingParams(min_tokens=1, stop_token_ids=tuple(range(2, 130))),
            "stop_token_ids must hold at most 128 token ids where min_tokens is set, the model's"
            " end-of-sequence ids among them, got 129",
        ),
        (
            SamplingParams(bad_words=tuple((i,) for i in range(129))),
            "bad_words must hold at most 128 words, got 129",
        ),
        (
            SamplingParams(bad_words=(tuple(range(1025)),)),
            "bad_words must hold at most 1024 tokens in all, got 1025",
        ),
        (
            SamplingParams(logprob_token_ids=tuple(range(129))),
            "logprob_token_ids must hold at most 128 token ids, got 129",
        ),
        (
            SamplingParams(logprobs=21),
            "logprobs must be at most 20 (-1 asks for 2000), got 21",
        ),
        (
            SamplingParams(logprobs=-1),
            "logprobs must be at most 20 (-1 asks for 2000), got -1",
        ),
        (
            SamplingParams(prompt_logprobs=21),
            "prompt_logprobs must be at most 20 (-1 asks for 2000), got 21",
        ),
        (
            SamplingParams(logprobs=3, logprob_token_ids=(4, 5)),
            "logprobs must be None or the 2 of logprob_token_ids, got 3",
        ),
        (
            SamplingParams(thinking_token_budget=5),
            "thinking_token_budget must be None where the model has no markers of reasoning, got 5",
        ),
        (
            SamplingParams(n=2),
            "n must be 1 for each request that is added, see seeds.choices, got 2",
        ),
        (
            SamplingParams(prompt_logprob_token_ids=((4,), (5, 2000))),
            "prompt_logprob_token_ids must be token ids in [0, 2000), got 2000",
        ),
        (
            SamplingParams(prompt_logprob_token_ids=(tuple(range(21)),)),
            "a row of prompt_logprob_token_ids must hold at most 20 token ids, got 21",
        ),
        (
            SamplingParams(prompt_logprob_token_ids=((4,),), prompt_logprob_start=10**6),
            "prompt_logprob_token_ids, from prompt_logprob_start on, must be at most the 15 rows"
            " that a prompt can have, got 1000001",
        ),
        (
            SamplingParams(trace_token_ids=(3,), prompt_logprobs=0),
            "prompt_logprobs must be None where trace_token_ids replaces draws, got 0",
        ),
        (
            SamplingParams(trace_token_ids=(3,), bad_words=((4,),)),
            "bad_words must be () where trace_token_ids replaces draws, got ((4,),)",
        ),
    ],
)
def test_refused_parameters(params: SamplingParams, message: str) -> None:
    """The parameter, what is allowed, and what was given."""
    assert refuse(Request(params)) == message


@pytest.mark.parametrize(
    ("name", "request_"),
    [
        ("prompt_token_ids", Request(prompt_token_ids=(7, 2000))),
        ("output_token_ids", Request(output_token_ids=(2000,))),
    ],
)
def test_refused_tokens(name: str, request_: Request) -> None:
    """What came before must be of the vocabulary too."""
    assert refuse(request_) == f"{name} must be token ids in [0, 2000), got 2000"


def test_no_room_for_a_token() -> None:
    """Prompt and output together leave room for one token of max_model_len."""
    admit(Request(SamplingParams(), (3,) * 10, (4,) * 5), MODEL, Limits())
    assert refuse(Request(SamplingParams(), (3,) * 10, (4,) * 6)) == (
        "prompt_token_ids and output_token_ids must be below max_model_len=16 tokens, got 16"
    )


def test_refused_traces() -> None:
    """A trace goes with neither a grammar nor drafts."""
    request = Request(SamplingParams(trace_token_ids=(3,)), grammar=np.ones(2000, np.bool_))
    assert refuse(request) == ("grammar must be None where trace_token_ids replaces draws, got one")
    assert refuse(Request(request.params), speculative=True) == (
        "trace_token_ids must be None where drafts are verified, got some"
    )


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (SamplingParams(bad_words=((1,),)), "bad_words"),
        (SamplingParams(min_tokens=2), "min_tokens"),
        (SamplingParams(frequency_penalty=0.5), "frequency_penalty"),
    ],
)
def test_refused_where_the_engine_has_no_such_stage(params: SamplingParams, message: str) -> None:
    """An engine whose order does not name a stage would ignore the parameter silently."""
    with pytest.raises(RequestRefused, match=f"^{message} must be .* has no such stage, got "):
        admit(Request(params), MODEL, Limits(), processing=("logit_bias",))
    admit(Request(SamplingParams(logit_bias={3: 1.0})), MODEL, Limits(), processing=("logit_bias",))


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(allowed_token_ids=tuple(range(1024))),
        SamplingParams(logit_bias=dict.fromkeys(range(1024), 500.0), min_p=0.5),
        SamplingParams(min_tokens=1, stop_token_ids=tuple(range(1, 129))),
        SamplingParams(stop_token_ids=tuple(range(500))),
        SamplingParams(bad_words=tuple((i,) * 8 for i in range(128))),
        SamplingParams(logprobs=20, prompt_logprobs=20),
        SamplingParams(logprobs=2, logprob_token_ids=(4, 5)),
    ],
)
def test_taken_at_the_limit(params: SamplingParams) -> None:
    """Also with drafts: min_p and logit_bias act at every draft position."""
    admit(Request(params), MODEL, Limits(), speculative=True)


def test_all_log_probs_where_the_limit_is_the_vocabulary() -> None:
    """A limit of -1."""
    admit(Request(SamplingParams(logprobs=-1)), MODEL, Limits(max_logprobs=-1))


def test_a_processor_refuses_in_its_own_words() -> None:
    """What validate_params raises becomes the refusal."""

    class Picky:
        def validate_params(self, params: SamplingParams) -> None:
            raise ValueError(f"extra_args must be empty, got {dict(params.extra_args)}")

    with pytest.raises(RequestRefused, match=r"^extra_args must be empty, got \{'a': 1\}$"):
        admit(Request(SamplingParams(extra_args={"a": 1})), MODEL, Limits(), processors=[Picky()])


def test_stop_set() -> None:
    """Its own stop tokens and the model's, each once, whether or not they end the request."""
    params = SamplingParams(stop_token_ids=(7, 2, 7), ignore_eos=True)
    assert stop_set(params, MODEL) == (7, 2, 1)
