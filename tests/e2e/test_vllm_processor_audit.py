"""The audit of logits processors on classes of vLLM 0.32.0, and on some written for it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sampler_audit.processor_audit.audit import ProcessorRequest, audit_in
from sampler_audit.processor_audit.report import ProcessorReport
from sampler_audit.processor_audit.subject_process import SubjectProcess

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-vllm" / "bin" / "python"
BUILT_IN = "vllm.v1.sample.logits_processor"

pytestmark = pytest.mark.e2e

# The shapes of vLLM's three documented examples (batch-level, a function of one request, and one
# that reads the engine's configuration), a slot-level one, and one that is wrong.
EXAMPLES = """
import torch
from vllm.v1.sample.logits_processor import AdapterLogitsProcessor, LogitsProcessor
from vllm.v1.sample.logits_processor.builtin import process_dict_updates
from vllm.v1.worker.gpu.sample.logits_processor import LogitsProcessor as SlotLevel


def target_of(params):
    return params.extra_args and params.extra_args.get("target_token")


class Target(LogitsProcessor):
    @classmethod
    def validate_params(cls, params):
        if not isinstance(target_of(params), int | None):
            raise ValueError(f"target_token must be an integer, got {target_of(params)!r}")

    def __init__(self, vllm_config, device, is_pin_memory):
        self.targets = {}

    def is_argmax_invariant(self):
        return False

    def update_state(self, batch_update):
        process_dict_updates(
            self.targets, batch_update, lambda params, prompt, output: target_of(params)
        )

    def apply(self, logits):
        for row, target in self.targets.items():
            kept = logits[row, target].clone()
            logits[row] = -torch.inf
            logits[row, target] = kept
        return logits


class TargetOfRequest(AdapterLogitsProcessor):
    validate_params = Target.validate_params

    def is_argmax_invariant(self):
        return False

    def new_req_logits_processor(self, params):
        target = target_of(params)

        def keep(output_ids, row):
            kept = row[target].item()
            row[:] = -torch.inf
            row[target] = kept
            return row

        return None if target is None else keep


class TargetOnDevice(TargetOfRequest):
    def __init__(self, vllm_config, device, is_pin_memory):
        super().__init__(vllm_config, device, is_pin_memory)
        self.on = device.type == "cpu" and vllm_config.model_config.get_vocab_size() > 8

    def new_req_logits_processor(self, params):
        return super().new_req_logits_processor(params) if self.on else None


class SlotTarget(SlotLevel):
    validate_params = Target.validate_params

    def __init__(self, vllm_config, req_states):
        self.targets = torch.full((req_states.max_num_reqs,), -1)

    def add_request(self, req_idx, sampling_params):
        target = target_of(sampling_params)
        self.targets[req_idx] = -1 if target is None else target
        return target is not None

    def apply(self, logits, ctx):
        targets = self.targets[ctx.expanded_idx_mapping.long()]
        masked = (targets >= 0)[:, None] & (torch.arange(logits.shape[1]) != targets[:, None])
        return logits.masked_fill(masked, -torch.inf)


class StaleTarget(SlotTarget):
    def add_request(self, req_idx, sampling_params):
        if (target := target_of(sampling_params)) is not None:
            self.targets[req_idx] = target
        return True
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the module examples_for_vllm lies."""
    path = tmp_path_factory.mktemp("processors")
    (path / "examples_for_vllm.py").write_text(EXAMPLES)
    return path


@pytest.fixture(scope="module")
def process(folder: Path) -> Iterator[SubjectProcess]:
    """One for all classes: importing vLLM takes most of the time."""
    with pytest.MonkeyPatch.context() as patch, closing(_started(patch, folder)) as process:
        yield process


def _started(patch: pytest.MonkeyPatch, folder: Path) -> SubjectProcess:
    patch.chdir(folder)
    return SubjectProcess(str(PYTHON), 120)


def audited(process: SubjectProcess, name: str, *, with_target: bool) -> ProcessorReport:
    """Sixty sequences."""
    settings = ({"extra_args": {"target_token": 3}},) if with_target else ()
    request = ProcessorRequest(
        processor=name, settings=settings, vocab_size=64, n_sequences=60, seed=1
    )
    return audit_in(process, request, lambda _what, _done, _total: None)


@pytest.mark.parametrize("name", ["MinP", "LogitBias", "MinTokens"])
def test_built_in_processors_pass(process: SubjectProcess, name: str) -> None:
    """Under the parameters that are tried unasked."""
    report = audited(process, f"{BUILT_IN}:{name}LogitsProcessor", with_target=False)
    assert (report.outcome, report.faults) == ("pass", ())
    assert report.argmax_invariant == (name == "MinP")


@pytest.mark.parametrize("name", ["Target", "TargetOfRequest", "TargetOnDevice", "SlotTarget"])
def test_classes_like_its_examples_pass(process: SubjectProcess, name: str) -> None:
    """Of both interfaces, wrapped ones included."""
    report = audited(process, f"examples_for_vllm:{name}", with_target=True)
    assert (report.outcome, report.faults) == ("pass", ())
    assert report.level == ("slot-level" if name == "SlotTarget" else "batch-level")


def test_a_stale_slot_is_found_from_the_command_line(folder: Path) -> None:
    """In an interpreter that has neither Hypothesis nor anything of ours."""
    options = ["--params", '{"extra_args": {"target_token": 3}}', "--seed", "1", "--sequences"]
    command = ["processor", "examples_for_vllm:StaleTarget", "--python", str(PYTHON), *options]
    done = subprocess.run(
        [sys.executable, "-m", "sampler_audit", *command, "60", "--json", "report.json"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, "")
    (fault,) = json.loads((folder / "report.json").read_text())["faults"]
    assert (fault["kind"], len(fault["steps"])) == ("leak", 2)
