import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from sampler_audit.errors import (
    TargetError,
    TargetProtocolError,
    TargetRaised,
    TargetUnavailable,
)
from sampler_audit.targets._pool import WorkerSpec, WorkerTarget
from sampler_scenarios.batches import Batch, plain_batch
from sampler_scenarios.params import SamplingParams

# An engine that does what row 0 says: faults that no real engine shows on request.
ENGINE = """
import os, sys, time
import numpy as np

class Engine:
    def info(self):
        return dict(engine="fake 1", device="cpu", path="", convention="sampler-audit", draws=True)

    def kept(self, logits, params):
        order = int(logits[0, 0])
        if order == 1:
            os.write(1, b"printed by compiled code"); print("printed"); sys.stdin.read()
        if order == 2: raise ValueError("no luck")
        if order == 3: print("last words", file=sys.stderr); os._exit(7)
        if order == 4: os.kill(os.getpid(), 11)
        if order == 5:
            open(os.path.join(os.path.dirname(__file__), "hanging"), "w").close()
            time.sleep(60)
        if order == 6: return np.zeros((1, 1), bool)
        if order == 7: time.sleep(0.5)
        if order == 8: sys.exit(3)
        return logits > logits.mean()

    def draw(self, logits, params, index, seeds, positions, kernel):
        return seeds * 100 + positions * 10 + index + kernel

def load(options):
    return Engine()
"""
GREEDY_MATE = SamplingParams(temperature=0)


def batch(order: int) -> Batch:
    """Two rows; the first value is the order."""
    logits = np.array([[order, 100, 0], [0, 0, 200]], np.float32)
    return plain_batch(logits, (SamplingParams(), GREEDY_MATE), 1)


KEPT = [[False, True, False], [False, False, True]]

Open = Callable[..., WorkerTarget]


@pytest.fixture
def open_fake(tmp_path: Path) -> Iterator[Open]:
    """Starts workers of the engine file ``source`` and closes them after the test."""
    opened = []

    def start(source: str = ENGINE, *, n_workers: int = 1, timeout_s: float = 60.0) -> WorkerTarget:
        file = tmp_path / "fake.py"
        file.write_text(source)
        spec = WorkerSpec(
            name="fake",
            engine_file=file,
            options={},
            python=sys.executable,
            install="pip install fake",
            timeout_s=timeout_s,
        )
        opened.append(WorkerTarget(spec, n_workers))
        return opened[-1]

    yield start
    for target in opened:
        target.close()


def test_arrays_go_and_come(open_fake: Open) -> None:
    """The mask of the whole batch; tokens in the order of their labels; kernel as asked."""
    target = open_fake()
    assert target.info.engine == "fake 1"
    assert target.kept(batch(0)).tolist() == KEPT
    seeds, positions = np.array([3, 4]), np.array([1, 2])
    assert target.draw(batch(0), seeds, positions).tolist() == [311, 421]
    assert target.draw(batch(0), seeds, positions, kernel=True).tolist() == [312, 422]


def test_an_engine_that_prints_and_reads_is_harmless(open_fake: Open) -> None:
    """Its standard output is not the protocol, at the level of descriptors; its input is empty."""
    assert open_fake().kept(batch(1)).tolist() == KEPT


@pytest.mark.parametrize(
    ("order", "error", "message"),
    [
        (2, TargetRaised, "fake raised ValueError: no luck"),
        (3, TargetProtocolError, "(?s)worker of fake ended with 7; it wrote last:.*last words"),
        (4, TargetProtocolError, "the worker of fake was ended by SIGSEGV"),
        (6, TargetProtocolError, r"answered bool \[1, 1\] where bool \[2, 3\] was expected"),
        (8, TargetRaised, "fake raised SystemExit: 3"),
    ],
)
def test_a_fault_is_told_and_survived(
    open_fake: Open, order: int, error: type[TargetError], message: str
) -> None:
    """What happened is in the message, and the next request is answered."""
    target = open_fake()
    with pytest.raises(error, match=message):
        target.kept(batch(order))
    assert target.kept(batch(0)).tolist() == KEPT


