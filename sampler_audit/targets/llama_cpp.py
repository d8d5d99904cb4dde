"""llama_cpp: the llama_sampler chain of any libllama, with no model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ._engine import Engine, Unavailable
from ._libllama import LibLlama, Row, find_library

if TYPE_CHECKING:
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


def load(options: dict[str, str]) -> LlamaCppEngine:
    """The library of ``options["lib"]``, or of the llama-cpp-python that is installed."""
    if options["device"] == "cuda":
        raise Unavailable("the sampler chain of libllama runs on the CPU; use --device cpu")
    return LlamaCppEngine(LibLlama(Path(options["lib"]) if "lib" in options else find_library()))


class LlamaCppEngine(Engine):
    """The samplers top_k, top_p, min_p, temp and dist, in the order that llama-server and
    llama-cpp-python give them by default: temperature comes last, so filters judge the odds at 1.

    top_k <= 0, top_p >= 1 and min_p <= 0 are off; temperature <= 0 keeps the logit of the first
    maximum and sets the others to -inf (llama.cpp 0.5.0-dev: src/llama-sampler.cpp).

    A row with a NaN is not shown to the library, whose std::sort compares logits with >, which NaN
    makes undefined behaviour: nothing is kept or drawn of it.
    """  # noqa: D205 - one sentence

    def __init__(self, lib: LibLlama) -> None:
        self._lib = lib

    def info(self) -> dict[str, Any]:
        """See ``_engine.Engine``."""
        return {
            "engine": self._lib.version(),
            "device": "cpu",
            "path": f"llama_sampler chain top_k, top_p, min_p, temp, dist of {self._lib.path.name};"
            " the default chain of llama-server, whose other samplers are off by default",
            "convention": "llama.cpp",
            "draws": True,
            "mass_error": MASS_ERROR,
            "min_p_error": MIN_P_ERROR,
        }

    def kept(self, logits: NDArray[np.float32], params: Params) -> NDArray[np.bool_]:
        """See ``_engine.Engine``."""
        mask = np.zeros(logits.shape, np.bool_)
        for i in np.flatnonzero(~np.isnan(logits).any(axis=1)).tolist():
            left = self._filtered(logits[i], params, i).candidates()
            mask[i, left["id"][left["logit"] > -np.inf]] = True
        return mask

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
            sampler = self._lib.full(*_settings(params, index), _seed(seeds))
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
        with self._lib.filters(*_settings(params, index)) as chain:
            chain.apply(row)
        return row


def _settings(params: Params, index: int) -> tuple[int, float, float, float]:
    return (
        int(params["top_k"][index]),
        float(params["top_p"][index]),
        float(params["min_p"][index]),
        float(params["temperature"][index]),
    )


def _seed(seeds: NDArray[np.int64]) -> int:
    """One uint32 of all the seeds."""
    words = np.ascontiguousarray(seeds).view(np.uint32)
    return int(np.random.SeedSequence(words.tolist()).generate_state(1)[0])
