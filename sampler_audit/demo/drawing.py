"""Drawing: one step of running generations on a player. Knows batches and players, no HTTP."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

import sampler_kernels as kernels
from sampler_audit.demo.generation import Emitted, Generation, Logits, ServedBatch
from sampler_audit.demo.model import DemoModel
from sampler_audit.demo.passes import Passes
from sampler_audit.demo.planted import Planted, build_player
from sampler_reference.conventions import Conventions
from sampler_scenarios.batches import PADDING
from sampler_scenarios.requests import Request

PAD = 64
"""Columns beyond the vocabulary in the buffer of logits, as a padded head has them."""

MOST_ALIKE = 8
"""So many choices with equal tokens get rows of their own in a batch; engines that choose their
path by the batch's size change it there. The others are drawn from the last of these rows."""

SEEN_IN_STEPS = frozenset({"seed-by-row", "seed-by-batch-position"})
"""Planted defects that only a player's ``step`` shows, in which every choice has a row. Those of
log-probs are others."""


@dataclass(frozen=True, eq=False)
class Group:
    """Sequences of one request whose tokens are equal so far, and the row of their next one."""

    members: list[Generation]
    row: Logits


@dataclass(frozen=True, eq=False, kw_only=True)
class Drafted:
    """Members of a group that drew the same draft, by their places in it.

    ``rows`` are that of the draft and that of the token after it; the draft was drawn from
    ``draft_row``, float32 ``[1, vocab_size]``.
    """

    group: int
    places: list[int]
    request: Request
    token_id: int
    rows: tuple[Logits, Logits]
    draft_row: Logits
    seeds: torch.Tensor
    positions: torch.Tensor


class Drawing:
    """The tokens of each step, by the built-in sampler, with one planted defect or none."""

    def __init__(
        self, model: DemoModel, passes: Passes, planted: Planted | None, conventions: Conventions
    ) -> None:
        self._model = model
        self._passes = passes
        self._player = build_player(planted, conventions)
        defect = planted.defect if planted else None
        self._by_step = defect is not None and (
            defect.name in SEEN_IN_STEPS or defect.stage == "log_probs"
        )
        # Defects of the state show on the row that a batch is about, the others on every row.
        self._row_by_row = defect is not None and defect.stage == "state"
        self.n_drafts = 0
        self.n_accepted = 0

    def plain(
        self, groups: Sequence[Group], before: Sequence[Generation]
    ) -> list[list[list[Emitted]]]:
        """For each group, for each member, the one token that it emits.

        ``before`` are the generations of the step before this one, in its order.
        """
        most = None if self._by_step else MOST_ALIKE
        rows = [(group, member) for group in groups for member in group.members[:most]]
        logits = _padded(group.row for group, _ in rows)
        generations = [member for _, member in rows]
        if self._by_step:
            return self._in_step(groups, logits, generations)
        drawn, index, masked = [], -1, None
        for group in groups:
            index += len(group.members[:most])
            tensor, batch = self._batch(logits, generations, index, before)
            if masked is None or self._row_by_row:
                masked = self._player.drawn_from(tensor, batch)
            tokens_of_group = self._player.draw_filtered(masked, batch, *_labels(group.members))
            drawn.append([[Emitted(token, group.row)] for token in tokens_of_group.tolist()])
        return drawn

    def _in_step(
        self, groups: Sequence[Group], logits: torch.Tensor, generations: Sequence[Generation]
    ) -> list[list[list[Emitted]]]:
        """As ``plain``, by one step of all generations, which lists too what they want listed."""
        requests = tuple(own.request for own in generations)
        batch = ServedBatch(logits.numpy(), requests, 0, served=self._model.config)
        seeds = np.array([own.seed for own in generations], np.int64)
        step = self._player.step(logits, batch, seeds)
        drawn = iter(zip(step.token_ids, step.log_probs, strict=True))
        return [
            [
                [Emitted(tokens[0], group.row, listed[0] if listed else None)]
                for tokens, listed in (next(drawn) for _ in group.members)
            ]
            for group in groups
        ]

    def speculative(self, groups: Sequence[Group]) -> list[list[list[Emitted]]]:
        """For each group, for each member, one or two tokens: a draft was drawn, then verified."""
        emitted: list[list[list[Emitted]]] = [[[] for _ in group.members] for group in groups]
        drafted = [each for g, group in enumerate(groups) for each in self._drafted(g, group)]
        logits = _padded(row for each in drafted for row in each.rows)
        batch = ServedBatch(
            logits.numpy(),
            tuple(each.request for each in drafted),
            0,
            drafts=tuple((each.token_id,) for each in drafted),
            served=self._model.config,
        )
        masked = self._player.drawn_from(logits, batch)
        for i, each in enumerate(drafted):
            about = replace(batch, index=2 * i, draft_logits=each.draft_row)
            verified = self._player.verify_filtered(masked, about, each.seeds, each.positions)
            for place, tokens, n_accepted in zip(
                each.places,
                verified.token_ids.tolist(),
                verified.n_accepted.tolist(),
                strict=True,
            ):
                run = zip(tokens[: n_accepted + 1], each.rows, strict=False)
                emitted[each.group][place] = [Emitted(token, row) for token, row in run]
                self.n_drafts += 1
                self.n_accepted += n_accepted
        return emitted

    def _drafted(self, number: int, group: Group) -> Iterator[Drafted]:
        """The members of a group by the draft that each of them draws."""
        request = group.members[0].request
        seeds, positions = _labels(group.members)
        draft_row = self._model.draft_row(request.token_ids)[None]
        drafts = kernels.gumbel_draw_torch(
            torch.from_numpy(draft_row),
            seeds,
            positions,
            torch.zeros_like(seeds),
            domain=kernels.DRAFT_DOMAIN,
        )
        for draft in np.unique(drafts.numpy()).tolist():
            places = (drafts == draft).nonzero()[:, 0]
            after = self._passes.draw_row((*request.token_ids, draft))
            yield Drafted(
                group=number,
                places=places.tolist(),
                request=request,
                token_id=draft,
                rows=(group.row, after),
                draft_row=draft_row,
                seeds=seeds[places],
                positions=positions[places],
            )

    def _batch(
        self,
        logits: torch.Tensor,
        generations: Sequence[Generation],
        index: int,
        before: Sequence[Generation],
    ) -> tuple[torch.Tensor, ServedBatch]:
        """The batch about row ``index``, with its slot's last holder and the order of last step."""
        requests = tuple(own.request for own in generations)
        left = generations[index].predecessor
        places = {id(own): place for place, own in enumerate(before)}
        stayed = [i for i, own in enumerate(generations) if id(own) in places]
        order = tuple(sorted(stayed, key=lambda i: places[id(generations[i])]))
        past = (*([(len(requests),)] if left else []), *([order] if order else []))
        return logits, ServedBatch(
            logits.numpy(),
            requests,
            index,
            (left,) if left else (),
            past,
            served=self._model.config,
        )


def _padded(rows: Iterable[Logits]) -> torch.Tensor:
    """``[n_rows, vocab_size]``, cut from a wider buffer."""
    table = np.stack(list(rows))
    buffer = np.full((len(table), table.shape[1] + PAD), PADDING, np.float32)
    buffer[:, : table.shape[1]] = table
    return torch.from_numpy(buffer)[:, : table.shape[1]]


def _labels(members: Sequence[Generation]) -> tuple[torch.Tensor, torch.Tensor]:
    """Seeds and positions, int64 ``[n]``; the members stand at one position."""
    seeds = torch.tensor([own.seed for own in members], dtype=torch.int64)
    return seeds, torch.full_like(seeds, members[0].request.position)
