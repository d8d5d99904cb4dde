"""The sampler of vLLM's Model Runner V2, whole: requests in slots, steps, drafts, log-probs.

Its kernels run under Triton's interpreter and nothing of vLLM is edited on disk. Runs in the
interpreter under audit: nothing of ours.
"""

from __future__ import annotations

import importlib
import itertools
import os
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ._vllm import choose_interpreter, import_as_on_cuda, labelled_cuda
from ._vllm_requests import Model, constrained, vllm_params

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from ._vllm_requests import Drafts

_GPU = "vllm.v1.worker.gpu"
_CPU = torch.device("cpu")


class V2Sampler:
    """Model Runner V2's Sampler and RejectionSampler over one RequestState.

    A step takes the logits of any of the requests that are present, in any order; a request with
    n drafts brings n + 1 consecutive rows.
    """

    def __init__(self, **facts: Any) -> None:
        model = Model(**facts)
        prepare()
        self._model = model
        self._states: Any = importlib.import_module(f"{_GPU}.states").RequestState(
            model.max_requests,
            model.max_model_len,
            model.max_model_len,
            model.max_drafts,
            model.vocab_size,
            _CPU,
        )
        self._sampler: Any = importlib.import_module(f"{_GPU}.sample.sampler").Sampler(
            SimpleNamespace(reasoning_config=model.reasoning),
            model.max_requests,
            model.vocab_size,
            _CPU,
            self._states,
            logprobs_mode=model.log_probs_mode,
            use_fp64_gumbel=model.fp64_noise,
        )
        speculation = SimpleNamespace(
            num_speculative_tokens=model.max_drafts,
            enable_adaptive_verification=False,
            rejection_sample_method=model.verification,
        )
        verifier = importlib.import_module(f"{_GPU}.spec_decode.rejection_sampler")
        self._verifier: Any = verifier.RejectionSampler(self._sampler, speculation, _CPU)

    def add(
        self, name: str, settings: Mapping[str, Any], prompt: Sequence[int], output: Sequence[int]
    ) -> None:
        """Let a request in; output that it comes with is as after a preemption."""
        self._states.add_request(name, len(prompt), [*prompt, *output], 0, 1)
        params = vllm_params(settings, self._model)
        self._sampler.add_request(self._states.req_id_to_index[name], params)

    def remove(self, name: str) -> None:
        """Free the request's slot, which the next one gets."""
        self._states.remove_request(name)

    def commit(self, names: Sequence[str], token_ids: Sequence[Sequence[int]]) -> None:
        """Append what the requests emitted, at least one token each, as the model runner does."""
        self._flush()
        input_batch = importlib.import_module(f"{_GPU}.input_batch")
        counts = torch.tensor([len(tokens) for tokens in token_ids], dtype=torch.int32)
        input_batch.post_update(
            torch.tensor(self._slots(names), dtype=torch.int32),
            self._states.num_computed_tokens.gpu,
            self._states.last_sampled_tokens,
            self._sampler.penalties_state.output_bin_counts,
            _padded(token_ids),
            counts,
            torch.zeros_like(counts),
            None,
            self._states.all_token_ids.gpu,
            self._states.total_len.gpu,
        )

    def process(
        self,
        logits: NDArray[np.float32],
        names: Sequence[str],
        drafts: Drafts = (),
        grammar: NDArray[np.bool_] | None = None,
        filters: bool = False,
    ) -> dict[str, NDArray[Any]]:
        """``processed``: the rows after every stage, with ``filters`` top_k and top_p too."""
        batch = self._batch(self._slots(names), drafts)
        rows = constrained(logits, grammar)
        processed: torch.Tensor = self._sampler.apply_sampling_params(
            rows,
            batch.expanded_idx_mapping,
            batch.idx_mapping,
            batch.idx_mapping_np,
            batch.positions,
            batch.input_ids,
            batch.expanded_local_pos,
            batch.seq_lens_cpu_upper_bound.numpy(),
            skip_top_k_top_p=not filters,
        )
        return {"processed": processed.numpy()}

    def schedule(self, names: Sequence[str]) -> None:
        """Take note of who is in a step; those that are not stay in their slots."""

    @staticmethod
    def draw(
        row: NDArray[np.float32],
        temperature: float,
        seeds: NDArray[np.int64],
        positions: NDArray[np.int64],
        kernel: bool,
    ) -> NDArray[np.int64]:
        """A token of ``row`` ``[vocab_size]``, which all stages are done with, for every seed.

        With ``kernel`` by the sampler's own kernel, a program for each row and 1024 tokens; else
        the function that the kernel calls runs once, on all draws and the tokens that are left.
        """
        at = torch.from_numpy(seeds), torch.from_numpy(positions)
        if not kernel:
            kept = np.flatnonzero(row > -np.inf)
            ids = torch.from_numpy(kept if kept.size else np.arange(row.size))
            many = importlib.import_module("._vllm_gumbel", __package__)
            drawn: torch.Tensor = many.draw(torch.from_numpy(row)[ids], ids, *at, temperature)
            return drawn.numpy()
        gumbel = importlib.import_module(f"{_GPU}.sample.gumbel")
        copies = torch.from_numpy(row).repeat(len(seeds), 1)
        slots = torch.arange(len(seeds), dtype=torch.int32)
        temperatures = torch.full((len(seeds),), temperature, dtype=torch.float32)
        tokens: torch.Tensor = gumbel.gumbel_sample(
            copies, slots, temperatures, *at, apply_temperature=False, is_drafting=False
        )
        return tokens.numpy()

    def step(
        self,
        logits: NDArray[np.float32],
        names: Sequence[str],
        drafts: Drafts = (),
        draft_logits: NDArray[np.float32] | None = None,
        grammar: NDArray[np.bool_] | None = None,
    ) -> dict[str, NDArray[Any]]:
        """What the requests emit, ``token_ids`` int64 ``[n, max_drafts + 1]``, -1 padded.

        Where a request lists log-probs also ``ids``, ``scores`` and ``ranks``, a row for each row
        of the logits. ``draft_logits`` (float32 ``[n, max_drafts, vocab_size]``) are what the
        drafts were drawn from, before temperature; None is no law, drafts as by look-up.

        Drafts of a request whose last token came with ``add`` are placeholders and never accepted.
        """
        batch = self._batch(self._slots(names), drafts)
        rows = constrained(logits, grammar)
        if any(drafts):
            output = self._verifier(rows, batch, self._by_slot(batch, draft_logits))
        else:
            output = self._sampler(rows, batch)
        return _answer(output)

    def _flush(self) -> None:
        self._states.apply_staged_writes()
        self._sampler.apply_staged_writes()

    def _slots(self, names: Sequence[str]) -> list[int]:
        return [self._states.req_id_to_index[name] for name in names]

    def _by_slot(
        self, batch: SimpleNamespace, draft_logits: NDArray[np.float32] | None
    ) -> torch.Tensor | None:
        if draft_logits is None:
            return None
        by_slot = torch.zeros(self._model.max_requests, *draft_logits.shape[1:])
        by_slot[batch.idx_mapping_np] = torch.from_numpy(draft_logits)
        return by_slot

    def _batch(self, slots: list[int], drafts: Drafts) -> SimpleNamespace:
        """What the samplers read of an InputBatch."""
        self._flush()
        total = self._states.total_len.gpu[slots].tolist()
        known = self._states.all_token_ids.gpu
        drafts = drafts or [()] * len(slots)
        widths = [1 + len(tokens) for tokens in drafts]
        starts = np.concatenate([[0], np.cumsum(widths)]).astype(np.int32)
        local = np.concatenate([np.arange(width) for width in widths])
        inputs = [[int(known[s, t - 1]), *d] for s, t, d in zip(slots, total, drafts, strict=True)]
        positions = np.repeat(np.array(total) - 1, widths) + local
        lengths = torch.tensor(total) + torch.tensor(widths) - 1
        return SimpleNamespace(
            num_reqs=len(slots),
            idx_mapping=torch.tensor(slots, dtype=torch.int32),
            idx_mapping_np=np.array(slots),
            expanded_idx_mapping=torch.tensor(np.repeat(slots, widths), dtype=torch.int32),
            expanded_local_pos=torch.tensor(local, dtype=torch.int32),
            input_ids=torch.tensor(list(itertools.chain(*inputs)), dtype=torch.int32),
            positions=torch.tensor(positions),
            logits_indices=torch.arange(len(local)),
            cu_num_logits=torch.from_numpy(starts),
            cu_num_logits_np=starts,
            seq_lens=lengths.to(torch.int32),
            seq_lens_cpu_upper_bound=lengths.to(torch.int32),
        )


