"""llama_cpp: the llama_sampler chain of any libllama, with no model."""

from __future__ import annotations

from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ._engine import Engine, Unavailable
from ._libllama import Asked, LibLlama, Row, find_library

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from ._engine import Params

DESCRIPTION = "llama.cpp's sampler chain, of the libllama in llama-cpp-python or of --lib PATH"
INSTALL = "pip install llama-cpp-python, name the interpreter that has it, or give --lib PATH"
ANY_PYTHON = True

MASS_ERROR = 2.0**-8
"""Bound on the error of a cumulative probability. Softmax adds V float32 weights one after the
other, and top_p adds the quotients again: relative error V * 2^-24 each, at worst, which is 2^-9 at
V = 2^15, twice; expf (1 ulp) and the quotient are less. Beyond that most of it cancels: the largest
error measured is 2^-9.4, on a row of two values at V = 2^17."""

MIN_P_ERROR = 2.0**-17
"""Bound on the error of max + ln(min_p) in float32, in nats, for logits up to 128: half an ulp of
the sum (2^-18), and one of logf."""


STAGES = ("logit_bias", "repetition_penalty", "frequency_penalty", "presence_penalty")

LOGITS_ERROR = 2.0**-22
"""Bound on the relative error of a logit: the penalties for frequency and presence are added before
they are subtracted, one rounding each, and so is the quotient by the temperature rounded."""


def load(options: dict[str, str]) -> LlamaCppEngine:
    """The library of ``options["lib"]``, or of the llama-cpp-python that is installed."""
    if options["device"] == "cuda":
        raise Unavailable("the sampler chain of libllama runs on the CPU; use --device cpu")
    return LlamaCppEngine(LibLlama(Path(options["lib"]) if "lib" in options else find_library()))


class LlamaCppEngine(Engine):
    """The samplers logit_bias, penalties, top_k, top_p, min_p, temp and dist, in the order that
    llama-server and llama-cpp-python give them by default: temperature comes last, so filters judge
    the odds at 1.

    top_k <= 0, top_p >= 1 and min_p <= 0 are off; temperature <= 0 keeps the logit of the first
    maximum and sets the others to -inf (llama.cpp 0.5.0-dev: src/llama-sampler.cpp).

    A row with a NaN is not shown to the library, whose std::sort compares logits with >, which NaN
    makes undefined behaviour: nothing is kept or drawn of it.
    """  # noqa: D205 - one sentence

    def __init__(self, lib: LibLlama) -> None:
        self._lib = lib
        self._scene: Mapping[str, Any] | None = None

    def info(self) -> dict[str, Any]:
        """See ``_engine.Engine``."""
        return {
            "engine": self._lib.version(),
            "device": "cpu",
            "path": "llama_sampler chain logit_bias, penalties, top_k, top_p, min_p, temp, dist of"
            f" {self._lib.path.name}; the default chain of llama-server, whose other samplers are"
            " off by default",
            "convention": "llama.cpp",
            "draws": True,
            "mass_error": MASS_ERROR,
            "min_p_error": MIN_P_ERROR,
            "stages": STAGES,
            "logits_error": LOGITS_ERROR,
        }

    def within(
        self,
        scene: Mapping[str, Any],
        arrays: Params,  # noqa: ARG002 - no stage here has one
    ) -> Engine:
        """See ``_engine.Engine``."""
        engine = copy(self)
        engine._scene = scene
        return engine

    def kept(self, logits: NDArray[np.float32], params: Params) -> NDArray[np.bool_]:
        """See ``_engine.Engine``."""
        return self.filtered(logits, params) > -np.inf

    def filtered(self, logits: NDArray[np.float32], params: Params) -> NDArray[np.float32]:
        """See ``_engine.Engine``."""
        filtered = np.full(logits.shape, -np.inf, np.float32)
        for i in np.flatnonzero(~np.isnan(logits).any(axis=1)).tolist():
            left = self._filtered(logits[i], params, i).candidates()
            filtered[i, left["id"]] = left["logit"]
        return filtered

    def draw(
        self,
        logits: NDArray[np.float32],
        params: Params,
        index: int,
        seeds: NDArray[np.int64],
        positions: NDArray[np.int64],  # noqa: ARG002 - the draws are one stream
        kernel: bool,
    ) -> NDArray[np.int64]:
        """See ``_engine.Engine``; all draws come from one dist sampler, seeded from all the seeds.

        In bulk the filters, which have no state, run once and dist on what they leave; ``kernel``
        runs the whole chain on the whole row for every token, as an engine does.
        """
        tokens = np.full(len(seeds), -1, np.int64)
        if np.isnan(logits[index]).any():
            return tokens
        if kernel:
            row = Row(logits[index])
            sampler = self._lib.full(self._asked(params, index), logits.shape[1], _seed(seeds))
        else:
            row = self._filtered(logits[index], params, index)
            sampler = self._lib.dist(_seed(seeds))
        row.save()
        with sampler as chain:
            for j in range(len(tokens)):
                chain.apply(row)
                tokens[j] = row.selected()
                row.restore()
        return tokens

    def _filtered(self, logits: NDArray[np.float32], params: Params, index: int) -> Row:
        """What dist gets."""
        row = Row(logits)
        with self._lib.filters(self._asked(params, index), logits.size) as chain:
            chain.apply(row)
        return row

    def _asked(self, params: Params, index: int) -> Asked:
        filters = (
            int(params["top_k"][index]),
            float(params["top_p"][index]),
            float(params["min_p"][index]),
            float(params["temperature"][index]),
        )
        if self._scene is None:
            return Asked(*filters)
        request = self._scene["requests"][index]
        return Asked(
            *filters,
            bias=tuple((token, by) for token, by in request["params"].get("logit_bias", ())),
            history=(*request["prompt"], *request["output"]),
            **{k: request["params"][k] for k in STAGES[1:] if k in request["params"]},
        )


def _seed(seeds: NDArray[np.int64]) -> int:
    """One uint32 of all the seeds."""
    words = np.ascontiguousarray(seeds).view(np.uint32)
    return int(np.random.SeedSequence(words.tolist()).generate_state(1)[0])
