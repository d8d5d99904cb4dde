"""The public fault corpus: what was reported of samplers, with the smallest inputs, as data."""

from sampler_scenarios.corpus.entry import Entry
from sampler_scenarios.corpus.filters import FILTER_ENTRIES
from sampler_scenarios.corpus.log_probs import LOG_PROBS_ENTRIES
from sampler_scenarios.corpus.noise import NOISE_ENTRIES
from sampler_scenarios.corpus.speculation import SPECULATION_ENTRIES
from sampler_scenarios.corpus.stages import STAGE_ENTRIES

__all__ = ["CORPUS", "Entry"]

CORPUS: dict[str, Entry] = {
    entry.id: entry
    for entry in (
        *FILTER_ENTRIES,
        *NOISE_ENTRIES,
        *SPECULATION_ENTRIES,
        *STAGE_ENTRIES,
        *LOG_PROBS_ENTRIES,
    )
}
"""Every entry by id."""
