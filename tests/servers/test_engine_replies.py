"""Every wire reads answers of its engine's shape, by the sources that the engine's file names.

vLLM's and mlx-lm's are cut from answers of vllm 0.32.0 and mlx_lm 0.32.2 that served SmolLM2-135M.
"""

import math

import pytest

from sampler_audit.errors import ServerNonsense
from sampler_audit.servers import profile_of
from sampler_audit.servers._profile import Ask, Choice
from sampler_audit.servers._reply import Json, Reply
from sampler_audit.servers._rows import Step

INF = math.inf

VLLM: Json = {
    "model": "smol",
    "choices": [
        {
            "index": 1,
            "text": ":",
            "logprobs": {
                "text_offset": [0],
                "token_logprobs": [-2.92170],
                "tokens": ["token_id:42"],
                "top_logprobs": [
                    {"token_id:42": -2.92170, "token_id:216": -1.48420, "token_id:253": -9999.0}
                ],
            },
            "token_ids": [42],
        },
        {"index": 0, "text": " a", "logprobs": None, "token_ids": [253]},
    ],
}
SGLANG: Json = [
    {
        "text": " a",
        "output_ids": [253],
        "meta_info": {
            "output_token_logprobs": [[-2.3, 253, " a"]],
            "output_top_logprobs": [[[-1.5, 216, " "], [-3.4028234663852886e38, 42, ":"]]],
        },
    },
    {"text": ":", "output_ids": [42], "meta_info": {}},
]
LLAMA: Json = {
    "content": " a",
    "tokens": [253],
    "completion_probabilities": [
        {
            "id": 253,
            "token": " a",
            "bytes": [32, 97],
            "logprob": -2.3,
            "top_logprobs": [
                {"id": 216, "token": " ", "bytes": [32], "logprob": -1.5},
                {"id": 42, "token": ":", "bytes": [58], "logprob": -3.4e38},
            ],
        }
    ],
}
LEGACY: Json = {
    "choices": [
        {
            "index": 0,
            "text": " a",
            "logprobs": {
                "tokens": [" a"],
                "token_logprobs": [-2.3],
                "top_logprobs": [{" a": -2.3, " ": -1.5}],
            },
        }
    ]
}
CHAT: Json = {
    "choices": [
        {
            "index": 0,
            "message": {"content": "\ufffd"},
            "logprobs": {
                "content": [
                    {
                        "token": "\ufffd",
                        "bytes": [226],
                        "logprob": -2.3,
                        "top_logprobs": [
                            {"token": " ", "bytes": [32], "logprob": -1.5},
                            {"token": "é", "bytes": None, "logprob": -9999.0},
                        ],
                    }
                ]
            },
        }
    ]
}
TABBY: Json = {
    "choices": [
        {
            "index": 0,
            "message": {"content": " a"},
            "logprobs": {
                "content": [
                    {
                        "token": " a",
                        "token_id": 253,
                        "logprob": -2.3,
                        "top_logprobs": [{"token": " ", "token_id": 216, "logprob": -1.5}],
                    }
                ]
            },
        }
    ]
}
MLX: Json = {
    "choices": [
        {"index": 0, "text": " a", "logprobs": {"content": [{"id": 253, "logprob": -2.25}]}}
    ]
}
MLX_LISTED: Json = {
    "choices": [
        {
            "index": 0,
            "text": " a",
            "logprobs": {
                "content": [
                    {
                        "id": 216,
                        "token": "Ġ",
                        "logprob": -1.5625,
                        "top_logprobs": [
                            {"id": 216, "token": "Ġ", "logprob": -1.5625},
                            {"id": 253, "token": "Ġa", "logprob": -2.25},
                        ],
                    }
                ]
            },
        }
    ]
}
OLLAMA: Json = {
    "model": "m",
    "response": " a",
    "logprobs": [
        {
            "token": " a",
            "bytes": [32, 97],
            "logprob": -2.3,
            "top_logprobs": [{"token": " ", "bytes": [32], "logprob": -1.5}],
        }
    ],
}
TGI: Json = {
    "generated_text": " a",
    "details": {
        "tokens": [{"id": 253, "text": " a", "logprob": -2.3, "special": False}],
        "top_tokens": [[{"id": 216, "text": " ", "logprob": -1.5, "special": False}]],
    },
}
TRT: Json = {
    "choices": [
        {
            "index": 0,
            "text": "",
            "token_ids": [253],
            "logprobs": {
                "tokens": [" a"],
                "token_logprobs": [-2.3],
                "top_logprobs": [{" a": -2.3, " ": -1.5}],
            },
        }
    ]
}


