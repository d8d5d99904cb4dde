"""Parameters that a class should refuse before an engine admits them."""

from types import ModuleType

import pytest

from sampler_audit.errors import UsageError
from sampler_audit.processor_audit.audited import Audited
from sampler_audit.processor_audit.settings import Settings, make_params, read_settings
from sampler_audit.sampler.processors.examples.target_token import TargetToken
from sampler_scenarios.params import SamplingParams

BIAS: Settings = {"extra_args": {"bias": 4.0}}
TEXT: Settings = {"extra_args": {"bias": "text"}}
TARGET: Settings = {"extra_args": {"target_token": 3}}


def refusals(cls: type, good: Settings, *bad: Settings) -> list[tuple[str, str]]:
    """Kind and last step of each fault."""
    audited = Audited(cls, [good], vocab_size=32, seed=1)
    return [(fault["kind"], fault["steps"][-1]) for fault in audited.refusals(bad)]


def test_text_that_is_accepted_and_raises_in_a_step(wrong: ModuleType) -> None:
    """Shown with the step, which would have ended the engine."""
    found = refusals(wrong.AcceptsEverything, BIAS)
    assert ("accepted", 'add A {"extra_args": {"bias": "text"}}; step') in found


def test_a_type_error_is_no_refusal(wrong: ModuleType) -> None:
    """Text is compared with a number; a server would answer 500, not 400."""
    found = refusals(wrong.RefusesWithATypeError, BIAS)
    assert ("refusal", 'validate_params {"extra_args": {"bias": "text"}}') in found
    assert {kind for kind, _ in found} == {"refusal"}


def test_what_is_named_as_bad_must_be_refused(wrong: ModuleType) -> None:
    """By a class that ignores text, which harms nobody, and by one that refuses it."""
    assert refusals(wrong.Bias, BIAS) == []
    text = 'validate_params {"extra_args": {"bias": "text"}}'
    assert refusals(wrong.Bias, BIAS, TEXT) == [("accepted", text)]
    bad: Settings = {"extra_args": {"target_token": "text"}}
    assert refusals(TargetToken, TARGET, bad) == []


def test_settings_that_the_class_refuses_are_no_audit() -> None:
    """They came from the command line."""
    bad: Settings = {"extra_args": {"target_token": -2}}
    with pytest.raises(UsageError, match=r"is refused: target_token must be a token id"):
        Audited(TargetToken, [bad], vocab_size=32, seed=1)


def test_settings_are_fields_of_sampling_params() -> None:
    """JSON has no tuples, and no keys that are numbers."""
    text = '{"logit_bias": {"5": 1.5}, "bad_words": [[1, 2]], "min_p": 0.5}'
    expected = SamplingParams(logit_bias={5: 1.5}, bad_words=((1, 2),), min_p=0.5)
    assert make_params(read_settings(text, "--params")) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "must be a JSON object"),
        ("[1]", "must be a JSON object"),
        ('{"target_token": 3}', "goes into extra_args"),
    ],
)
def test_other_settings_are_told_what_to_write(text: str, message: str) -> None:
    """Usage, before anything is started."""
    with pytest.raises(UsageError, match=message):
        read_settings(text, "--params")
