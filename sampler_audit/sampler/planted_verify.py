"""Planted defects of the verification of drawn drafts: who is accepted, or replaces a rejected one.

In float64 and one request at a time, with the noise that the right verification uses.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

import sampler_kernels as kernels
from sampler_reference.noise import ACCEPTANCE, DRAFT, RESIDUAL, race, uniforms
from sampler_reference.speculative import residual
from sampler_reference.speculative_defects import redraw_unnormalised

Float = NDArray[np.float64]


class Redraw(NamedTuple):
    """The law that a rejected draft is replaced from, unnormalised or not, and its noise.

    With ``accept_by_best`` the target's largest probability stands in place of the draft's.
    """

    renormalised: bool = True
    domain: int = RESIDUAL
    accept_by_best: bool = False


WRONG_REDRAWS: Mapping[str, Redraw] = {
    "draft-shares-noise": Redraw(domain=DRAFT),
    "residual-not-renormalised": Redraw(renormalised=False),
    "acceptance-by-best-token": Redraw(accept_by_best=True),
}
"""By the name of the defect."""


def verify_wrongly(
    name: str,
    rows: torch.Tensor,
    draft_logits: NDArray[np.float32],
    seeds: torch.Tensor,
    positions: torch.Tensor,
) -> kernels.Verified:
    """The verification of one drawn draft for each (seed, position).

    ``rows`` are masked, ``[2, vocab_size]``: the draft's and the bonus token's.
    """
    z = rows.cpu().numpy().astype(np.float64)
    z_draft = draft_logits[0].astype(np.float64)
    p, q = _softmax(z[0]), _softmax(z_draft)
    at = seeds.cpu().numpy(), positions.cpu().numpy()
    drafts = race(z_draft, *at, domain=DRAFT)
    u = uniforms(*at, np.array([0]), ACCEPTANCE)[:, 0]
    redraw = WRONG_REDRAWS[name]
    divisor = p.max() if redraw.accept_by_best else q[drafts]
    accepted = u * divisor < p[drafts]
    token_ids = np.full((drafts.size, 2), -1, np.int64)
    token_ids[accepted, 0] = drafts[accepted]
    bonus = race(z[1], at[0], at[1] + 1)
    token_ids[accepted, 1] = bonus[accepted]
    law = residual(p, q) if redraw.renormalised else redraw_unnormalised(p, q, 0)
    with np.errstate(divide="ignore"):
        replaced = race(np.log(law), *at, domain=redraw.domain)
    token_ids[~accepted, 0] = replaced[~accepted]
    return kernels.Verified(
        torch.from_numpy(token_ids).to(rows.device),
        torch.from_numpy(accepted.astype(np.int64)).to(rows.device),
    )


def _softmax(z: Float) -> Float:
    weights: Float = np.exp(z - z.max())
    probs: Float = weights / weights.sum()
    return probs
