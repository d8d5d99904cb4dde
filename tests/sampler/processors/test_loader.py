"""Where classes come from, their order, and the message of every refusal."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sampler_audit.errors import UsageError
from sampler_audit.sampler.processors import (
    PLUGIN_GROUPS,
    RULES,
    ProcessorNotFound,
    ProcessorNotLoaded,
    ProcessorRefused,
    load_processors,
)
from sampler_audit.sampler.processors.examples.dry import Dry
from sampler_audit.sampler.processors.examples.end_after import EndAfter
from sampler_audit.sampler.processors.examples.target_token import TargetToken

EXAMPLES = "sampler_audit.sampler.processors.examples"
DRY = f"{EXAMPLES}.dry:Dry"
TARGET = f"{EXAMPLES}.target_token:TargetToken"
OURS, VLLM = PLUGIN_GROUPS

Install = Callable[[str], None]
"""Installs a distribution with this text as its entry points."""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Distributions on a path of their own, which also holds a module that cannot be imported."""
    (tmp_path / "broken_module.py").write_text("raise OSError('no such device')\n")
    monkeypatch.syspath_prepend(tmp_path)

    def write(entry_points: str) -> None:
        info = tmp_path / "plugged-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(entry_points)

    return write


def test_names_and_classes_in_the_order_given() -> None:
    """A name of the form module:Class loads what the class itself stands for."""
    assert load_processors([TARGET, Dry, DRY]) == [TargetToken, Dry, Dry]


def test_what_follows_the_colon_may_be_a_path() -> None:
    """As it is for a class inside of another."""
    assert load_processors(["sampler_audit.sampler.processors:examples.dry.Dry"]) == [Dry]


def test_plug_ins_come_first_and_once(install: Install) -> None:
    """Ours, then vLLM's, then names; what is offered to both is loaded once."""
    install(f"[{VLLM}]\nend = {EXAMPLES}.end_after:EndAfter\ndry = {DRY}\n[{OURS}]\ndry = {DRY}\n")
    assert load_processors([TARGET], groups=PLUGIN_GROUPS) == [Dry, EndAfter, TargetToken]


def test_plug_ins_are_read_only_where_asked_for(install: Install) -> None:
    """By default an installed package changes nothing."""
    install(f"[{OURS}]\ndry = {DRY}\n")
    assert load_processors() == []
    assert load_processors(groups=[VLLM]) == []


@pytest.mark.usefixtures("install")
def test_a_module_that_raises() -> None:
    """A RuntimeError with the cause in the message and chained."""
    with pytest.raises(ProcessorNotLoaded) as raised:
        load_processors(["broken_module:Class"])
    assert isinstance(raised.value, RuntimeError)
    assert isinstance(raised.value.__cause__, OSError)
    assert str(raised.value) == (
        "'broken_module:Class' could not be loaded: importing 'broken_module' raised OSError: no "
        "such device"
    )


def test_a_module_that_does_not_exist() -> None:
    """The same, whatever the import raised."""
    with pytest.raises(ProcessorNotLoaded, match="raised ModuleNotFoundError: No module named"):
        load_processors(["no_such_module_anywhere:Class"])


def test_a_plug_in_that_raises(install: Install) -> None:
    """Its name, where it points, and what to do."""
    install(f"[{VLLM}]\nmine = broken_module:Class\n")
    with pytest.raises(ProcessorNotLoaded) as raised:
        load_processors(groups=PLUGIN_GROUPS)
    assert str(raised.value) == (
        "plug-in 'mine' (broken_module:Class) could not be loaded: OSError: no such device; mend "
        "or uninstall the package that brings it"
    )


@pytest.mark.parametrize("name", ["", "module", "module:", ":Class", "module:Class:more"])
def test_a_malformed_name(name: str) -> None:
    """A ValueError that shows the form."""
    with pytest.raises(ProcessorRefused) as raised:
        load_processors([name])
    assert isinstance(raised.value, ValueError)
    assert str(raised.value) == (
        f"a logits processor is named 'module:Class', such as 'package.module:Class', got {name!r}"
    )


def test_a_name_that_the_module_lacks() -> None:
    """An AttributeError."""
    with pytest.raises(ProcessorNotFound) as raised:
        load_processors([f"{EXAMPLES}.dry:Wet"])
    assert isinstance(raised.value, AttributeError)
    assert str(raised.value) == (
        f"'{EXAMPLES}.dry:Wet' could not be loaded: {EXAMPLES}.dry has no 'Wet'"
    )


def test_something_that_is_no_class() -> None:
    """A module's number, by name; and a plug-in that is a function."""
    with pytest.raises(ProcessorRefused) as raised:
        load_processors(["math:pi"])
    assert str(raised.value) == "'math:pi' must be a class, got 3.141592653589793"


def test_a_plug_in_that_is_no_class(install: Install) -> None:
    """The message names the plug-in."""
    install(f"[{OURS}]\nmine = math:pi\n")
    with pytest.raises(ProcessorRefused, match=r"^plug-in 'mine' must be a class, got 3\.14"):
        load_processors(groups=PLUGIN_GROUPS)


