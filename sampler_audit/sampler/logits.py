"""The logits of one step on their way through the stages, copied once and only if one writes."""

import torch

from sampler_audit.sampler.launches import Launches


class StepLogits:
    """``tensor`` is the caller's own until a stage needs to write, then float32 of ours."""

    def __init__(self, logits: torch.Tensor, launches: Launches) -> None:
        self.tensor = logits
        self._launches = launches
        self._ours = False

    def writable(self) -> torch.Tensor:
        """The logits, float32 ``[n_rows, vocab_size]``, for writing in place."""
        if not self._ours:
            self._launches.count("copy logits")
            self.replace(self.tensor.to(torch.float32, copy=True))
        return self.tensor

    def share(self) -> torch.Tensor:
        """The logits as they are now, which later stages leave alone."""
        self._ours = False
        return self.tensor

    def replace(self, logits: torch.Tensor) -> None:
        """A new tensor, which nobody else holds, takes the place of the logits."""
        self.tensor = logits
        self._ours = True
