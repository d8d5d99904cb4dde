"""libllama through ctypes: its sampler chain on candidates of our own, with no model.

Nothing of an unknown library is trusted: what is called here is tried on a known row first. Runs
in the interpreter under audit: standard library and numpy only.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ._engine import Unavailable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Candidates = NDArray[np.void]

CANDIDATE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])
"""llama_token_data of llama.h."""

_RANDOM_SEED = 0xFFFFFFFF
"""LLAMA_DEFAULT_SEED: a dist sampler with this seed takes another at random."""

_KNOWN = (1.0, 4.0, 2.0, 3.0)


class TokenDataArray(ctypes.Structure):
    """llama_token_data_array of llama.h; ``selected`` is an index into the candidates."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
        ("selected", ctypes.c_int64),
        ("sorted", ctypes.c_bool),
    )


class LogitBias(ctypes.Structure):
    """llama_logit_bias of llama.h."""

    _fields_ = (("token", ctypes.c_int32), ("bias", ctypes.c_float))


class ChainParams(ctypes.Structure):
    """llama_sampler_chain_params of llama.h."""

    _fields_ = (("no_perf", ctypes.c_bool),)


@dataclass(frozen=True)
class Asked:
    """What a request asks of a chain.

    Attributes:
        bias: What is added to the logits of single tokens.
        history: Prompt and output, of which the penalties look at the last PENALTY_LAST_N tokens.
    """

    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    temperature: float = 1.0
    bias: tuple[tuple[int, float], ...] = ()
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    history: tuple[int, ...] = ()


PENALTY_LAST_N = 64
"""Tokens that the penalties look back on in llama-server by default."""

_Array = ctypes.POINTER(TokenDataArray)
_Biases = ctypes.POINTER(LogitBias)
_SIGNATURES: dict[str, tuple[Any, tuple[Any, ...] | None]] = {
    "llama_sampler_chain_default_params": (ChainParams, ()),
    "llama_sampler_chain_init": (ctypes.c_void_p, (ChainParams,)),
    "llama_sampler_chain_add": (None, (ctypes.c_void_p, ctypes.c_void_p)),
    "llama_sampler_init_logit_bias": (
        ctypes.c_void_p,
        (ctypes.c_int32, ctypes.c_int32, _Biases),
    ),
    # Releases differ in its arguments.
    "llama_sampler_init_penalties": (ctypes.c_void_p, None),
    "llama_sampler_init_top_k": (ctypes.c_void_p, (ctypes.c_int32,)),
    "llama_sampler_init_top_p": (ctypes.c_void_p, (ctypes.c_float, ctypes.c_size_t)),
    "llama_sampler_init_min_p": (ctypes.c_void_p, (ctypes.c_float, ctypes.c_size_t)),
    "llama_sampler_init_temp": (ctypes.c_void_p, (ctypes.c_float,)),
    "llama_sampler_init_dist": (ctypes.c_void_p, (ctypes.c_uint32,)),
    "llama_sampler_accept": (None, (ctypes.c_void_p, ctypes.c_int32)),
    "llama_sampler_apply": (None, (ctypes.c_void_p, _Array)),
    "llama_sampler_free": (None, (ctypes.c_void_p,)),
}


class Row:
    """Candidates as the library sees them: an array that its samplers reorder and shorten."""

    def __init__(self, logits: NDArray[np.float32]) -> None:
        self._storage = np.zeros(logits.size, CANDIDATE)
        self._storage["id"] = np.arange(logits.size)
        self._storage["logit"] = logits
        self.array = TokenDataArray(self._storage.ctypes.data, logits.size, -1, False)
        self._saved = self._storage.copy(), self.array.size, self.array.sorted

    def candidates(self) -> Candidates:
        """Those that are left, CANDIDATE ``[size]``."""
        return self._storage[: self.array.size]

    def save(self) -> None:
        """What ``restore`` brings back."""
        self._saved = self.candidates().copy(), self.array.size, self.array.sorted

    def restore(self) -> None:
        """Everything that a sampler may change is again as it was."""
        candidates, self.array.size, self.array.sorted = self._saved
        self._storage[: candidates.size] = candidates
        self.array.selected = -1

    def selected(self) -> int:
        """The token that was drawn; -1 where none was."""
        i = int(self.array.selected)
        return int(self._storage["id"][i]) if 0 <= i < self.array.size else -1