def plain(choice: Choice) -> list[tuple[object, list[tuple[object, float]]]]:
    """(own token, listed (token, log-prob)) of every step."""
    return [
        (step.own and step.own.token, [(e.token, e.logprob) for e in step.listed])
        for step in choice
    ]


def read(name: str, answer: Json, max_tokens: int = 1) -> list[object]:
    """The choices that the engine's wire reads in an answer."""
    profile = profile_of(name)
    ask = Ask(model="m", prompt="a", logprobs=2, max_tokens=max_tokens)
    return [plain(choice) for choice in profile.wire.read(profile, ask, Reply(answer, "POST /p"))]


@pytest.mark.parametrize(
    ("name", "answer", "choices"),
    [
        ("vllm", VLLM, [[(253, [])], [(42, [(42, -2.92170), (216, -1.48420), (253, -INF)])]]),
        ("aphrodite", VLLM, [[(253, [])], [(42, [(42, -2.92170), (216, -1.48420), (253, -INF)])]]),
        ("sglang", SGLANG, [[(253, [(216, -1.5), (42, -INF)])], [(42, [])]]),
        ("llama_server", LLAMA, [[(253, [(216, -1.5), (42, -INF)])]]),
        (
            "llama_server",
            [LLAMA, {"tokens": [42]}],
            [[(253, [(216, -1.5), (42, -INF)])], [(42, [])]],
        ),
        ("llama_cpp_python", LEGACY, [[(b" a", [(b" a", -2.3), (b" ", -1.5)])]]),
        ("lmdeploy", LEGACY, [[(b" a", [(b" a", -2.3), (b" ", -1.5)])]]),
        ("openai_completions", LEGACY, [[(b" a", [(b" a", -2.3), (b" ", -1.5)])]]),
        ("openai", CHAT, [[(b"\xe2", [(b" ", -1.5), ("é".encode(), -INF)])]]),
        ("tabby_api", TABBY, [[(253, [(216, -1.5)])]]),
        ("ollama", OLLAMA, [[(b" a", [(b" ", -1.5)])]]),
        ("ollama", {"response": ""}, [[]]),
        ("tgi", TGI, [[(253, [(216, -1.5)])]]),
        ("tgi", [TGI], [[(253, [(216, -1.5)])]]),
        # The list beside the id is of texts, whose ids are not known.
        ("tensorrt_llm", TRT, [[(253, [])]]),
        # Beside a list, mlx-lm does not tell which token was drawn.
        ("mlx_lm", MLX_LISTED, [[(None, [(216, -1.5625), (253, -2.25)])]]),
    ],
)
def test_an_answer_is_read(name: str, answer: Json, choices: list[object]) -> None:
    """Choices by index, tokens as told, minus infinity as such."""
    assert read(name, answer) == choices


def test_mlx_tells_the_drawn_token_where_no_list_is_asked_for() -> None:
    """So draws and rows are separate requests."""
    profile = profile_of("mlx_lm")
    (choice,) = profile.wire.read(profile, Ask(model="m", prompt="a"), Reply(MLX, "POST /p"))
    assert plain(choice) == [(253, [])]


def test_mere_text_is_one_token_at_most() -> None:
    """Where neither ids nor log-probs are told, the borders of several tokens are not known."""
    answer: Json = {"choices": [{"index": 0, "text": " a b", "logprobs": None}]}
    assert read("llama_cpp_python", answer) == [[(b" a b", [])]]
    with pytest.raises(ServerNonsense, match="cannot be told apart"):
        read("llama_cpp_python", answer, max_tokens=2)


