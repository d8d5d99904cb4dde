"""transformers: Hugging Face's logits processors as ``generate`` chains them, and its draw.

The chain is what the installed ``GenerationMixin._get_logits_processor`` returns for a
``GenerationConfig``: classes and order are the release's own. What follows the chain is that of
``_sample`` in generation/utils.py of 5.20.0. ``generate`` takes one set of parameters a call, so
a batch goes through row by row.
"""

from __future__ import annotations

import importlib
from copy import copy
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from ._engine import Engine, as_tensor, choose_device, device_name, with_torch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import torch
    from numpy.typing import NDArray

    from ._engine import Params

DESCRIPTION = "the logits processors and multinomial draw of Hugging Face transformers' generate"
INSTALL = "pip install transformers torch, or name the interpreter that has it with --python PATH"
ANY_PYTHON = True

MASS_ERROR = 2.0**-12
"""Bound on the error of a cumulative probability. TopPLogitsWarper sorts upwards, takes softmax
and a running sum in float32, and drops a token while that sum is at most 1 - p. The sum that
softmax divides by is V / 8 additions of relative error 2^-24 each in the 8 lanes of a CPU, which is
2^-12 of the running sum at V = 2^15; at the cut that sum is 1 - p, so beyond that the bound holds
for p >= 1 - 2^15 / V. exp (1 ulp), the quotient and 1 - p (half an ulp each) and the running sum
(float64 on a CPU, in blocks on a GPU) are less."""

MIN_P_ERROR = 2.0**-19
"""Bound on the error of the min_p threshold, in nats. MinPLogitsWarper compares float32
probabilities, p_i < min_p * p_max, whose common divisor cancels but for its rounding. In units of
2^-24: x - max in float32 adds ln(1 / min_p), at most 16 for min_p >= 2^-23; exp (1 ulp) adds 2;
both quotients, min_p as a float32 and the product add 1 each. That is 22 of the 32 allowed."""

STAGES = (
    *("grammar", "allowed_token_ids", "logit_bias", "min_tokens"),
    *("repetition_penalty", "bad_words"),
)
"""A bias is a sequence_bias of one token. Grammar and allowed tokens are both a
prefix_allowed_tokens_fn, of which a call has one: it gives the tokens that both allow. min_tokens
is min_new_tokens with every stop token among the end-of-sequence tokens."""

_FULL_WIDTH = 2**20
"""Random numbers that one request may cost before tokens of probability 0 are left out of the
draw: a vocabulary of 131072 would take seconds."""


def load(options: dict[str, str]) -> TransformersEngine:
    """The processors of the installed release."""
    return TransformersEngine(choose_device(options["device"]))