class Chain:
    """A llama_sampler that belongs to this object; chains are made of samplers in their order."""

    def __init__(
        self, lib: ctypes.CDLL, samplers: list[int], history: tuple[int, ...] = ()
    ) -> None:
        self._lib = lib
        self._chain = lib.llama_sampler_chain_init(lib.llama_sampler_chain_default_params())
        for sampler in samplers:
            lib.llama_sampler_chain_add(self._chain, sampler)
        for token in history:
            lib.llama_sampler_accept(self._chain, token)

    def apply(self, row: Row) -> None:
        """Run every sampler on the candidates."""
        self._lib.llama_sampler_apply(self._chain, ctypes.byref(row.array))

    def __enter__(self) -> Chain:
        return self

    def __exit__(self, *_: object) -> None:
        # A chain owns its samplers.
        self._lib.llama_sampler_free(self._chain)


class LibLlama:
    """One library, tried on a known row.

    Raises:
        Unavailable: it cannot be loaded, lacks a function, or a sampler does something else.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lib = _load(path)
        for name, (restype, argtypes) in _SIGNATURES.items():
            function = getattr(self._lib, name, None)
            if function is None:
                raise Unavailable(f"{path} is no libllama with samplers: it has no {name}")
            function.restype, function.argtypes = restype, argtypes
        # Some releases want the size of the vocabulary before the penalties' other arguments. Such
        # a one, called without, would take whatever its register holds; the others, called with it,
        # take the size for the window, which the known row tells.
        for self._sized_penalties in (True, False):
            wrong = self._wrong_on_known_row()
            if not wrong:
                break
        if wrong:
            raise Unavailable(f"{path} is a libllama of an unknown layout: {wrong}")

    def version(self) -> str:
        """``llama.cpp 0.5.0-dev (ggml 0.25.1)``, as far as the library says, else its file name."""
        llama, ggml = self._text("llama_version"), self._text("ggml_version")
        name = f"llama.cpp {llama}" if llama else f"llama.cpp ({self.path.name})"
        return f"{name} (ggml {ggml})" if ggml else name

    def filters(self, asked: Asked, vocab_size: int) -> Chain:
        """Bias, penalties and filters, in llama-server's order."""
        return Chain(self._lib, self._filters(asked, vocab_size), asked.history)

    def full(self, asked: Asked, vocab_size: int, seed: int) -> Chain:
        """The same, and dist."""
        samplers = self._filters(asked, vocab_size)
        return Chain(self._lib, [*samplers, self._dist(seed)], asked.history)

    def dist(self, seed: int) -> Chain:
        """The draw alone, by a Mersenne twister that starts from ``seed`` (uint32)."""
        return Chain(self._lib, [self._dist(seed)])

    def _filters(self, asked: Asked, vocab_size: int) -> list[int]:
        lib = self._lib
        # The library copies them.
        biases = (LogitBias * len(asked.bias))(*(LogitBias(*pair) for pair in asked.bias))
        penalties = asked.repetition_penalty, asked.frequency_penalty, asked.presence_penalty
        counts = (vocab_size, PENALTY_LAST_N) if self._sized_penalties else (PENALTY_LAST_N,)
        return [
            lib.llama_sampler_init_logit_bias(vocab_size, len(asked.bias), biases),
            lib.llama_sampler_init_penalties(
                *map(ctypes.c_int32, counts), *map(ctypes.c_float, penalties)
            ),
            lib.llama_sampler_init_top_k(asked.top_k),
            lib.llama_sampler_init_top_p(asked.top_p, 0),
            lib.llama_sampler_init_min_p(asked.min_p, 0),
            lib.llama_sampler_init_temp(asked.temperature),
        ]

    def _dist(self, seed: int) -> int:
        sampler: int = self._lib.llama_sampler_init_dist(seed if seed != _RANDOM_SEED else seed - 1)
        return sampler

    def _wrong_on_known_row(self) -> str:
        """Which sampler does not do what its name says on the logits _KNOWN; empty if all do."""
        # Longer than the vocabulary, so that its size taken for the window shows.
        said = (0, 3, 3, 2, 2, 2, 2)
        tried: dict[str, tuple[Asked, list[tuple[float, float]]]] = {
            "top_k": (Asked(top_k=2), [(1, 4), (3, 3)]),
            # The softmax of the known row is .644 .237 .087 .032.
            "top_p": (Asked(top_p=0.7), [(1, 4), (3, 3)]),
            "min_p": (Asked(min_p=0.3), [(1, 4), (3, 3)]),
            "temp": (Asked(top_k=2, temperature=0.5), [(1, 8), (3, 6)]),
            "logit_bias": (Asked(top_k=2, bias=((0, 4), (1, -1))), [(0, 5), (1, 3)]),
            "repetition": (
                Asked(history=said, repetition_penalty=2),
                [(0, 0.5), (1, 4), (2, 1), (3, 1.5)],
            ),
            "frequency": (
                Asked(history=said, frequency_penalty=1),
                [(0, 0), (1, 4), (2, -2), (3, 1)],
            ),
            "presence": (
                Asked(history=said, presence_penalty=1),
                [(0, 0), (1, 4), (2, 1), (3, 2)],
            ),
        }
        for name, (asked, expected) in tried.items():
            row = _known_row()
            with self.filters(asked, len(_KNOWN)) as chain:
                chain.apply(row)
            got = [(int(c["id"]), float(c["logit"])) for c in row.candidates()[:4]]
            if row.array.size > len(_KNOWN) or sorted(got) != sorted(expected):
                return f"{name} leaves {row.array.size} candidates, {got} in place of {expected}"
        row = _known_row()
        with self.full(Asked(top_k=2), len(_KNOWN), 1) as chain:
            chain.apply(row)
        return "" if row.selected() in (1, 3) else f"dist selects {row.selected()} of tokens 1, 3"

    def _text(self, name: str) -> str:
        function = getattr(self._lib, name, None)
        if function is None:
            return ""
        function.restype, function.argtypes = ctypes.c_char_p, ()
        return bytes(function() or b"").decode(errors="replace")


def find_library() -> Path:
    """The libllama of the llama-cpp-python that is installed here; the package is not imported.

    Raises:
        ImportError: it is not installed, or brings no library.
    """
    spec = importlib.util.find_spec("llama_cpp")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("No module named 'llama_cpp'")
    package = Path(spec.origin).parent
    found = [*sorted(package.glob("lib/libllama.*")), *sorted(package.glob("libllama.*"))]
    if not found:
        raise ImportError(f"{package} holds no lib/libllama")
    return found[0]


def _known_row() -> Row:
    return Row(np.array(_KNOWN, np.float32))


def _load(path: Path) -> ctypes.CDLL:
    path = Path(os.path.abspath(path))
    try:
        return ctypes.CDLL(str(path))
    except OSError as first:
        # Its ggml libraries may lie beside it where no search path leads. Sorted, base comes
        # before those that need it.
        for sibling in sorted(path.parent.glob("libggml*")):
            _load_for_others(sibling)
        try:
            return ctypes.CDLL(str(path))
        except OSError as second:
            raise Unavailable(f"{path} cannot be loaded: {second}") from first


def _load_for_others(path: Path) -> None:
    try:
        ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    except OSError:
        # One backend of several, for hardware that is not here; the caller tells what is missing.
        return
