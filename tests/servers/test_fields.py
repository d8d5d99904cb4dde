import pytest

from sampler_audit.servers import profile_of, server_names
from sampler_audit.servers._profile import SENT_FIELDS, Ask, Body
from sampler_audit.servers._reply import Json
from sampler_scenarios.params import SamplingParams


def sent(name: str, params: SamplingParams | None, seed: int | None = None) -> Body:
    """The body of a request."""
    profile = profile_of(name)
    ask = Ask(model="m", prompt=(1, 2) if profile.prompt_ids else "a", params=params, seed=seed)
    return flat(profile.wire.write(profile, ask))


def flat(body: Body) -> Body:
    """A body with what is nested in it laid flat."""
    members: dict[str, Json] = {}
    for key, value in body.items():
        members.update(value if isinstance(value, dict) else {key: value})
    return members


@pytest.mark.parametrize("name", server_names())
def test_every_scalar_field_is_sent_while_neutral(name: str) -> None:
    """An unset field would be filled from model files and the server's own defaults."""
    profile = profile_of(name)
    body = sent(name, SamplingParams())
    scalars = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "min_tokens")
    wanted = [f for f in scalars if f in profile.fields and f not in profile.omitted]
    assert [f for f in wanted if profile.fields[f] not in body] == []
    assert profile.neutral.items() <= body.items()


@pytest.mark.parametrize("name", server_names())
def test_server_defaults_send_no_sampling_field(name: str) -> None:
    """The empty request is a cell of its own; only what makes the answer readable is in it."""
    profile = profile_of(name)
    ours = {*profile.fields.values(), *profile.neutral}
    assert ours & sent(name, None).keys() == set()


@pytest.mark.parametrize("name", server_names())
def test_every_field_is_one_of_ours_and_none_is_both(name: str) -> None:
    """A misspelt field would silently never be sent."""
    profile = profile_of(name)
    assert set(profile.fields) <= {*SENT_FIELDS, "seed"}
    assert set(profile.unsendable) <= set(SENT_FIELDS)
    assert not set(profile.fields) & set(profile.unsendable)


@pytest.mark.parametrize(
    ("name", "off"),
    # How each engine spells "no top_k", by the sources that its file names.
    [("vllm", -1), ("sglang", -1), ("llama_server", 0), ("mlx_lm", 0), ("ollama", 0)],
)
@pytest.mark.parametrize("top_k", [-1, 0])
def test_off_is_spelt_as_the_engine_spells_it(name: str, off: int, top_k: int) -> None:
    """Both of our spellings become its one; vLLM takes both."""
    value = sent(name, SamplingParams(top_k=top_k))["top_k"]
    assert value == off or (name == "vllm" and value == top_k)


def test_tgi_leaves_out_what_it_cannot_be_told_is_off() -> None:
    """Its router refuses top_p 1.0 and top_k 0; a filter that is on is sent."""
    assert {"top_p", "top_k"} & sent("tgi", SamplingParams()).keys() == set()
    assert sent("tgi", SamplingParams(top_p=0.9))["top_p"] == 0.9


def test_a_bias_is_an_object_or_pairs() -> None:
    """OpenAI's object of strings, llama.cpp's list of pairs."""
    params = SamplingParams(logit_bias={7: 2.0, 3: -1.0})
    assert sent("vllm", params)["3"] == -1.0
    assert sent("llama_server", params)["logit_bias"] == [[3, -1.0], [7, 2.0]]


def test_empty_lists_stay_out() -> None:
    """An engine refuses an empty allowed_token_ids, and "nothing is allowed" is not meant."""
    assert "allowed_token_ids" not in sent("vllm", SamplingParams())
    assert sent("vllm", SamplingParams(allowed_token_ids=(4, 2)))["allowed_token_ids"] == [4, 2]


def test_a_seed_is_sent_beside_the_servers_defaults() -> None:
    """It is no setting of the law."""
    assert sent("vllm", None, seed=7)["seed"] == 7
    assert sent("sglang", SamplingParams(), seed=7)["sampling_seed"] == 7


@pytest.mark.parametrize(
    ("name", "params", "words"),
    [
        (
            "vllm",
            SamplingParams(bad_words=((1,),)),
            "vLLM cannot be sent bad_words: it takes words",
        ),
        ("vllm", SamplingParams(temperature=3.0), "its maximum is 2"),
        ("openai", SamplingParams(min_p=0.1), "no such field; --engine NAME"),
        ("tgi", SamplingParams(min_tokens=2), "TGI cannot be sent min_tokens"),
        ("openai", SamplingParams(logit_bias={5: 1.0}), "logit_bias cannot name any by id"),
        ("llama_server", SamplingParams(top_k=3, min_p=0.1), None),
    ],
)
def test_what_cannot_be_asked_is_refused_with_the_reason(
    name: str, params: SamplingParams, words: str | None
) -> None:
    """The report says why a cell is not applicable."""
    why = profile_of(name).refusal(params)
    assert why is None if words is None else words in str(why)


def test_a_small_support_is_forced_as_the_engine_can() -> None:
    """By an allow-list, by an equal bias, or not at all; what else was asked stays."""
    params = SamplingParams(top_p=0.9)
    forced = [profile_of(name).force(params, [4, 2]) for name in ("vllm", "sglang", "ollama")]
    assert forced == [
        SamplingParams(top_p=0.9, allowed_token_ids=(4, 2)),
        SamplingParams(top_p=0.9, logit_bias={4: 100.0, 2: 100.0}),
        None,
    ]


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("vllm", {"logprobs": 5, "n": 3, "max_tokens": 2, "prompt": [1, 2]}),
        ("sglang", {"return_logprob": True, "top_logprobs_num": 5, "n": 3, "max_new_tokens": 2}),
        ("llama_server", {"n_probs": 5, "n_cmpl": 3, "n_predict": 2, "prompt": [1, 2]}),
        ("mlx_lm", {"logprobs": True, "top_logprobs": 5, "max_tokens": 2, "prompt": "a"}),
        ("openai", {"logprobs": True, "top_logprobs": 5, "n": 3, "max_tokens": 2}),
        ("openai_completions", {"logprobs": 5, "n": 3, "max_tokens": 2, "prompt": "a"}),
        ("ollama", {"logprobs": True, "top_logprobs": 5, "num_predict": 2, "raw": True}),
        ("tgi", {"top_n_tokens": 5, "max_new_tokens": 2, "details": True, "inputs": "a"}),
        ("tensorrt_llm", {"n": 3, "max_tokens": 2, "detokenize": False}),
    ],
)
def test_a_request_is_written_in_the_engines_words(name: str, asked: Body) -> None:
    """Lists, choices and length."""
    profile = profile_of(name)
    prompt = (1, 2) if profile.prompt_ids else "a"
    body = profile.wire.write(profile, Ask(model="m", prompt=prompt, n=3, max_tokens=2, logprobs=5))
    assert asked.items() <= flat(body).items()


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("vllm", {"prompt_logprobs": 5, "prompt": [1, 2]}),
        ("sglang", {"return_logprob": True, "top_logprobs_num": 5, "logprob_start_len": 0}),
        ("tensorrt_llm", {"return_context_logits": True}),
    ],
)
def test_the_rows_of_a_prompt_are_asked_for(name: str, asked: Body) -> None:
    """Of the second token, by the words of each engine that has some."""
    profile = profile_of(name)
    assert profile.wire.write_prompt is not None
    ask = Ask(model="m", prompt=(1, 2), logprobs=5, start=1)
    body = flat(profile.wire.write_prompt(profile, ask))
    assert asked.items() <= body.items()
    assert "logprobs" not in body
