"""The sampler of vLLM's V1 model runner, natively on a CPU: its batch, stages, draw and drafts.

Nothing of vLLM is edited on disk. Runs in the interpreter under audit: nothing of ours.
"""

from __future__ import annotations

import importlib
import itertools
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ._vllm_requests import Model, constrained, vllm_params

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from ._vllm_requests import Drafts

_V1 = "vllm.v1"
_CPU = torch.device("cpu")
_BLOCK_SIZE = 16


class V1Sampler:
    """The V1 Sampler and RejectionSampler over one InputBatch, which a step's requests are in.

    A step takes the logits of any of the requests that were added, in any order; a request with
    n drafts brings n + 1 consecutive rows.
    """

    def __init__(self, **facts: Any) -> None:
        model = Model(**facts)
        _prepare()
        self._model = model
        self._batch = _input_batch(model)
        sampler = importlib.import_module(f"{_V1}.sample.sampler")
        self._sampler: Any = sampler.Sampler(model.log_probs_mode, model.fp64_noise)
        verifier = importlib.import_module(f"{_V1}.sample.rejection_sampler")
        self._verifier: Any = verifier.RejectionSampler(self._sampler)
        self._requests: dict[str, Any] = {}

    def add(
        self, name: str, settings: Mapping[str, Any], prompt: Sequence[int], output: Sequence[int]
    ) -> None:
        """Let a request in; it joins the batch at its first step."""
        params = vllm_params(settings, self._model)
        states = importlib.import_module(f"{_V1}.worker.gpu_input_batch")
        self._requests[name] = states.CachedRequestState(
            req_id=name,
            prompt_token_ids=list(prompt),
            mm_features=[],
            sampling_params=params,
            generator=None if params.seed is None else torch.Generator().manual_seed(params.seed),
            block_ids=([],),
            num_computed_tokens=0,
            output_token_ids=list(output),
        )

    def remove(self, name: str) -> None:
        """Forget the request; the next step frees its row."""
        del self._requests[name]

    def commit(self, names: Sequence[str], token_ids: Sequence[Sequence[int]]) -> None:
        """Append what the requests emitted."""
        for name, tokens in zip(names, token_ids, strict=True):
            # In place: processors of the batch hold a reference to the list.
            self._requests[name].output_token_ids.extend(tokens)

    def process(
        self,
        logits: NDArray[np.float32],
        names: Sequence[str],
        drafts: Drafts = (),
        grammar: NDArray[np.bool_] | None = None,
        filters: bool = False,
    ) -> dict[str, NDArray[Any]]:
        """``processed``: the rows after every stage, with ``filters`` top_k and top_p too.

        Where all requests are greedy the sampler stops before temperature. In a step with drafts
        min_p and logit_bias do nothing, by vLLM's own rule.
        """
        layout = self._schedule(names, drafts)
        metadata = self._batch.sampling_metadata
        rows = constrained(logits, grammar)[layout.rows]
        bonus, target = layout.bonus, layout.target
        rows[bonus] = self._sampler.apply_logits_processors(rows[bonus], metadata, any(drafts))
        if any(drafts):
            rows[target] = self._verifier.apply_logits_processors(
                rows[target], metadata, layout.speculation
            )
        if metadata.temperature is not None:
            temperature = metadata.temperature[layout.requests]
            rows = self._sampler.apply_temperature(rows, temperature, metadata.all_random)
            for processor in metadata.logitsprocs.argmax_invariant:
                rows = processor.apply(rows)
        if filters:
            k, p = (
                None if values is None else values[layout.requests]
                for values in (metadata.top_k, metadata.top_p)
            )
            rows = importlib.import_module(f"{_V1}.sample.ops.topk_topp_sampler").apply_top_k_top_p(
                rows, k, p
            )
        return {"processed": rows[layout.back].numpy()}

    def schedule(self, names: Sequence[str]) -> None:
        """Have these requests in the batch, and no others."""
        self._schedule(names, ())

    @staticmethod
    def draw(
        row: NDArray[np.float32],
        temperature: float,  # noqa: ARG004 - the row is divided by it
        seeds: NDArray[np.int64],
        positions: NDArray[np.int64],
        kernel: bool,  # noqa: ARG004 - one way
    ) -> NDArray[np.int64]:
        """A token of ``row`` ``[vocab_size]``, which all stages are done with, for every seed."""
        copies = torch.from_numpy(row).repeat(len(seeds), 1)
        # A request's generator moves on from token to token, and no position enters it.
        of_token = (seeds ^ (positions << 32)).tolist()
        generators = {i: torch.Generator().manual_seed(seed) for i, seed in enumerate(of_token)}
        tokens, _ = _drawing_module()(copies, generators, None, None)
        drawn: NDArray[np.int64] = tokens.long().numpy()
        return drawn

    def step(
        self,
        logits: NDArray[np.float32],
        names: Sequence[str],
        drafts: Drafts = (),
        draft_logits: NDArray[np.float32] | None = None,
        grammar: NDArray[np.bool_] | None = None,
    ) -> dict[str, NDArray[Any]]:
        """What the requests emit, ``token_ids`` int64 ``[n, width]``, -1 padded.

        In a step without drafts whose requests list log-probs also ``ids``, ``scores`` and
        ``ranks``. ``draft_logits`` as in V2; V1 takes them as probabilities at the temperature.
        """
        layout = self._schedule(names, drafts)
        metadata = self._batch.sampling_metadata
        rows = constrained(logits, grammar)[layout.rows]
        if any(drafts):
            probs = self._draft_probs(layout, draft_logits)
            output = self._verifier(layout.speculation, probs, rows, metadata)
        else:
            output = self._sampler(rows, metadata)
        answer = {"token_ids": output.sampled_token_ids.long()}
        if output.logprobs_tensors is not None and not any(drafts):
            lists = output.logprobs_tensors
            answer["ids"] = lists.logprob_token_ids
            answer["scores"] = lists.logprobs
            answer["ranks"] = lists.selected_token_ranks
        return {name: values[layout.places].numpy() for name, values in answer.items()}

    def _schedule(self, names: Sequence[str], drafts: Drafts) -> _Layout:
        """Have exactly these requests in the batch, as the model runner does at every step."""
        batch, wanted = self._batch, set(names)
        for name in [name for name in batch.req_ids if name not in wanted]:
            batch.remove_request(name)
        for name in names:
            if name not in batch.req_id_to_index:
                batch.add_request(self._requests[name])
        batch.condense()
        drafts = drafts or [()] * len(names)
        for name, tokens in zip(names, drafts, strict=True):
            batch.update_req_spec_token_ids(self._requests[name], {name: list(tokens)})
        batch.refresh_metadata()
        return _Layout([batch.req_id_to_index[name] for name in names], drafts)

    def _draft_probs(
        self, layout: _Layout, draft_logits: NDArray[np.float32] | None
    ) -> torch.Tensor | None:
        if draft_logits is None:
            return None
        temperature = self._batch.sampling_metadata.temperature
        scale = torch.where(temperature == 0, 1, temperature)
        by_request = torch.from_numpy(draft_logits)[layout.order] / scale[:, None, None]
        taken = [by_request[i, :n] for i, n in enumerate(layout.speculation.num_draft_tokens)]
        return torch.cat(taken).softmax(dim=-1).contiguous()


