"""Grammar: only the tokens that it allows next. The mask comes with the step, not the request."""

import numpy as np
from numpy.typing import NDArray

import sampler_kernels as kernels
from sampler_audit.sampler.layout import Layout
from sampler_audit.sampler.logits import StepLogits
from sampler_audit.sampler.stages._stage import Grammar, Stage, StepInput
from sampler_scenarios.requests import Request

WORD_BITS = 32


class GrammarStage(Stage):
    """Tokens that the grammar of a row forbids become -inf."""

    def _write(self, slot: int, request: Request) -> bool:  # noqa: ARG002 - nothing by slot
        return False

    def acts(self, step: StepInput) -> bool:
        """Whether some row has a grammar."""
        return step.grammar is not None and any(mask is not None for mask in step.grammar)

    def apply(self, logits: StepLogits, step: StepInput) -> None:
        """See ``Stage``."""
        assert step.grammar is not None
        rows = [row for row, mask in enumerate(step.grammar) if mask is not None]
        masks = np.stack([mask for mask in step.grammar if mask is not None])
        self._launches.of(kernels.apply_bitmask, kernels.apply_bitmask_torch)(
            logits.writable(),
            step.layout.on_device("grammar", pack_bits(masks)),
            step.layout.on_device("grammar rows", np.array(rows, np.int64)),
        )


def check_grammar(grammar: Grammar, layout: Layout, vocab_size: int) -> None:
    """Nothing, where a grammar fits the rows of a step.

    Raises:
        ValueError: another number of rows or another vocabulary, or a request of which only some
            rows have a grammar.
    """
    if grammar is None:
        return
    if len(grammar) != layout.n_rows:
        raise ValueError(
            f"grammar must have a mask or None for each of {layout.n_rows} rows, got {len(grammar)}"
        )
    for mask in grammar:
        if mask is not None and mask.shape != (vocab_size,):
            raise ValueError(
                f"the masks of grammar must be bool [{vocab_size}], got {list(mask.shape)}"
            )
    masked = np.array([mask is not None for mask in grammar])
    if (masked != masked[layout.starts][layout.row_request]).any():
        raise ValueError("grammar must have masks for all rows of a request or none, got some")


def pack_bits(masks: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Bool ``[n, vocab_size]`` as int32 ``[n, ceil(vocab_size / 32)]``: token t is bit t % 32."""
    n_words = -(-masks.shape[1] // WORD_BITS)
    padded = np.zeros((len(masks), n_words * WORD_BITS), np.bool_)
    padded[:, : masks.shape[1]] = masks
    words: NDArray[np.int32] = np.packbits(padded, axis=1, bitorder="little").view("<i4")
    return words
