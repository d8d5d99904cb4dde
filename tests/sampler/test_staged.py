import torch

from sampler_audit.sampler.launches import Launches
from sampler_audit.sampler.staged import StagedTensor

CPU = torch.device("cpu")


def staged(*shape: int, dtype: torch.dtype = torch.int32) -> tuple[StagedTensor, Launches]:
    """A tensor of -1, and the count of its copies."""
    launches = Launches("twin")
    return StagedTensor("x", shape, dtype, -1, CPU, launches), launches


def test_writes_are_seen_once_asked_for() -> None:
    """Until then the device keeps what it had: its tensor is the same object all along."""
    x, _ = staged(3)
    device = x.current()
    x.write(1, 7)
    assert device.tolist() == [-1, -1, -1]
    assert x.current() is device
    assert device.tolist() == [-1, 7, -1]


def test_one_copy_however_many_writes() -> None:
    """And none where nothing was written, or nothing that differs."""
    x, launches = staged(4, 5)
    x.rewrite(0, [1, 2, 3])
    x.rewrite(3, [4])
    x.append(2, 3, [8, 9])
    x.current()
    x.current()
    x.rewrite(3, [4])
    x.current()
    assert launches.take() == {"copy x": 1}
    assert x.current().tolist() == [
        [1, 2, 3, -1, -1],
        [-1] * 5,
        [-1, -1, -1, 8, 9],
        [4, -1, -1, -1, -1],
    ]


def test_a_rewritten_row_keeps_nothing() -> None:
    """Neither before nor after the copy: a shorter row ends in the fill."""
    x, _ = staged(2, 4)
    x.rewrite(1, [1, 2, 3, 4])
    x.current()
    x.rewrite(1, [5])
    assert x.current()[1].tolist() == [5, -1, -1, -1]


def test_only_the_box_of_what_differs_travels() -> None:
    """A device value outside it, here spoilt on purpose, is not written over."""
    x, _ = staged(3, 3)
    x.current()[0, 0] = 99
    x.append(1, 1, [6])
    assert x.current().tolist() == [[99, -1, -1], [-1, 6, -1], [-1, -1, -1]]


def test_values_are_rounded_before_they_are_compared() -> None:
    """A float64 is not taken for news because float32 cannot hold it."""
    x, launches = staged(2, dtype=torch.float32)
    for _ in range(2):
        x.write(0, 0.1)
        x.current()
    assert launches.take() == {"copy x": 1}