class _Layout:
    """Where the rows of a step are in the batch, whose order is its own.

    ``places[i]`` is the place of the caller's i-th request and ``order`` the inverse; ``rows``
    brings the caller's rows into the batch's order and ``back`` undoes it; ``bonus`` and
    ``target`` are the last rows of the requests and the others, ``requests`` the place of each
    row's request.
    """

    def __init__(self, places: Sequence[int], drafts: Drafts) -> None:
        widths = np.array([1 + len(tokens) for tokens in drafts])
        starts = np.cumsum(widths) - widths
        self.places = list(places)
        self.order = np.argsort(places).tolist()
        self.rows = _joined(range(starts[i], starts[i] + widths[i]) for i in self.order)
        self.back = torch.argsort(self.rows)
        widths = widths[self.order]
        self.requests = torch.from_numpy(np.repeat(np.arange(len(widths)), widths))
        ends = np.cumsum(widths)
        self.bonus = torch.from_numpy(ends - 1)
        self.target = _joined(
            range(end - width, end - 1) for end, width in zip(ends, widths, strict=True)
        )
        self.speculation = _speculation([drafts[i] for i in self.order], self)


def _speculation(drafts: Drafts, layout: _Layout) -> Any:
    """A SpecDecodeMetadata, vLLM's own factory for which leaves the indices at zero."""
    n_drafts = np.array([len(tokens) for tokens in drafts], dtype=np.int32)
    metadata = importlib.import_module(f"{_V1}.spec_decode.metadata")
    return metadata.SpecDecodeMetadata(
        draft_token_ids=torch.tensor(list(itertools.chain(*drafts)), dtype=torch.int32),
        num_draft_tokens=n_drafts.tolist(),
        cu_num_draft_tokens=torch.from_numpy(np.cumsum(n_drafts, dtype=np.int32)),
        cu_num_sampled_tokens=torch.from_numpy(np.cumsum(n_drafts + 1, dtype=np.int32)),
        target_logits_indices=layout.target,
        bonus_logits_indices=layout.bonus,
        logits_indices=torch.arange(len(layout.rows)),
    )


