"""Engine: requests for tokens, batched step by step in one thread. Knows no HTTP."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from sampler_audit.demo.drawing import Drawing, Group
from sampler_audit.demo.generation import Choice, Emitted, Generation, Job
from sampler_audit.demo.listing import Listing
from sampler_audit.demo.model import DemoModel
from sampler_audit.demo.passes import Passes
from sampler_scenarios.requests import Request

_INT64 = 1 << 63


class EngineClosed(Exception):
    """The engine was closed while a request waited for it."""


@contextmanager
def _on_one_core() -> Iterator[None]:
    """Torch without its pool of threads, in this thread and those that start while it lasts.

    Steps are so small that, on a busy machine, waiting for the pool takes most of their time.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Engine:
    """Every request that arrives joins the batch of the next step, and leaves when it has ended.

    Choice i of a request with seed s draws with seed s + i; one without a seed with seeds of
    ``rng``. Where drafts are verified (``speculative``), the first token comes without one.
    """

    def __init__(
        self,
        model: DemoModel,
        passes: Passes,
        drawing: Drawing,
        listing: Listing,
        *,
        speculative: bool,
        rng: np.random.Generator,
    ) -> None:
        self._model = model.config
        self._passes = passes
        self._drawing = drawing
        self._listing = listing
        self._speculative = speculative
        self._rng = rng
        self._arrived: list[Job] = []
        self._changed = threading.Condition()
        self._closed = False
        self._running: list[Generation] = []
        self._before: list[Generation] = []
        self._choices: dict[Job, list[Generation]] = {}
        self._last_left: Request | None = None
        self._thread = threading.Thread(target=self._run, name="demo-engine", daemon=True)
        self._thread.start()

    def complete(self, job: Job) -> tuple[Choice, ...]:
        """Its choices, once all of them have ended.

        Raises:
            EngineClosed: before that.
        """
        with self._changed:
            if self._closed:
                raise EngineClosed
            self._arrived.append(job)
            self._changed.notify()
        return job.result.result()

    @property
    def n_running(self) -> int:
        """Requests in the batch."""
        return len(self._choices)

    def close(self) -> None:
        """End every request, and the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        with _on_one_core():
            while self._admit():
                try:
                    self._step()
                # The boundary of a thread: requests would wait for ever for one that has died.
                except Exception as exc:
                    self._fail(exc)
        self._fail(EngineClosed())

    def _admit(self) -> bool:
        """Whether to go on; waits for a request where none is running."""
        with self._changed:
            self._changed.wait_for(lambda: self._arrived or self._running or self._closed)
            arrived, self._arrived = self._arrived, []
        for job in arrived:
            self._choices[job] = [
                Generation(job, seed, self._last_left) for seed in self._seeds(job)
            ]
            self._running += self._choices[job]
        return not self._closed

    def _seeds(self, job: Job) -> Iterator[int]:
        first, n = job.params.seed, job.params.n
        if first is None:
            yield from self._rng.integers(-_INT64, _INT64, n).tolist()
        else:
            yield from ((first + i + _INT64) % (2 * _INT64) - _INT64 for i in range(n))

    def _step(self) -> None:
        begun = [own for own in self._running if self._speculative and own.output]
        fresh = [own for own in self._running if not (self._speculative and own.output)]
        steps: list[tuple[Group, list[list[Emitted]]]] = []
        if fresh:
            groups = self._grouped(fresh)
            steps += zip(groups, self._drawing.plain(groups, self._before), strict=True)
        if begun:
            groups = self._grouped(begun)
            steps += zip(groups, self._drawing.speculative(groups), strict=True)
        emitted = [
            (own, each)
            for group, of_members in steps
            for own, tokens in zip(group.members, of_members, strict=True)
            for each in tokens
        ]
        self._emit(emitted)
        self._before = self._running
        going = [own for own in self._running if own.finish is None]
        # Rows change places from step to step, as in engines that reorder their batch.
        self._running = going[1:] + going[:1]
        self._release()

    def _grouped(self, generations: list[Generation]) -> list[Group]:
        alike: dict[tuple[Job, tuple[int, ...]], list[Generation]] = {}
        for own in generations:
            alike.setdefault((own.job, tuple(own.output)), []).append(own)
        return [
            Group(members, self._passes.draw_row((*job.prompt, *output)))
            for (job, output), members in alike.items()
        ]

    def _emit(self, emitted: list[tuple[Generation, Emitted]]) -> None:
        asked = []
        for own, each in emitted:
            # A second token after the last one was drawn in vain.
            if own.finish is None:
                own.emit(each.token_id, self._model)
                if own.job.wanted is not None and each.token_id >= 0:
                    asked.append((own, own.job.wanted, each))
        listings = self._listing.of_tokens([(want, each) for _, want, each in asked])
        for (own, _, each), listing in zip(asked, listings, strict=True):
            own.listings.append(each.listing or listing)

    def _release(self) -> None:
        """Answer the requests all of whose choices have ended."""
        ended = [j for j, own in self._choices.items() if all(s.finish for s in own)]
        for job in ended:
            generations = self._choices.pop(job)
            last = generations[-1].request
            if last.output_token_ids and max(last.output_token_ids) < self._model.vocab_size:
                self._last_left = last
            job.result.set_result(tuple(own.choice for own in generations))

    def _fail(self, exc: Exception) -> None:
        """Every request ends with an error."""
        with self._changed:
            arrived, self._arrived = self._arrived, []
        for job in (*arrived, *self._choices):
            job.result.set_exception(exc)
        self._choices, self._running, self._before = {}, [], []
