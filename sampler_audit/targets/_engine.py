"""What an engine file provides, and what engine files on torch share.

Runs in the interpreter under audit: standard library and numpy only at the top, torch where it is
used, nothing of ours.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import torch
    from numpy.typing import NDArray

    Params = Mapping[str, NDArray[Any]]


class Unavailable(ImportError):
    """The engine, or the hardware that was asked for, is not here; the message is complete."""


class Engine(ABC):
    """What ``load(options)`` of an engine file returns.

    ``params`` holds, per row of the batch, ``temperature``, ``top_p`` and ``min_p`` (float64
    ``[batch]``) and ``top_k`` (int64 ``[batch]``; below 1 is off). The logits (float32
    ``[batch, vocab_size]``, possibly strided) are the engine's to overwrite. An engine derives
    from this class, and provides what its info claims.
    """

    @abstractmethod
    def info(self) -> dict[str, Any]:
        """The fields of ``TargetInfo``, but for its name."""

    @abstractmethod
    def kept(self, logits: NDArray[np.float32], params: Params) -> NDArray[np.bool_]:
        """Which tokens survive, ``[batch, vocab_size]``."""

    def filtered(self, logits: NDArray[np.float32], params: Params) -> NDArray[np.float32]:
        """What is drawn from, ``[batch, vocab_size]``, where ``logits_error`` is not None."""
        raise NotImplementedError

    @abstractmethod
    def draw(
        self,
        logits: NDArray[np.float32],
        params: Params,
        index: int,
        seeds: NDArray[np.int64],
        positions: NDArray[np.int64],
        kernel: bool,
    ) -> NDArray[np.int64]:
        """One token of row ``index`` for every (seed, position); -1 where none can be drawn.

        -2 where a draft before the row was rejected.
        """

    def step(
        self, logits: NDArray[np.float32], params: Params, index: int, seeds: NDArray[np.int64]
    ) -> dict[str, NDArray[Any]]:
        """One step of every request, where ``stateful``.

        ``token_ids`` and ``n_listed`` are int64 ``[n_requests]``, the second -1 for no listing;
        ``listed_ids`` (int64), ``listed_values`` (float32) and ``listed_ranks`` (int64) hold the
        listings one after the other.
        """
        raise NotImplementedError

    def within(self, scene: Mapping[str, Any], arrays: Params) -> Engine:
        """The engine among these requests, where it has ``stages``: see scenes.Scene."""
        raise NotImplementedError


def choose_device(asked: str) -> str:
    """``cuda`` or ``cpu`` for auto, cpu or cuda.

    Raises:
        Unavailable: cuda was asked for and torch sees none.
    """
    import torch

    if asked == "cuda" and not torch.cuda.is_available():
        raise Unavailable(f"torch {torch.__version__} sees no CUDA device; use --device cpu")
    return "cuda" if asked != "cpu" and torch.cuda.is_available() else "cpu"


def device_name(device: str) -> str:
    """``cpu``, or the name of the GPU."""
    import torch

    return str(torch.cuda.get_device_name()) if device == "cuda" else "cpu"


def with_torch(engine: str) -> str:
    """An engine's name and version, and the torch that its numbers come from."""
    import torch

    return f"{engine} (torch {torch.__version__})"


def as_tensor(logits: NDArray[np.float32], device: str) -> torch.Tensor:
    """The logits on the device, float32 ``[batch, vocab_size]``, with the row stride they had."""
    import torch

    rows = torch.from_numpy(logits)
    if device == "cpu":
        return rows
    # Tensor.to makes a padded view dense, so the storage moves and is sliced again.
    storage = torch.as_strided(rows, (len(rows), rows.stride(0)), (rows.stride(0), 1))
    return storage.to(device)[:, : rows.shape[1]]


def top_k_top_p(
    params: Params, vocab_size: int, device: str
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """``k`` (int32 ``[batch]``, vocab_size where off) and ``p`` (float32 ``[batch]``, 1 is off).

    None for a filter that no row uses: samplers then skip it, and take other paths for it.
    """
    import numpy as np
    import torch

    top_k = params["top_k"]
    k = np.where((top_k < 1) | (top_k > vocab_size), vocab_size, top_k).astype(np.int32)
    p = params["top_p"].astype(np.float32)
    return (
        torch.from_numpy(k).to(device) if (k < vocab_size).any() else None,
        torch.from_numpy(p).to(device) if (p < 1).any() else None,
    )


def kept_of(masked: torch.Tensor) -> NDArray[np.bool_]:
    """The tokens whose logit is above -inf and no NaN, bool ``[batch, vocab_size]``."""
    kept: NDArray[np.bool_] = (masked > float("-inf")).cpu().numpy()
    return kept
