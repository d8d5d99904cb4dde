"""The draw of rows without drafts, on one of two paths that have the same law and tokens."""

from dataclasses import dataclass
from typing import Literal, cast

import numpy as np
import torch

import sampler_kernels as kernels
from sampler_audit.sampler.filter_plan import ONE_CALL
from sampler_audit.sampler.filters import Filters
from sampler_audit.sampler.layout import Layout
from sampler_audit.sampler.seeds import seed_of
from sampler_audit.sampler.stages._stage import Surroundings
from sampler_scenarios.requests import Request

DrawPath = Literal["fused", "masked"]
"""``fused`` decides and draws at once; ``masked`` writes masked logits and draws from them."""

VERIFY_NOISE: kernels.Noise = "philox"
"""The noise with which ``verify_drafts`` draws."""

FUSED_OBSTACLES = {
    "masked": "the masked path was asked for",
    "several calls": "the conventions take more than one call to filter",
    "unfiltered": "no row is filtered",
    "processed log-probs": "processed log-probs list masked logits, which the fused path has not",
    "drafts": "drafts are verified on masked logits, which the fused path has not",
}
"""What keeps a step off the fused path, by what is so in it; the first is reported."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """What each request may emit, -1 where all of a row is masked, and what could be drawn.

    ``mask`` is bool ``[n_rows, vocab_size]`` where it was asked for.
    """

    token_ids: tuple[tuple[int, ...], ...]
    mask: torch.Tensor | None


class Draw:
    """Draws from the logits of a step with the noise of each row's seed and position."""

    def __init__(
        self, around: Surroundings, filters: Filters, path: DrawPath, rng: np.random.Generator
    ) -> None:
        self._rng = rng
        self._launches = around.launches
        self._filters = filters
        self._masked_asked = path == "masked"
        # Conventions without a noise of their own are drawn from with ours.
        self._noise = cast(kernels.Noise, around.conventions.noise or "philox")
        self._seeds = around.staged("seeds", torch.int64, 0)

    def add(self, slot: int, request: Request) -> None:
        """Rewrite all that the slot holds; a request without a seed gets one."""
        self._seeds.write(slot, seed_of(request.params, self._rng))

    def seeds(self, layout: Layout) -> torch.Tensor:
        """The seed of every row, ``[n_rows]`` int64."""
        return self._seeds.current()[layout.row_slots_on_device]

    def fused_obstacle(self, layout: Layout, *, processed_log_probs: bool) -> str | None:
        """Why the step is not drawn on the fused path, or None where it is."""
        is_so = {
            "masked": self._masked_asked,
            "several calls": self._filters.plan != ONE_CALL,
            "unfiltered": not self._filters.filters_something(layout),
            "processed log-probs": processed_log_probs,
            "drafts": layout.max_drafts > 0,
        }
        return next((why for what, why in FUSED_OBSTACLES.items() if is_so[what]), None)

    def fused(self, logits: torch.Tensor, layout: Layout, *, want_mask: bool) -> Drawn:
        """Decide and draw from divided logits that nothing has filtered."""
        draw = self._launches.of(kernels.filter_and_draw, kernels.filter_and_draw_torch)
        values = self._filters.with_greedy(layout)
        drawn = draw(
            logits,
            self.seeds(layout),
            layout.positions_on_device,
            top_k=values.get("top_k"),
            top_p=values.get("top_p"),
            min_p=values.get("min_p"),
            min_p_arithmetic=self._filters.min_p_arithmetic,
            noise=self._noise,
            return_mask=want_mask,
        )
        return Drawn(_one_each(drawn.token_ids), drawn.mask)

    def masked(self, logits: torch.Tensor, layout: Layout, *, want_mask: bool) -> Drawn:
        """Draw from masked logits."""
        token_ids = self._race(logits, self.seeds(layout), layout.positions_on_device)
        return Drawn(_one_each(token_ids), kept_mask(logits) if want_mask else None)

    def without_drafts(self, logits: torch.Tensor, layout: Layout) -> dict[int, tuple[int, ...]]:
        """The tokens of the requests that have no drafts, by their place among the requests.

        Empty where verification draws with the same noise and so gives the same tokens.
        """
        requests = [i for i, drafts in enumerate(layout.drafts) if not drafts]
        if self._noise == VERIFY_NOISE or not requests:
            return {}
        rows = layout.on_device("rows without drafts", layout.starts[requests])
        seeds, positions = self.seeds(layout)[rows], layout.positions_on_device[rows]
        token_ids = self._race(logits[rows], seeds, positions)
        return dict(zip(requests, _one_each(token_ids), strict=True))

    def _race(
        self, logits: torch.Tensor, seeds: torch.Tensor, positions: torch.Tensor
    ) -> torch.Tensor:
        draw = self._launches.of(kernels.gumbel_draw, kernels.gumbel_draw_torch)
        return draw(logits, seeds, positions, noise=self._noise)


def _one_each(token_ids: torch.Tensor) -> tuple[tuple[int, ...], ...]:
    return tuple((token_id,) for token_id in token_ids.tolist())


def kept_mask(logits: torch.Tensor) -> torch.Tensor:
    """The tokens that may be drawn: neither -inf nor NaN."""
    return logits > -torch.inf
