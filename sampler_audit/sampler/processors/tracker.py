"""BatchTracker: from the order of requests in successive steps to what changed between them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from sampler_audit.sampler.processors.batch_level import (
    Added,
    BatchUpdate,
    Moved,
    MoveDirectionality,
)
from sampler_scenarios.params import SamplingParams


@dataclass(eq=False)
class LiveRequest:
    """One stay of a request in the sampler: an identity, whatever slots and rows it passes through.

    ``output_token_ids`` grows in place; whoever was given it sees every new token.
    """

    params: SamplingParams
    prompt_token_ids: list[int] | None = None
    output_token_ids: list[int] = field(default_factory=list)


class BatchTracker:
    """Remembers which request each row of the last step held."""

    def __init__(self) -> None:
        self._rows: list[LiveRequest] = []

    def update(self, requests: list[LiveRequest]) -> BatchUpdate | None:
        """What leads from the last step's rows to ``requests``, row by row; None if nothing does.

        As vLLM's V1 batch does it: a new request takes the lowest row that became free, or else
        the end; rows still free are filled from the end, each by a one-way move to the lowest;
        rows that are then in another order than asked for are swapped. A request that misses a
        step is removed, and added again when it returns.
        """
        if requests == self._rows:
            return None
        rows = [request if request in requests else None for request in self._rows]
        gaps = [row for row, request in enumerate(rows) if request is None]
        added = _place_new(rows, gaps, requests)
        moved = [*_fill_gaps(rows, gaps, len(requests)), *_swap_into_order(rows, requests)]
        self._rows = list(requests)
        return BatchUpdate(len(requests), removed=gaps[::-1], added=added, moved=moved)


def _place_new(
    rows: list[LiveRequest | None], gaps: list[int], requests: Sequence[LiveRequest]
) -> list[Added]:
    added = []
    for request in requests:
        if request in rows:
            continue
        if gaps:
            row = gaps.pop(0)
            rows[row] = request
        else:
            row = len(rows)
            rows.append(request)
        added.append(Added(row, request.params, request.prompt_token_ids, request.output_token_ids))
    return added


def _fill_gaps(rows: list[LiveRequest | None], gaps: list[int], n_requests: int) -> list[Moved]:
    moved = []
    last = len(rows) - 1
    while gaps and gaps[0] < n_requests:
        while rows[last] is None:
            last -= 1
        gap = gaps.pop(0)
        rows[gap], rows[last] = rows[last], None
        moved.append(Moved(last, gap, MoveDirectionality.UNIDIRECTIONAL))
    return moved


def _swap_into_order(
    rows: list[LiveRequest | None], requests: Sequence[LiveRequest]
) -> list[Moved]:
    moved = []
    for row, request in enumerate(requests):
        if rows[row] is not request:
            other = rows.index(request)
            rows[row], rows[other] = rows[other], rows[row]
            moved.append(Moved(row, other, MoveDirectionality.SWAP))
    return moved
