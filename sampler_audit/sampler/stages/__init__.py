"""The stages before the filters, one file each; which of them run, and when, is data."""

from collections.abc import Sequence

from sampler_audit.sampler.stages._stage import Grammar, Stage, StepInput, Surroundings
from sampler_audit.sampler.stages.allowed_token_ids import AllowedTokenIdsStage
from sampler_audit.sampler.stages.bad_words import BadWordsStage
from sampler_audit.sampler.stages.grammar import GrammarStage, check_grammar
from sampler_audit.sampler.stages.logit_bias import LogitBiasStage
from sampler_audit.sampler.stages.min_tokens import MinTokensStage
from sampler_audit.sampler.stages.penalties import PenaltiesStage
from sampler_audit.sampler.stages.processor import ProcessorStage
from sampler_audit.sampler.stages.thinking_budget import ThinkingBudgetStage
from sampler_audit.sampler.stages.token_counts import NEUTRAL, TokenCounts

__all__ = [
    "Grammar",
    "GrammarStage",
    "ProcessorStage",
    "Stage",
    "StepInput",
    "Surroundings",
    "TokenCounts",
    "build_stages",
    "check_grammar",
]

_CLASSES: dict[str, type[Stage]] = {
    "grammar": GrammarStage,
    "allowed_token_ids": AllowedTokenIdsStage,
    "logit_bias": LogitBiasStage,
    "min_tokens": MinTokensStage,
    "bad_words": BadWordsStage,
    "thinking_budget": ThinkingBudgetStage,
}


def build_stages(
    around: Surroundings, processors: ProcessorStage, counts: TokenCounts
) -> list[Stage]:
    """The stages in the order of the conventions; neighbouring penalties are one stage.

    Raises:
        ValueError: custom processors where the conventions have no place for them.
    """
    if processors.n_processors and "processor" not in around.conventions.processing:
        raise ValueError(
            f"processors must be none with conventions without a place for them, got "
            f"{processors.n_processors} and {around.conventions.name}"
        )
    stages: list[Stage] = []
    for names in _together(around.conventions.processing):
        if names[0] in NEUTRAL:
            stages.append(PenaltiesStage(around, names, counts))
        elif names == ["processor"]:
            stages.append(processors)
        else:
            stages.append(_CLASSES[names[0]](around))
    return stages


def _together(processing: Sequence[str]) -> list[list[str]]:
    """The stages one by one, but penalties that follow one another as one call applies them."""
    order = list(NEUTRAL)
    groups: list[list[str]] = []
    for name in processing:
        last = groups[-1][-1] if groups else ""
        if name in order and last in order and order.index(last) < order.index(name):
            groups[-1].append(name)
        else:
            groups.append([name])
    return groups