def test_a_worker_that_hangs_is_replaced(open_fake: Open) -> None:
    """After the time limit of one request."""
    target = open_fake(timeout_s=1.0)
    with pytest.raises(TargetProtocolError, match="did not answer within 1 s and was killed"):
        target.kept(batch(5))
    assert target.kept(batch(0)).tolist() == KEPT


def test_closing_ends_a_request_that_hangs(open_fake: Open, tmp_path: Path) -> None:
    """Ctrl-C does not wait for the engine."""
    target = open_fake()
    with ThreadPoolExecutor() as threads:
        hanging = threads.submit(target.kept, batch(5))
        while not (tmp_path / "hanging").exists():
            time.sleep(0.01)
        target.close()
        with pytest.raises(TargetProtocolError, match="SIGKILL"):
            hanging.result(timeout=30)


def test_closing_ends_a_request_that_waits_for_a_worker(open_fake: Open, tmp_path: Path) -> None:
    """The one worker hangs, so a second thread waits; after that nobody does."""
    target = open_fake()
    with ThreadPoolExecutor() as threads:
        hanging = threads.submit(target.kept, batch(5))
        while not (tmp_path / "hanging").exists():
            time.sleep(0.01)
        waiting = threads.submit(target.kept, batch(0))
        target.close()
        assert isinstance(hanging.exception(timeout=30), TargetProtocolError)
        assert isinstance(waiting.exception(timeout=30), TargetError)
    with pytest.raises(TargetError, match="fake is closed"):
        target.kept(batch(0))
    target.close()


def test_workers_are_shared_by_threads(open_fake: Open) -> None:
    """Twelve requests by six threads on two workers, a death among them."""
    target = open_fake(n_workers=2)

    def ask(order: int) -> bool:
        try:
            return bool(target.kept(batch(order)).tolist() == KEPT)
        except TargetProtocolError:
            return order == 3

    with ThreadPoolExecutor(6) as threads:
        assert all(threads.map(ask, [0, 7, 3, 0, 0, 7, 0, 0, 3, 0, 0, 0]))


def test_a_missing_import_says_what_to_install(open_fake: Open) -> None:
    """With the interpreter that was tried and the module that it lacks."""
    with pytest.raises(
        TargetUnavailable,
        match=r"fake cannot be imported by .*python.*'no_such_module'\): pip install fake",
    ):
        open_fake("import no_such_module")


def test_an_engine_that_breaks_at_load_is_named(open_fake: Open) -> None:
    """The exception and its message."""
    with pytest.raises(TargetRaised, match="fake raised KeyError: 'x'"):
        open_fake("{}['x']")


def test_an_engine_that_only_masks_does_not_draw(open_fake: Open) -> None:
    """It is not even asked."""
    target = open_fake(ENGINE.replace("draws=True", "draws=False"))
    with pytest.raises(TargetError, match="masks logits and draws nothing"):
        target.draw(batch(0), np.zeros(1, np.int64), np.zeros(1, np.int64))


def test_an_engine_that_misdescribes_itself_is_refused(open_fake: Open) -> None:
    """Fields that no TargetInfo has."""
    with pytest.raises(TargetProtocolError, match="fake describes itself with"):
        open_fake(ENGINE.replace("path=", "road="))


def test_an_engine_with_an_unknown_convention_is_refused(open_fake: Open) -> None:
    """There is no law to hold it against."""
    with pytest.raises(TargetProtocolError, match="convention 'klingon'; known: sampler-audit, "):
        open_fake(ENGINE.replace('"sampler-audit"', '"klingon"'))


def test_an_engine_file_may_be_called_as_what_it_imports(open_fake: Open, tmp_path: Path) -> None:
    """Its folder is not on sys.path, so a file json.py beside it hides nothing."""
    (tmp_path / "json.py").write_text("raise RuntimeError('the wrong json')")
    target = open_fake("import json, decimal\njson.dumps(1)\n" + ENGINE)
    assert target.kept(batch(0)).tolist() == KEPT
