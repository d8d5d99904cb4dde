"""Frames: how the auditor and its workers talk, a JSON header and raw arrays over a pipe.

A frame is the header's length (8 bytes, little-endian), the header, and the bytes of the arrays
that it describes. No pickle: what comes back from a foreign interpreter stays data. This file also
runs in that interpreter, so it may know nothing but the standard library and numpy, which it
imports late: an interpreter without numpy must still be able to say so.
"""

from __future__ import annotations

import json
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    Arrays = Mapping[str, NDArray[Any]]

MAX_HEADER_BYTES = 2**24
PADDING = 1e30
"""What fills the gap between the rows of a strided array: a kernel that reads it goes wrong."""

_DTYPES = ("bool", "int32", "int64", "float32", "float64")


class FrameError(Exception):
    """The bytes are no frame."""


def write_frame(stream: IO[bytes], header: Mapping[str, Any], arrays: Arrays | None = None) -> None:
    """Send one frame. A 2-D array keeps its row stride; its padding is sent as PADDING."""
    described, payloads = [], []
    for name, array in (arrays or {}).items():
        storage, stride = _storage(array)
        described.append(
            {"name": name, "dtype": str(array.dtype), "shape": array.shape, "stride": stride}
        )
        payloads.append(storage)
    text = json.dumps({**header, "arrays": described}).encode()
    stream.write(len(text).to_bytes(8, "little") + text)
    for payload in payloads:
        stream.write(payload.data.cast("B") if payload.size else b"")
    stream.flush()


def read_frame(stream: IO[bytes]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]] | None:
    """Receive one frame; None at the end of the stream. The arrays are writable.

    Raises:
        FrameError: what arrived is no frame, or ends inside one.
    """
    prefix = stream.read(8)
    if not prefix:
        return None
    length = int.from_bytes(prefix, "little")
    if len(prefix) < 8 or length > MAX_HEADER_BYTES:
        raise FrameError(f"expected a frame, got {prefix!r}")
    header = _header(_exactly(stream, length))
    arrays = {a["name"]: _read_array(stream, a) for a in header.pop("arrays")}
    return header, arrays


def _header(text: bytearray) -> dict[str, Any]:
    try:
        header = json.loads(text)
    except ValueError as error:
        raise FrameError(f"the header is not JSON: {bytes(text[:80])!r}") from error
    if not isinstance(header, dict) or not isinstance(header.get("arrays"), list):
        raise FrameError(f"the header describes no arrays: {bytes(text[:80])!r}")
    return header


def _exactly(stream: IO[bytes], n_bytes: int) -> bytearray:
    data = bytearray(stream.read(n_bytes))
    if len(data) < n_bytes:
        raise FrameError(f"the stream ended after {len(data)} of {n_bytes} bytes")
    return data


def _storage(array: NDArray[Any]) -> tuple[NDArray[Any], int]:
    """The contiguous bytes to send, and the row stride in elements (0: not strided)."""
    import numpy as np

    if array.ndim != 2 or array.flags.c_contiguous:
        return np.ascontiguousarray(array), 0
    stride = max(array.strides[0] // array.itemsize, array.shape[1])
    padded = np.full((array.shape[0], stride), PADDING, array.dtype)
    padded[:, : array.shape[1]] = array
    return padded, stride


def _read_array(stream: IO[bytes], described: Mapping[str, Any]) -> NDArray[np.generic]:
    import numpy as np

    try:
        dtype, shape = described["dtype"], tuple(int(n) for n in described["shape"])
        stride = int(described["stride"])
    except (KeyError, TypeError, ValueError) as error:
        raise FrameError(f"an array is described as {described!r}") from error
    if dtype not in _DTYPES or min(shape, default=0) < 0 or (stride and stride < shape[-1]):
        raise FrameError(f"an array is described as {described!r}")
    stored = (shape[0], stride) if stride else shape
    n_bytes = np.dtype(dtype).itemsize * int(np.prod(stored, dtype=np.int64))
    array: NDArray[np.generic] = np.frombuffer(_exactly(stream, n_bytes), dtype).reshape(stored)
    return array[:, : shape[1]] if stride else array
