"""bad_words: the last token of a word may not follow the others."""

from dataclasses import replace
from itertools import accumulate, chain

import torch

import sampler_kernels as kernels
from sampler_audit.sampler.layout import PADDING
from sampler_audit.sampler.logits import StepLogits
from sampler_audit.sampler.stages._stage import Stage, StepInput, Surroundings
from sampler_scenarios.requests import Request


class BadWordsStage(Stage):
    """The last token of every word whose others have just been emitted becomes -inf.

    Whether those may stand in the prompt, or only in the output, is the conventions' choice.
    """

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around)
        limits = around.limits
        self._output_only = around.conventions.bad_words_scope == "output"
        self._words = around.staged("bad_words", torch.int32, PADDING, limits.max_bad_words_tokens)
        self._offsets = around.staged("bad_words offsets", torch.int32, 0, limits.max_bad_words + 1)
        self._counts = around.staged("bad_words counts", torch.int32, 0)

    def _write(self, slot: int, request: Request) -> bool:
        words = request.params.bad_words
        self._words.rewrite(slot, list(chain.from_iterable(words)))
        self._offsets.rewrite(slot, list(accumulate(map(len, words), initial=0)))
        self._counts.write(slot, len(words))
        return bool(words)

    def apply(self, logits: StepLogits, step: StepInput) -> None:
        """See ``Stage``."""
        history = step.history
        if not self._output_only:
            history = replace(history, prompt_len=torch.zeros_like(history.prompt_len))
        self._launches.of(kernels.apply_bad_words, kernels.apply_bad_words_torch)(
            logits.writable(),
            step.slots,
            history,
            self._words.current(),
            self._offsets.current(),
            self._counts.current(),
        )
