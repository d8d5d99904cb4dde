"""The planted classes, and their audit in this process: starting another takes seconds."""

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

import pytest

from sampler_audit.processor_audit.audited import Audited
from sampler_audit.processor_audit.search import Searched, search
from sampler_audit.processor_audit.settings import Settings
from sampler_audit.processor_audit.turns import Fault, Turn


@pytest.fixture(scope="session")
def wrong() -> ModuleType:
    """The module wrong_processors."""
    path = Path(__file__).with_name("wrong_processors.py")
    spec = importlib.util.spec_from_file_location("wrong_processors", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def searched() -> Callable[..., Searched]:
    """What sixty sequences of a class show."""

    def run(cls: type, *settings: Settings, seed: int = 1) -> Searched:
        audited = Audited(cls, settings, vocab_size=32, seed=seed)

        def play(turns: Sequence[Turn]) -> tuple[list[Fault], dict[str, int]]:
            played = audited.play(turns)
            return played.faults, dict(played.counts)

        return search(
            play,
            n_settings=audited.facts.n_settings,
            most_drafts=audited.facts.most_drafts,
            n_sequences=60,
            seed=seed,
            progress=lambda _what, _done, _total: None,
        )

    return run
