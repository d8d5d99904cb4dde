"""Any endpoint that speaks OpenAI's older completions: as ``openai``, with five log-probs."""

from dataclasses import replace

from sampler_audit.servers._openai import COMPLETIONS
from sampler_audit.servers.openai import PROFILE as OPENAI

PROFILE = replace(
    OPENAI,
    name="openai_completions",
    title="an OpenAI-compatible server (completions)",
    wire=COMPLETIONS,
    logprob_cap=5,
)
