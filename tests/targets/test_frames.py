import io
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from sampler_audit.targets._frames import PADDING, FrameError, read_frame, write_frame

DTYPES = st.sampled_from(["bool", "int32", "int64", "float32", "float64"])
ARRAYS = DTYPES.flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0))
)
HEADERS = st.dictionaries(st.text().filter(lambda name: name != "arrays"), st.integers())


def frame(header: dict[str, int], arrays: dict[str, NDArray[np.generic]]) -> io.BytesIO:
    """A stream that holds one frame."""
    stream = io.BytesIO()
    write_frame(stream, header, arrays)
    stream.seek(0)
    return stream


@given(HEADERS, st.dictionaries(st.text(), ARRAYS, max_size=3))
def test_what_is_written_is_read(
    header: dict[str, int], arrays: dict[str, NDArray[np.generic]]
) -> None:
    """Any header and arrays of any supported dtype and shape, NaN and infinities among them."""
    read = read_frame(frame(header, arrays))
    assert read is not None
    assert read[0] == header
    assert set(read[1]) == set(arrays)
    for name, array in arrays.items():
        assert read[1][name].dtype == array.dtype
        np.testing.assert_array_equal(read[1][name], array, strict=True)


@given(st.binary(min_size=1, max_size=40))
def test_noise_is_no_frame(data: bytes) -> None:
    """Bytes that are not the protocol end in FrameError, never in a hang or another exception."""
    with pytest.raises(FrameError):
        read_frame(io.BytesIO(data))


@given(st.integers(1, 99))
def test_a_frame_that_ends_early_is_an_error(percent: int) -> None:
    """A stream cut anywhere inside a frame."""
    data = frame({"a": 1}, {"x": np.arange(9.0)}).getvalue()
    with pytest.raises(FrameError):
        read_frame(io.BytesIO(data[: len(data) * percent // 100]))


def test_the_end_of_the_stream_is_not_an_error() -> None:
    """Between frames a stream may end."""
    assert read_frame(io.BytesIO()) is None


def test_rows_keep_their_stride() -> None:
    """A padded view arrives as a view of the same stride, with padding that misleads a reader."""
    storage = np.arange(12, dtype=np.float32).reshape(3, 4)
    read = read_frame(frame({}, {"x": storage[:, :3]}))
    assert read is not None
    array = read[1]["x"]
    assert array.strides == (16, 4)
    np.testing.assert_array_equal(array, storage[:, :3])
    assert array.base is not None
    assert (
        np.lib.stride_tricks.as_strided(array, (3, 4))[:, 3].tolist() == [np.float32(PADDING)] * 3
    )


@pytest.mark.parametrize(
    "described",
    [
        {"name": "x", "dtype": "object", "shape": [1], "stride": 0},
        {"name": "x", "dtype": "int64", "shape": [-1], "stride": 0},
        {"name": "x", "dtype": "int64", "shape": [2, 3], "stride": 2},
        {"name": "x", "dtype": "int64", "stride": 0},
    ],
)
def test_arrays_that_cannot_be_are_refused(described: dict[str, object]) -> None:
    """Pickled objects, negative sizes, overlapping rows, a missing shape."""
    stream = io.BytesIO()
    write_frame(stream, {})
    text = stream.getvalue()[8:].replace(b'"arrays": []', b'"arrays": [%s]')
    body = text % json.dumps(described).encode()
    with pytest.raises(FrameError, match="described"):
        read_frame(io.BytesIO(len(body).to_bytes(8, "little") + body + bytes(64)))
