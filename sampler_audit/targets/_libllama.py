"""libllama through ctypes: its sampler chain on candidates of our own, with no model.

Nothing of an unknown library is trusted: what is called here is tried on a known row first. Runs
in the interpreter under audit: standard library and numpy only.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
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


class ChainParams(ctypes.Structure):
    """llama_sampler_chain_params of llama.h."""

    _fields_ = (("no_perf", ctypes.c_bool),)


_Array = ctypes.POINTER(TokenDataArray)
_SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "llama_sampler_chain_default_params": (ChainParams, ()),
    "llama_sampler_chain_init": (ctypes.c_void_p, (ChainParams,)),
    "llama_sampler_chain_add": (None, (ctypes.c_void_p, ctypes.c_void_p)),
    "llama_sampler_init_top_k": (ctypes.c_void_p, (ctypes.c_int32,)),
    "llama_sampler_init_top_p": (ctypes.c_void_p, (ctypes.c_float, ctypes.c_size_t)),
    "llama_sampler_init_min_p": (ctypes.c_void_p, (ctypes.c_float, ctypes.c_size_t)),
    "llama_sampler_init_temp": (ctypes.c_void_p, (ctypes.c_float,)),
    "llama_sampler_init_dist": (ctypes.c_void_p, (ctypes.c_uint32,)),
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

    def __init__(self, lib: ctypes.CDLL, samplers: list[int]) -> None:
        self._lib = lib
        self._chain = lib.llama_sampler_chain_init(lib.llama_sampler_chain_default_params())
        for sampler in samplers:
            lib.llama_sampler_chain_add(self._chain, sampler)

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
        wrong = self._wrong_on_known_row()
        if wrong:
            raise Unavailable(f"{path} is a libllama of an unknown layout: {wrong}")

    def version(self) -> str:
        """``llama.cpp 0.5.0-dev (ggml 0.25.1)``, as far as the library says, else its file name."""
        llama, ggml = self._text("llama_version"), self._text("ggml_version")
        name = f"llama.cpp {llama}" if llama else f"llama.cpp ({self.path.name})"
        return f"{name} (ggml {ggml})" if ggml else name

    def filters(self, top_k: int, top_p: float, min_p: float, temperature: float) -> Chain:
        """The filters alone, in the library's order."""
        return Chain(self._lib, self._filters(top_k, top_p, min_p, temperature))

    def full(self, top_k: int, top_p: float, min_p: float, temperature: float, seed: int) -> Chain:
        """The filters, and dist."""
        samplers = self._filters(top_k, top_p, min_p, temperature)
        return Chain(self._lib, [*samplers, self._dist(seed)])

    def dist(self, seed: int) -> Chain:
        """The draw alone, by a Mersenne twister that starts from ``seed`` (uint32)."""
        return Chain(self._lib, [self._dist(seed)])

    def _filters(self, top_k: int, top_p: float, min_p: float, temperature: float) -> list[int]:
        lib = self._lib
        return [
            lib.llama_sampler_init_top_k(top_k),
            lib.llama_sampler_init_top_p(top_p, 0),
            lib.llama_sampler_init_min_p(min_p, 0),
            lib.llama_sampler_init_temp(temperature),
        ]

    def _dist(self, seed: int) -> int:
        sampler: int = self._lib.llama_sampler_init_dist(seed if seed != _RANDOM_SEED else seed - 1)
        return sampler

    def _wrong_on_known_row(self) -> str:
        """Which sampler does not do what its name says on the logits _KNOWN; empty if all do."""
        tried = {
            "top_k": (self.filters(2, 1, 0, 1), [(1, 4), (3, 3)]),
            # The softmax of the known row is .644 .237 .087 .032.
            "top_p": (self.filters(0, 0.7, 0, 1), [(1, 4), (3, 3)]),
            "min_p": (self.filters(0, 1, 0.3, 1), [(1, 4), (3, 3)]),
            "temp": (self.filters(2, 1, 0, 0.5), [(1, 8), (3, 6)]),
        }
        for name, (chain, expected) in tried.items():
            row = _known_row()
            with chain:
                chain.apply(row)
            got = [(int(c["id"]), float(c["logit"])) for c in row.candidates()[:4]]
            if row.array.size > len(_KNOWN) or sorted(got) != sorted(expected):
                return f"{name} leaves {row.array.size} candidates, {got} in place of {expected}"
        row = _known_row()
        with self.full(2, 1, 0, 1, 1) as chain:
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