def _answer(output: Any) -> dict[str, NDArray[Any]]:
    tokens = output.sampled_token_ids.clone()
    # Past the last emitted token vLLM leaves whatever the memory held.
    emitted = torch.arange(tokens.shape[1]) < output.num_sampled[:, None]
    answer = {"token_ids": torch.where(emitted, tokens, -1).numpy()}
    if output.logprobs_tensors is not None:
        lists = output.logprobs_tensors
        answer["ids"] = lists.logprob_token_ids.numpy()
        answer["scores"] = lists.logprobs.numpy()
        answer["ranks"] = lists.selected_token_ranks.numpy()
    return answer


def _padded(token_ids: Sequence[Sequence[int]]) -> torch.Tensor:
    width = max(map(len, token_ids))
    return torch.tensor([[*tokens, *[-1] * (width - len(tokens))] for tokens in token_ids])


@cache
def prepare() -> None:
    """Once for a process, before vLLM is imported."""
    # Asked first whether it can take over, it imports all that CUDA has.
    os.environ["VLLM_USE_FLASHINFER_SAMPLER"] = "0"
    choose_interpreter()
    _filter_as_on_cuda()
    _replace_pinned_memory()
    _mend_kernels()


def _filter_as_on_cuda() -> None:
    """Show top-k/top-p tensors labelled CUDA; the kernel has another pipeline for other devices."""
    filters = import_as_on_cuda("topk_topp_sampler")

    def apply(logits: torch.Tensor, k: torch.Tensor | None, p: torch.Tensor | None) -> torch.Tensor:
        filtered: torch.Tensor = filters.apply_top_k_top_p(labelled_cuda(logits), k, p)
        return filtered.as_subclass(torch.Tensor)

    for name in ("states", "sampler"):
        vars(importlib.import_module(f"{_GPU}.sample.{name}"))["apply_top_k_top_p"] = apply


def _replace_pinned_memory() -> None:
    """Take vLLM's own buffers for CPUs; it does so itself only in its CPU worker."""
    buffers = importlib.import_module(f"{_GPU}.buffer_utils")
    on_cpu = importlib.import_module("vllm.v1.worker.cpu.buffer_utils")
    vars(buffers)["UvaBuffer"] = on_cpu.UvaBuffer


def _mend_kernels() -> None:
    """Give the kernels what the interpreter lacks: libdevice, of which they use log1p alone."""
    language = importlib.import_module("triton.language")
    interpreter = importlib.import_module("triton.runtime.interpreter")
    kernels = importlib.import_module(f"{_GPU}.spec_decode.rejection_sampler_utils")

    def log1p(x: Any) -> Any:
        # NaN where the kernel takes another branch of tl.where.
        with np.errstate(invalid="ignore", divide="ignore"):
            values = np.log1p(x.handle.data)
        return language.tensor(interpreter.TensorHandle(values, x.handle.dtype), x.type)

    vars(kernels)["tldevice"] = SimpleNamespace(log1p=log1p)