class TransformersEngine(Engine):
    """Runs the chain of ``do_sample=True``, or at temperature 0 that of greedy search and argmax.

    A row whose softmax is NaN (it held a NaN, +inf or no finite logit, or overflows when divided)
    makes ``torch.multinomial`` raise: nothing is kept of it, and its draws are -1.
    """

    def __init__(self, device: str) -> None:
        transformers = importlib.import_module("transformers")
        self._device = device
        self._version = transformers.__version__
        self._config = transformers.GenerationConfig
        self._generate = transformers.GenerationMixin()
        # All that the method asks of the model that it belongs to.
        self._generate.config = SimpleNamespace(is_encoder_decoder=False)
        self._scene: tuple[Mapping[str, Any], Params] | None = None

    def info(self) -> dict[str, Any]:
        """See ``_engine.Engine``."""
        return {
            "engine": with_torch(f"transformers {self._version}"),
            "device": device_name(self._device),
            "path": "the chain of GenerationMixin._get_logits_processor, softmax and one-sample"
            " torch.multinomial, which generate takes with do_sample=True",
            "convention": "huggingface",
            "draws": True,
            "mass_error": MASS_ERROR,
            "min_p_error": MIN_P_ERROR,
            "stages": STAGES,
            "logits_error": 0.0,
        }

    def within(self, scene: Mapping[str, Any], arrays: Params) -> Engine:
        """See ``_engine.Engine``."""
        engine = copy(self)
        engine._scene = scene, arrays
        return engine

    def kept(self, logits: NDArray[np.float32], params: Params) -> NDArray[np.bool_]:
        """See ``_engine.Engine``."""
        return self.filtered(logits, params) > -np.inf

    def filtered(self, logits: NDArray[np.float32], params: Params) -> NDArray[np.float32]:
        """See ``_engine.Engine``."""
        import torch

        rows = as_tensor(logits, self._device)
        scores = [self._scores(rows[i : i + 1], params, i) for i in range(len(rows))]
        filtered: NDArray[np.float32] = torch.cat(scores).cpu().numpy()
        return filtered

    def draw(
        self,
        logits: NDArray[np.float32],
        params: Params,
        index: int,
        seeds: NDArray[np.int64],
        positions: NDArray[np.int64],
        _kernel: bool,
    ) -> NDArray[np.int64]:
        """See ``_engine.Engine``; one generator, seeded by all seeds and positions, draws all."""
        import torch

        rows = as_tensor(logits, self._device)
        scores = self._scores(rows[index : index + 1], params, index)
        probs = torch.softmax(scores, dim=-1)[0]
        if torch.isnan(probs).any():
            return np.full(len(seeds), -1, dtype=np.int64)
        n_draws = len(seeds)
        ids = torch.arange(len(probs), device=self._device)
        if n_draws * len(probs) > _FULL_WIDTH:
            ids = probs.nonzero()[:, 0]
        generator = torch.Generator(self._device)
        generator.manual_seed(_one_seed(np.concatenate([seeds, positions])))
        # One sample a row, as generate asks: more from one row is another algorithm in torch.
        copies = probs[ids].expand(n_draws, -1)
        drawn = torch.multinomial(copies, num_samples=1, generator=generator)[:, 0]
        tokens: NDArray[np.int64] = ids[drawn].cpu().numpy()
        return tokens

    def _scores(self, row: torch.Tensor, params: Params, index: int) -> torch.Tensor:
        """What softmax gets: the processed row ``[1, vocab_size]``; all -inf where it is NaN."""
        import torch

        temperature = float(params["temperature"][index])
        if temperature == 0:
            row = self._processed(row, index, {"do_sample": False})
            best = torch.argmax(row, dim=-1, keepdim=True)
            masked = torch.full_like(row, float("-inf"))
            # Finite, so that what is left has a softmax even where the maximum is infinite.
            value = row.gather(-1, best).clamp(max=torch.finfo(row.dtype).max)
            return masked.scatter(-1, best, value)
        filters = {
            "do_sample": True,
            "temperature": temperature,
            "top_k": max(int(params["top_k"][index]), 0),
            "top_p": float(params["top_p"][index]),
            "min_p": float(params["min_p"][index]),
        }
        scores = self._processed(row, index, filters)
        if torch.isnan(torch.softmax(scores, dim=-1)).any():
            return torch.full_like(scores, float("-inf"))
        return scores

    def _processed(self, row: torch.Tensor, index: int, filters: Mapping[str, Any]) -> torch.Tensor:
        """The row ``[1, vocab_size]`` after the chain of the request, in its prompt and output."""
        import torch

        if self._scene is None:
            request: Mapping[str, Any] = {"params": {}, "prompt": [], "output": [], "grammar": None}
            eos: list[int] = []
        else:
            request = self._scene[0]["requests"][index]
            eos = list(self._scene[0]["model"]["eos_token_ids"])
        asked = request["params"]
        config = self._config(num_beams=1, **filters, **_stages(asked))
        stops = [*eos, *asked.get("stop_token_ids", ())]
        # As generate does before it makes the chain.
        config._eos_token_tensor = torch.tensor(stops, device=self._device) if stops else None
        chain = self._generate._get_logits_processor(
            config,
            input_ids_seq_length=len(request["prompt"]),
            prefix_allowed_tokens_fn=self._allowed(request, row.shape[1]),
            device=self._device,
        )
        history = torch.tensor([[*request["prompt"], *request["output"]]], dtype=torch.long)
        scores: torch.Tensor = chain(history.to(self._device), row)
        return scores

    def _allowed(
        self, request: Mapping[str, Any], vocab_size: int
    ) -> Callable[..., list[int]] | None:
        listed = request["params"].get("allowed_token_ids")
        if listed is None and request["grammar"] is None:
            return None
        allowed = np.ones(vocab_size, np.bool_)
        if request["grammar"] is not None:
            assert self._scene is not None
            allowed &= self._scene[1]["grammars"][request["grammar"]]
        if listed is not None:
            allowed &= np.isin(np.arange(vocab_size), listed)
        tokens: list[int] = np.flatnonzero(allowed).tolist()
        return lambda *_: tokens


def _stages(asked: Mapping[str, Any]) -> dict[str, Any]:
    """What the request asks beside the filters, as a GenerationConfig names it."""
    bias = [[[token], float(by)] for token, by in asked.get("logit_bias", ())]
    return {
        "sequence_bias": bias or None,
        "repetition_penalty": asked.get("repetition_penalty"),
        "bad_words_ids": asked.get("bad_words") or None,
        "min_new_tokens": asked.get("min_tokens"),
    }


def _one_seed(words: NDArray[np.int64]) -> int:
    return int(np.random.SeedSequence(words.view(np.uint32).tolist()).generate_state(1)[0])
