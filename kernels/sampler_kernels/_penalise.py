"""What the penalties do to a logit of which it is known how often its token was seen."""

from dataclasses import dataclass, replace

import torch

from sampler_kernels._stage_arguments import check_settings
from sampler_kernels._triton import jit, tl


@dataclass(frozen=True, eq=False)
class Penalties:
    """The penalties of each slot, and the arithmetic that all share.

    Attributes:
        repetition: ``[n_slots]`` fp32, 1 is off.
        frequency: ``[n_slots]`` fp32, 0 is off.
        presence: ``[n_slots]`` fp32, 0 is off.
        reciprocal: Multiply by fp32(1 / repetition) where the definition divides.
        by_sign: Divide logits above 0 and multiply the others; else divide all.
    """

    repetition: torch.Tensor
    frequency: torch.Tensor
    presence: torch.Tensor
    reciprocal: bool
    by_sign: bool

    @property
    def active(self) -> torch.Tensor:
        """Which slots have a penalty that changes something, ``[n_slots]`` bool."""
        return (self.repetition != 1) | (self.frequency != 0) | (self.presence != 0)

    def checked(self, n_slots: int, device: torch.device) -> "Penalties":
        """With contiguous vectors.

        Raises:
            TypeError, ValueError: shapes, dtypes or devices do not fit together.
        """

        def checked(name: str) -> torch.Tensor:
            return check_settings(name, getattr(self, name), n_slots, torch.float32, device)

        return replace(
            self,
            repetition=checked("repetition"),
            frequency=checked("frequency"),
            presence=checked("presence"),
        )


@jit
def penalise(
    x: tl.tensor,
    repeated: tl.tensor,
    count: tl.tensor,
    repetition: tl.tensor,
    frequency: tl.tensor,
    presence: tl.tensor,
    RECIPROCAL: tl.constexpr,
    BY_SIGN: tl.constexpr,
) -> tl.tensor:
    """Logits after all three: repetition where ``repeated``, the others where ``count`` > 0."""
    if RECIPROCAL:
        divided = x * tl.div_rn(1.0, repetition)
    else:
        divided = tl.div_rn(x, repetition)
    if BY_SIGN:
        divided = tl.where(x > 0, divided, x * repetition)
    y = tl.where(repeated, divided, x)
    penalised = (y - frequency * count.to(tl.float32)) - presence
    return tl.where(count > 0, penalised, y)


def penalise_torch(
    x: torch.Tensor,
    repeated: torch.Tensor,
    count: torch.Tensor,
    penalties: Penalties,
    slots: torch.Tensor,
) -> torch.Tensor:
    """Twin of ``penalise`` for rows x ``[n, vocab_size]`` of ``slots`` ``[n]``."""
    repetition = penalties.repetition[slots][:, None]
    frequency = penalties.frequency[slots][:, None]
    presence = penalties.presence[slots][:, None]
    if penalties.reciprocal:
        divided = x * (torch.ones_like(repetition) / repetition)
    else:
        divided = x / repetition
    if penalties.by_sign:
        divided = torch.where(x > 0, divided, x * repetition)
    y = torch.where(repeated, divided, x)
    return torch.where(count > 0, (y - frequency * count.float()) - presence, y)