@cache
def _drawing_module() -> Any:
    """What the sampler draws with."""
    return importlib.import_module(f"{_V1}.sample.sampler").Sampler().topk_topp_sampler


def _joined(ranges: Iterable[range]) -> torch.Tensor:
    return torch.tensor(list(itertools.chain(*ranges)), dtype=torch.int64)


def _input_batch(model: Model) -> Any:
    processors = importlib.import_module(f"{_V1}.sample.logits_processor")
    config = SimpleNamespace(
        scheduler_config=SimpleNamespace(max_num_seqs=model.max_requests),
        speculative_config=SimpleNamespace() if model.max_drafts else None,
    )
    return importlib.import_module(f"{_V1}.worker.gpu_input_batch").InputBatch(
        max_num_reqs=model.max_requests,
        max_model_len=model.max_model_len,
        max_num_batched_tokens=model.max_model_len,
        device=_CPU,
        vocab_size=model.vocab_size,
        block_sizes=[_BLOCK_SIZE],
        max_num_blocks_per_req=[-(-model.max_model_len // _BLOCK_SIZE)],
        logitsprocs=processors.build_logitsprocs(config, _CPU, False, False),
        num_spec_tokens=model.max_drafts,
        reasoning_config=model.reasoning,
    )


@cache
def _prepare() -> None:
    """Once for a process, as a worker of vLLM does when it starts."""
    platform = importlib.import_module("vllm.platforms").current_platform
    platform.import_kernels()
    platform.register_triton_kernel_overrides()
    _mend_expansion()
    # Compiling the one comparison that counts ranks takes 11 s and a C++ compiler.
    torch._dynamo.config.disable = True


def _mend_expansion() -> None:
    """Replace one function that is broken on CPUs, in memory (vLLM issue 55005).

    For float32 and int32 it returns uninitialised memory: its C++ kernel writes into an int64
    copy. Drafts of random requests were then verified at any temperature, top_k and top_p.
    """
    module = importlib.import_module(f"{_V1}.sample.rejection_sampler")

    def expand(
        x: torch.Tensor, ends: torch.Tensor, n_rows: int, replace_from: int = 0, replace_to: int = 0
    ) -> torch.Tensor:
        counts = torch.diff(ends, prepend=ends.new_zeros(1))
        values = torch.where(x == replace_from, replace_to, x).to(x.dtype)
        return values.repeat_interleave(counts, output_size=n_rows)

    vars(module)["expand_batch_to_tokens"] = expand
