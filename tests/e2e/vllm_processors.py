"""Runs classes written for vLLM in our sampler, inside of vLLM's environment, and prints JSON.

    PYTHONPATH=CHECKOUT:... python vllm_processors.py

Expects the package `written_for_vllm` of test_vllm_processors.py, which offers plug-ins. What each
row should be is computed here, request by request and by formula.
"""

import importlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch

from sampler_audit.sampler.batched import BatchedSampler
from sampler_audit.sampler.processors import (
    PLUGIN_GROUPS,
    RULES,
    BatchLogitsProcessor,
    BatchTracker,
    EngineConfig,
    LiveRequest,
    group_by_argmax,
    load_processors,
)
from sampler_scenarios.params import SamplingParams
from sampler_scenarios.requests import ModelConfig, Request

V = 16
MODEL = ModelConfig(vocab_size=V, max_model_len=256, eos_token_ids=(3, 4))
CPU = torch.device("cpu")
CONFIG = EngineConfig(model=MODEL, max_requests=8, max_drafts=0, device=CPU)
BUILT_IN = [
    f"vllm.v1.sample.logits_processor:{name}LogitsProcessor"
    for name in ("MinTokens", "LogitBias", "MinP")
]
PACKAGE = "written_for_vllm"
Load = Callable[[Sequence[str]], object]
WRONG = (
    "no_colon",
    "two:colons:here",
    "no_such_module_anywhere:Class",
    f"{PACKAGE}:NoSuchClass",
    f"{PACKAGE}:A_NUMBER",
    "builtins:dict",
)


def expected_batch_level(row: torch.Tensor, request: LiveRequest) -> torch.Tensor:
    """By formula: bias of extra_args, prompt banned, min_tokens, logit_bias, min_p."""
    params, row = request.params, row.clone()
    if bias := params.extra_args.get("bias"):
        assert isinstance(bias, list)
        row[bias[0]] += bias[1]
    if params.extra_args.get("ban_prompt"):
        row[request.prompt_token_ids] = -torch.inf
    if len(request.output_token_ids) < params.min_tokens:
        row[list({*params.stop_token_ids, *MODEL.eos_token_ids})] = -torch.inf
    for token, bias in params.logit_bias.items():
        row[token] += bias
    probs = torch.softmax(row, 0)
    return row.masked_fill(probs < probs.max() * params.min_p, -torch.inf)


def new_request(rng: np.random.Generator) -> LiveRequest:
    """Each feature on or off by chance."""
    on = rng.random(6) < 0.5
    bias: dict[str, object] = {"bias": [int(rng.integers(V)), 2.5]} if on[0] else {}
    ban: dict[str, object] = {"ban_prompt": True} if on[1] else {}
    params = SamplingParams(
        extra_args=bias | ban,
        min_tokens=3 if on[2] else 0,
        stop_token_ids=(5,) if on[3] else (),
        logit_bias={int(rng.integers(V)): -1.5} if on[4] else {},
        min_p=0.125 if on[5] else 0.0,
    )
    return LiveRequest(params, rng.integers(V, size=3).tolist(), [])


def batch_level_churn(n_steps: int) -> Mapping[str, int]:
    """Requests come, go and change rows; every row against its formula."""
    rng = np.random.default_rng(1)
    classes = load_processors([f"{PACKAGE}:Bias", f"{PACKAGE}:BanPrompt", *BUILT_IN])
    processors = [
        cls(CONFIG, CPU, False) for cls in classes if issubclass(cls, BatchLogitsProcessor)
    ]
    always, unless_greedy = group_by_argmax(processors)
    tracker, batch, n_rows, n_wrong = BatchTracker(), list[LiveRequest](), 0, 0
    for _ in range(n_steps):
        batch = [request for request in batch if rng.random() < 0.8]
        batch += [new_request(rng) for _ in range(rng.integers(9 - len(batch)))]
        batch = [batch[i] for i in rng.permutation(len(batch))] if rng.random() < 0.5 else batch
        update = tracker.update(batch)
        for processor in processors:
            processor.update_state(update)
        logits = torch.from_numpy(rng.normal(size=(len(batch), V)).astype(np.float32))
        processed = logits.clone()
        for processor in [*always, *unless_greedy]:
            processed = processor.apply(processed)
        for request, before, after in zip(batch, logits, processed, strict=True):
            n_rows += 1
            n_wrong += not torch.equal(expected_batch_level(before, request), after)
            request.output_token_ids.append(int(rng.integers(V)))
    return {
        "classes": len(processors),
        "unless_greedy": len(unless_greedy),
        "rows": n_rows,
        "wrong": n_wrong,
    }