def test_an_end_that_is_not_told_is_no_token() -> None:
    """Empty text with finish_reason stop: the end token was drawn."""
    answer: Json = {"choices": [{"text": "", "finish_reason": "stop", "logprobs": None}]}
    assert read("llama_cpp_python", answer) == [[]]


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("vllm", {}, "choices is missing"),
        ("vllm", {"choices": [{"index": 0}, {"index": 0}]}, "do not count their index from 0"),
        (
            "vllm",
            {
                "choices": [
                    {
                        "token_ids": [1],
                        "logprobs": {"tokens": ["token_id:2"], "token_logprobs": [-1]},
                    }
                ]
            },
            "says 1, and logprobs 2",
        ),
        (
            "vllm",
            {
                "choices": [
                    {"token_ids": [1, 2], "logprobs": {"tokens": ["x"], "token_logprobs": [-1]}}
                ]
            },
            "counts 2 tokens, and logprobs 1",
        ),
        (
            "vllm",
            {"choices": [{"logprobs": {"tokens": ["x"], "token_logprobs": [None]}}]},
            "is null",
        ),
        ("sglang", {"output_ids": [1]}, "meta_info is missing"),
        ("sglang", {"meta_info": {"output_token_logprobs": [[None, 1, None]]}}, "is null"),
        ("llama_server", {"content": "hello"}, "tokens is missing"),
        (
            "openai",
            {"choices": [{"logprobs": {"content": [{"token": "a", "logprob": "x"}]}}]},
            "number",
        ),
        (
            "openai",
            {
                "choices": [
                    {"logprobs": {"content": [{"token": "a", "bytes": [999], "logprob": 0}]}}
                ]
            },
            "is no byte",
        ),
        ("ollama", {"response": " a"}, "has no logprobs"),
        ("tgi", {"generated_text": " a"}, "details is missing"),
    ],
)
def test_an_answer_that_cannot_be_right_is_refused(name: str, answer: Json, words: str) -> None:
    """One line with its place, whatever the engine."""
    with pytest.raises(ServerNonsense, match=words):
        read(name, answer)


def prompt_steps(name: str, answer: Json, start: int) -> tuple[Step, ...]:
    """What the engine's wire reads of the prompt 5 6 7."""
    profile = profile_of(name)
    ask = Ask(model="m", prompt=(5, 6, 7), logprobs=1, start=start)
    assert profile.wire.read_prompt is not None
    return profile.wire.read_prompt(profile, ask, Reply(answer, "POST /p"))


# Three tokens; the row of the first is always null.
VLLM_PROMPT: Json = {
    "choices": [
        {
            "prompt_logprobs": [
                None,
                {"6": {"logprob": -2.0, "rank": 3}, "9": {"logprob": -1.0, "rank": 1}},
                {"7": {"logprob": -0.5, "rank": 1, "decoded_token": " b"}},
            ]
        }
    ]
}


@pytest.mark.parametrize("start", [0, 1, 2])
def test_vllm_lists_the_whole_prompt(start: int) -> None:
    """The rows from ``start`` on, each with the prompt's own token."""
    expected = [(6, [(6, -2.0), (9, -1.0)]), (7, [(7, -0.5)])]
    assert plain(prompt_steps("vllm", VLLM_PROMPT, start)) == expected[max(start, 1) - 1 :]


def test_sglang_lists_from_the_start_that_was_asked_for() -> None:
    """With logprob_start_len s, index j predicts token s + j, and index 0 is null."""
    meta: Json = {
        "input_token_logprobs": [[None, 6, None], [-0.5, 7, None]],
        "input_top_logprobs": [None, [[-0.5, 7, None], [-1.5, 8, None]]],
    }
    steps = prompt_steps("sglang", {"meta_info": meta}, 2)
    assert plain(steps) == [(7, [(7, -0.5), (8, -1.5)])]


def test_tensorrt_llm_gives_logits_of_the_prompt() -> None:
    """Row i predicts token i + 1; eight equal logits are log-probs of -ln 8."""
    logits: Json = [[0.0] * 8, [3.0] * 8, [9.0] * 8]
    steps = prompt_steps("tensorrt_llm", {"choices": [{"context_logits": logits}]}, 2)
    ((own, listed),) = plain(steps)
    assert (own, len(listed)) == (7, 8)
    assert [logprob for _, logprob in listed] == pytest.approx([-math.log(8)] * 8)


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("vllm", {"choices": [{"text": ""}]}, "prompt_logprobs is missing"),
        ("vllm", {"choices": [{"prompt_logprobs": [None, {"9": {"logprob": -1}}]}]}, "own token 6"),
        ("vllm", {"choices": [{"prompt_logprobs": [None, {"a": {"logprob": -1}}]}]}, "no token id"),
        ("tensorrt_llm", {"choices": [{"context_logits": [[0.0]]}]}, "no logit for .* token 6"),
    ],
)
def test_a_prompt_row_that_cannot_be_right_is_refused(name: str, answer: Json, words: str) -> None:
    """As when a gateway drops the field that asks for it."""
    with pytest.raises(ServerNonsense, match=words):
        prompt_steps(name, answer, 1)