@pytest.mark.parametrize("source", [dict, "builtins:dict"])
def test_a_class_of_neither_interface(source: str | type) -> None:
    """It is named as it was given."""
    with pytest.raises(ProcessorRefused) as raised:
        load_processors([source])
    name = "dict" if source is dict else "'builtins:dict'"
    assert str(raised.value) == (
        f"{name} is no logits processor: derive dict from LogitsProcessor or BatchLogitsProcessor "
        "of sampler_audit.sampler.processors, or from vLLM's"
    )


def test_a_class_that_is_unfinished() -> None:
    """What it still has to implement is listed."""
    with pytest.raises(ProcessorRefused) as raised:
        load_processors(["sampler_audit.sampler.processors:BatchLogitsProcessor"])
    assert str(raised.value) == (
        "'sampler_audit.sampler.processors:BatchLogitsProcessor' is abstract: implement apply, "
        "is_argmax_invariant, update_state in BatchLogitsProcessor"
    )


def test_a_batch_level_class_where_slot_level_ones_run() -> None:
    """Model Runner V2."""
    with pytest.raises(ProcessorRefused) as raised:
        load_processors([Dry, TargetToken], rules=RULES["vllm-v2"])
    assert str(raised.value) == (
        "TargetToken is a batch-level logits processor, and vLLM's Model Runner V2 runs slot-level "
        "ones only: write TargetToken for that interface"
    )


def test_a_slot_level_class_where_batch_level_ones_run() -> None:
    """The V1 sampler."""
    with pytest.raises(ProcessorRefused) as raised:
        load_processors([TARGET, DRY], rules=RULES["vllm-v1"])
    assert str(raised.value) == (
        f"'{DRY}' is a slot-level logits processor, and vLLM's V1 sampler runs batch-level ones "
        "only: write Dry for that interface"
    )


def test_a_batch_level_class_with_our_speculative_decoding() -> None:
    """Slot-level ones run with drafts, here and in Model Runner V2."""
    assert load_processors([Dry], speculative=True) == [Dry]
    assert load_processors([Dry], rules=RULES["vllm-v2"], speculative=True) == [Dry]
    with pytest.raises(ProcessorRefused) as raised:
        load_processors([Dry, TargetToken], speculative=True)
    assert str(raised.value) == (
        "TargetToken is a batch-level logits processor, and sampler-audit with speculative "
        "decoding runs slot-level ones only: write TargetToken for that interface"
    )


V1, V2 = "vLLM's V1 sampler", "vLLM's Model Runner V2"
RUNS_NONE = "runs no custom logits processors with"
# Profile, pooling model, speculative decoding, and what the profile says to that.
OBSTACLES = [
    ("vllm-v1", False, True, f"{V1} {RUNS_NONE} speculative decoding"),
    ("vllm-v1", True, False, f"{V1} {RUNS_NONE} a pooling model"),
    ("vllm-v2", True, True, f"{V2} {RUNS_NONE} a pooling model"),
    ("sampler-audit", True, False, f"sampler-audit {RUNS_NONE} a pooling model"),
    ("vllm-v1-tpu", False, False, f"{V1} on TPU loads no custom logits processors"),
]


@pytest.mark.parametrize(("engine", "pooling", "speculative", "words"), OBSTACLES)
def test_where_no_processor_runs_named_ones_are_refused(
    engine: str, pooling: bool, speculative: bool, words: str
) -> None:
    """In the words of the profile, and before anything is imported."""
    rules = RULES[engine]
    sources: list[str | type] = ["no_such_module:Class", Dry]
    assert rules.obstacle(pooling=pooling, speculative=speculative) == words
    with pytest.raises(ProcessorRefused) as raised:
        load_processors(sources, rules=rules, pooling=pooling, speculative=speculative)
    assert str(raised.value) == f"{words}; got 'no_such_module:Class', Dry"


@pytest.mark.parametrize(("engine", "pooling", "speculative", "_words"), OBSTACLES)
def test_where_no_processor_runs_plug_ins_are_passed_over(
    install: Install, engine: str, pooling: bool, speculative: bool, _words: str
) -> None:
    """Even those that could not be imported."""
    install(f"[{VLLM}]\nmine = broken_module:Class\n")
    rules = RULES[engine]
    loaded = load_processors(
        rules=rules, groups=PLUGIN_GROUPS, pooling=pooling, speculative=speculative
    )
    assert loaded == []


@pytest.mark.parametrize("engine", ["sampler-audit", "vllm-v1", "vllm-v2"])
def test_an_engine_that_runs_processors_has_no_obstacle(engine: str) -> None:
    """Without pooling and drafts."""
    assert RULES[engine].obstacle() is None


@pytest.mark.parametrize("error", [ProcessorRefused, ProcessorNotLoaded, ProcessorNotFound])
def test_refusals_end_the_command_line_as_wrong_usage(error: type[UsageError]) -> None:
    """Exit code 2."""
    assert issubclass(error, UsageError)
    assert error.exit_code == 2
