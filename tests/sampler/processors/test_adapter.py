"""Functions of one request's row: what they are handed, and where their answer goes."""

from collections.abc import Callable

import pytest
import torch

from sampler_audit.sampler.processors import (
    AdapterLogitsProcessor,
    BatchTracker,
    EngineConfig,
    LiveRequest,
    ProcessorMisbehaved,
    RequestLogitsProcessor,
)
from sampler_scenarios.params import SamplingParams
from sampler_scenarios.requests import ModelConfig

CPU = torch.device("cpu")
CONFIG = EngineConfig(model=ModelConfig(vocab_size=3), max_requests=4, max_drafts=0, device=CPU)
WANTS = SamplingParams(extra_args={"wants": True})


def adapter(function: Callable[..., torch.Tensor]) -> AdapterLogitsProcessor:
    """An adapter that gives ``function`` to each request that wants it."""

    class Adapter(AdapterLogitsProcessor):
        def is_argmax_invariant(self) -> bool:
            return False

        def new_req_logits_processor(self, params: SamplingParams) -> RequestLogitsProcessor | None:
            return function if params.extra_args else None

    return Adapter(CONFIG, CPU, False)


def run(function: Callable[..., torch.Tensor], *requests: LiveRequest) -> list[list[float]]:
    """Rows of zeros, one a request, after the adapter."""
    processor = adapter(function)
    processor.update_state(BatchTracker().update(list(requests)))
    rows: list[list[float]] = processor.apply(torch.zeros(len(requests), 3)).tolist()
    return rows


def add_last_output(output_token_ids: list[int], row: torch.Tensor) -> torch.Tensor:
    """In place: 1 at the last token of the output."""
    row[output_token_ids[-1]] += 1
    return row


def add_prompt(prompt_ids: list[int], output_ids: list[int], row: torch.Tensor) -> torch.Tensor:
    """A new tensor: the length of the prompt everywhere, and that of the output at token 0."""
    return row + len(prompt_ids) + torch.tensor([len(output_ids), 0, 0])


def test_a_function_of_two_gets_output_and_row() -> None:
    """What it changes in place is kept; a request that wants none is left alone."""
    rows = run(add_last_output, LiveRequest(SamplingParams()), LiveRequest(WANTS, None, [0, 2]))
    assert rows == [[0, 0, 0], [0, 0, 1]]


def test_a_function_of_three_gets_the_prompt_first() -> None:
    """What it returns anew takes the place of the row."""
    assert run(add_prompt, LiveRequest(WANTS, [5, 5], [1])) == [[3, 2, 2]]


def test_the_output_is_the_present_one() -> None:
    """Tokens emitted since the request was added are seen without an update."""
    request, processor = LiveRequest(WANTS, None, [0]), adapter(add_last_output)
    processor.update_state(BatchTracker().update([request]))
    request.output_token_ids.append(2)
    processor.update_state(None)
    assert processor.apply(torch.zeros(1, 3)).tolist() == [[0, 0, 1]]


def test_functions_follow_their_rows() -> None:
    """Two requests change places."""
    tracker, processor = BatchTracker(), adapter(add_last_output)
    a, b = LiveRequest(WANTS, None, [0]), LiveRequest(WANTS, None, [2])
    processor.update_state(tracker.update([a, b]))
    processor.update_state(tracker.update([b, a]))
    assert processor.apply(torch.zeros(2, 3)).tolist() == [[0, 0, 1], [1, 0, 0]]


def test_three_parameters_need_a_prompt() -> None:
    """The refusal says which three, what is missing and what helps."""
    with pytest.raises(
        ValueError, match="the token ids of this request's prompt are not known"
    ) as e:
        run(add_prompt, LiveRequest(WANTS, None))
    assert str(e.value) == (
        "a function of Adapter takes (prompt_token_ids, output_token_ids, row), but the token ids "
        "of this request's prompt are not known; admit it with token ids, or return a function of "
        "(output_token_ids, row)"
    )


@pytest.mark.parametrize(
    ("function", "n_parameters"),
    [(lambda row: row, 1), (lambda a, b, c, row: row, 4)],  # noqa: ARG005 - their number counts
)
def test_any_other_number_of_parameters_is_refused(
    function: Callable[..., torch.Tensor], n_parameters: int
) -> None:
    """One and four."""
    with pytest.raises(ValueError, match="parameters") as raised:
        run(function, LiveRequest(WANTS, []))
    assert str(raised.value) == (
        "a function of Adapter must take (output_token_ids, row) or (prompt_token_ids, "
        f"output_token_ids, row), got {n_parameters} parameters"
    )


@pytest.mark.parametrize(("answer", "described"), [(None, "None"), (torch.zeros(1), "float32 [1]")])
def test_an_answer_that_is_no_row_is_refused(answer: torch.Tensor, described: str) -> None:
    """Nothing, or a tensor that assignment would have spread over the row."""
    with pytest.raises(ProcessorMisbehaved) as raised:
        run(lambda _output, _row: answer, LiveRequest(WANTS))
    assert str(raised.value) == (
        f"a function of Adapter must return the logits, float32 [3], got {described}"
    )