def slot_level_churn(n_steps: int) -> Mapping[str, int]:
    """A class of Model Runner V2 in our sampler: slots recycled, drafts, declined mates."""
    rng = np.random.default_rng(2)
    sampler = BatchedSampler(
        MODEL, path="twin", processors=[f"{PACKAGE}:NoEcho"], rng=rng, max_requests=4, max_drafts=2
    )
    present, n_rows, n_wrong = dict[int, Request](), 0, 0
    for _ in range(n_steps):
        for slot in [slot for slot in present if rng.random() < 0.3]:
            sampler.remove(slot)
            del present[slot]
        while len(present) < 4 and rng.random() < 0.7:
            extra_args = {"no_echo": True} if rng.random() < 0.6 else {}
            request = Request(SamplingParams(extra_args=extra_args), (1, int(rng.integers(V))))
            present[sampler.add(request)] = request
        slots = [int(slot) for slot in rng.permutation(list(present))]
        if not slots:
            continue
        drafts = [rng.integers(V, size=rng.integers(3)).tolist() for _ in slots]
        rows = [
            present[slot].extended(ids[:j])
            for slot, ids in zip(slots, drafts, strict=True)
            for j in range(len(ids) + 1)
        ]
        logits = torch.from_numpy(rng.normal(size=(len(rows), V)).astype(np.float32))
        processed = sampler.process(logits, slots, drafts)
        for request, before, after in zip(rows, logits, processed, strict=True):
            n_rows += 1
            n_wrong += not torch.equal(expected_no_echo(before, request), after)
        for slot in slots:
            emitted = rng.integers(V, size=rng.integers(3)).tolist()
            sampler.commit(slot, emitted)
            present[slot] = present[slot].extended(emitted)
    return {"rows": n_rows, "wrong": n_wrong}


def expected_no_echo(row: torch.Tensor, request: Request) -> torch.Tensor:
    """The last two tokens are banned."""
    row = row.clone()
    if request.params.extra_args:
        row[list(request.token_ids[-2:])] = -torch.inf
    return row


def kind_of_refusal(load: Load, name: str) -> str:
    """The built-in exception that a loader's refusal is one of, or what it let through."""
    try:
        load([name])
    # Whatever it is, it is reported.
    except Exception as error:
        kinds = (ValueError, RuntimeError, AttributeError)
        return next((kind.__name__ for kind in kinds if isinstance(error, kind)), repr(error))
    return "loaded"


def refusals() -> Mapping[str, Mapping[str, list[str]]]:
    """For both interfaces and every wrong name: the kind of error, vLLM's and ours."""
    v1 = importlib.import_module("vllm.v1.sample.logits_processor")
    v2 = importlib.import_module("vllm.v1.worker.gpu.sample.logits_processor.loader")
    theirs = {"vllm-v1": v1._load_logitsprocs_by_fqcns, "vllm-v2": v2._load_v2_logitsprocs_by_fqcns}
    other_level = {"vllm-v1": f"{PACKAGE}:NoEcho", "vllm-v2": f"{PACKAGE}:Bias"}
    return {
        engine: {
            name: [kind_of_refusal(load, name) for load in (theirs[engine], ours(engine))]
            for name in (*WRONG, other_level[engine])
        }
        for engine in theirs
    }


def ours(engine: str) -> Load:
    """Our loader, with the rules of an engine."""
    return lambda names: load_processors(names, rules=RULES[engine])


def plug_ins() -> list[str]:
    """What the package offers under vLLM's group, as we load it."""
    return [cls.__name__ for cls in load_processors(groups=PLUGIN_GROUPS)]


if __name__ == "__main__":
    report = {
        "plug_ins": plug_ins(),
        "batch_level": batch_level_churn(400),
        "slot_level": slot_level_churn(200),
        "refusals": refusals(),
    }
    sys.stdout.write(json.dumps(report))
