"""Classes written for vLLM 0.32.0's two interfaces, and vLLM's own, load and run in our sampler."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-vllm" / "bin" / "python"

pytestmark = pytest.mark.e2e

# As somebody would write it who has never heard of us.
WRITTEN_FOR_VLLM = '''
import torch
from vllm import SamplingParams
from vllm.config import VllmConfig
from vllm.v1.sample.logits_processor import (
    AdapterLogitsProcessor,
    BatchUpdate,
    LogitsProcessor as BatchLevel,
)
from vllm.v1.sample.logits_processor.builtin import process_dict_updates
from vllm.v1.worker.gpu.sample.logits_processor import (
    LogitsContext,
    LogitsProcessor as SlotLevel,
    LogitsProcRequestState,
)

A_NUMBER = 1


class Bias(BatchLevel):
    """Adds extra_args["bias"] = [token, value]."""

    def __init__(self, vllm_config: VllmConfig, device: torch.device, is_pin_memory: bool):
        self.biases: dict[int, tuple[int, float]] = {}
        assert vllm_config.scheduler_config.max_num_seqs == 8

    def is_argmax_invariant(self) -> bool:
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        process_dict_updates(
            self.biases,
            batch_update,
            lambda params, prompt, output: params.extra_args and params.extra_args.get("bias"),
        )

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        for row, (token, bias) in self.biases.items():
            logits[row, token] += bias
        return logits


class BanPrompt(AdapterLogitsProcessor):
    """With extra_args["ban_prompt"] no token of the prompt may be drawn."""

    def is_argmax_invariant(self) -> bool:
        return False

    def new_req_logits_processor(self, params: SamplingParams):
        if not (params.extra_args and params.extra_args.get("ban_prompt")):
            return None

        def ban(prompt_ids, output_ids, logits):
            return logits.index_fill(0, torch.tensor(prompt_ids), -torch.inf)

        return ban


class NoEcho(SlotLevel):
    """With extra_args["no_echo"] neither of the last two tokens may be drawn, drafts included."""

    def __init__(self, vllm_config: VllmConfig, req_states: LogitsProcRequestState):
        self.req_states = req_states
        self.staged = torch.zeros(req_states.max_num_reqs, dtype=torch.bool)
        self.on = self.staged.to(req_states.device, copy=True)

    def add_request(self, req_idx: int, sampling_params: SamplingParams) -> bool:
        self.staged[req_idx] = bool(sampling_params.extra_args)
        return bool(sampling_params.extra_args)

    def apply_staged_writes(self) -> None:
        self.on.copy_(self.staged)

    def apply(self, logits: torch.Tensor, ctx: LogitsContext) -> torch.Tensor:
        slots = ctx.expanded_idx_mapping.long()
        # The token before the input: committed, or the draft of the row above.
        committed = self.req_states.all_token_ids.gpu[slots, ctx.pos - 1]
        second = torch.where(ctx.expanded_local_pos > 1, ctx.input_ids.roll(1), committed)
        last_committed = self.req_states.all_token_ids.gpu[
            slots, self.req_states.total_len.gpu[slots].long() - 1
        ]
        second = torch.where(ctx.expanded_local_pos == 1, last_committed, second)
        rows = self.on[slots].nonzero().flatten()
        for tokens in (ctx.input_ids, second):
            logits[rows, tokens[rows].long()] = -torch.inf
        return logits
'''


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What tests/e2e/vllm_processors.py says, with the package installed for it."""
    path = tmp_path_factory.mktemp("installed")
    (path / "written_for_vllm.py").write_text(WRITTEN_FOR_VLLM)
    info = path / "written_for_vllm-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: written-for-vllm\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[vllm.logits_processors]\n"
        "no_echo = written_for_vllm:NoEcho\n"
        "bias = written_for_vllm:Bias\n"
    )
    sources = [path, ROOT, *(ROOT / folder for folder in ("reference", "kernels", "scenarios"))]
    done = subprocess.run(
        [str(PYTHON), str(ROOT / "tests" / "e2e" / "vllm_processors.py")],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, sources))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    loaded: dict[str, Any] = json.loads(done.stdout)
    return loaded


def test_plug_ins_of_vllm_are_found(report: dict[str, Any]) -> None:
    """Of both interfaces, in the order in which the package offers them."""
    assert report["plug_ins"] == ["NoEcho", "Bias"]


def test_batch_level_classes_run(report: dict[str, Any]) -> None:
    """Two of the package and vLLM's own three, one of which leaves the argmax alone."""
    churn = report["batch_level"]
    assert (churn["classes"], churn["unless_greedy"]) == (5, 1)
    assert churn["rows"] > 1000
    assert churn["wrong"] == 0


def test_slot_level_classes_run(report: dict[str, Any]) -> None:
    """With recycled slots, drafts, and mates that declined."""
    assert report["slot_level"]["rows"] > 500
    assert report["slot_level"]["wrong"] == 0


@pytest.mark.parametrize("engine", ["vllm-v1", "vllm-v2"])
def test_what_vllm_refuses_we_refuse_alike(report: dict[str, Any], engine: str) -> None:
    """The same built-in kind of error for every wrong name, and for the other interface."""
    kinds = report["refusals"][engine]
    assert {theirs == ours for theirs, ours in kinds.values()} == {True}
    assert sorted({theirs for theirs, _ in kinds.values()}) == [
        "AttributeError",
        "RuntimeError",
        "ValueError",
    ]
