"""Entries B75 to B82: log-probabilities."""

from sampler_scenarios.corpus.entry import Entry

LOG_PROBS_ENTRIES: tuple[Entry, ...] = (
    Entry(
        id="B75",
        title="listed values are of another mode than declared",
        sources=(
            "ollama/ollama#16196",
            "vllm-project/vllm#9453",
            "vllm-project/vllm#42259",
            "huggingface/trl#4159",
        ),
        right="raw: -2.303 -1.609 -1.204 -.916, whatever temperature and filters say",
        cells=("p4@64/temperature=0.5,top_k=2/batch=staggered",),
        kept=(2, 3),
        probs=(0.36, 0.64),
        defects=("log-probs-after-temperature",),
    ),
    Entry(
        id="B76",
        title="prompt log-probs ignore the mode",
        sources=("vllm-project/vllm#47680", "vllm-project/vllm#35885"),
        right="12 where the mode is raw logits and the largest logit is 12",
        visible="server",
        reason="log-probs of a prompt come out of a model's forward pass, not out of a sampler",
    ),
    Entry(
        id="B77",
        title="prompt log-probs depend on the order of requests, or on a reused buffer",
        sources=("vllm-project/vllm#42019", "vllm-project/vllm#42245", "vllm-project/vllm#53520"),
        right="equal numbers in every order",
        visible="server",
        reason="log-probs of a prompt come out of a model's forward pass, not out of a sampler",
    ),
    Entry(
        id="B78",
        title="ranks are shifted, or the sampled token is listed twice",
        sources=("vllm-project/vllm#36746", "vllm-project/vllm#36660"),
        right="distinct ids, each with its rank",
        cells=("constant@64/neutral/batch=staggered",),
        defects=("rank-under-ties",),
    ),
    Entry(
        id="B80",
        title="the sampled token is listed as masked",
        sources=("sgl-project/sglang#4876", "InternLM/lmdeploy#1985"),
        right="a finite log-prob for every sampled id",
        cells=("p6@64/top_p=0.5/batch=staggered",),
        kept=(0, 1),
        probs=(0.645, 0.355),
        defects=("sampled-log-prob-lost",),
    ),
    Entry(
        id="B82",
        title="a mate's log-prob request overwrites the others' lists",
        sources=("vllm-project/vllm#51789", "vllm-project/vllm#43125", "vllm-project/vllm#29216"),
        right="each list as alone",
        cells=("dense-normal@512/temperature=0.6/batch=staggered",),
        defects=("log-probs-of-another-row",),
    ),
)
"""Log-probs, in the order of the corpus."""
