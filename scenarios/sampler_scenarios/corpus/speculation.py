"""Entries B47 to B56: speculative decoding."""

from sampler_scenarios.corpus.entry import Entry, drafted

SPECULATION_ENTRIES: tuple[Entry, ...] = (
    Entry(
        id="B47",
        title="draft and redraw share one noise",
        sources=("vllm-project/vllm#54282", "vllm-project/vllm#47386"),
        right=".200 .450 .350",
        cells=("p8@8/neutral/batch=drawn-draft-1",),
        own=drafted((0.20, 0.45, 0.35), (0.70, 0.28, 0.02)),
        kept=(0, 1, 2),
        probs=(0.200, 0.450, 0.350),
        defects=("draft-shares-noise",),
    ),
    Entry(
        id="B49",
        title="a lane beyond the vocabulary wins where the last tile is empty",
        sources=(
            "vllm-project/vllm#44744",
            "vllm-project/vllm#45060",
            "vllm-project/vllm#50843",
            "vllm-project/vllm#53029",
        ),
        right="an id below 8192",
        cells=("b49@10000/top_k=50/batch=alone",),
        defects=("outside-vocabulary",),
    ),
    Entry(
        id="B50",
        title="row times vocabulary overflows 32 bits",
        sources=(
            "vllm-project/vllm#46560",
            "vllm-project/vllm#48055",
            "flashinfer-ai/flashinfer#2937",
        ),
        right="the last row equals the same row alone",
        visible="nowhere",
        reason="needs a batch of 2^31 logits, 8 GB in float32: a test of kernels on a large GPU",
    ),
    Entry(
        id="B51",
        title="min_p and logit_bias act on the bonus token only",
        sources=(
            "vllm-project/vllm#42744",
            "vllm-project/vllm#42802",
            "vllm-project/vllm#38202",
        ),
        right="four ids at every draft",
        cells=("p8@8/min_p=0.2/batch=draft-1", "p8@8/min_p=0.2/batch=draft-bonus"),
        kept=(0, 1, 2, 3),
        defects=("filter-skipped-at-drafts", "bonus-unfiltered"),
    ),
    Entry(
        id="B53",
        title="a greedy row beside random ones returns a position in place of an id",
        sources=("vllm-project/vllm-ascend#16396", "vllm-project/vllm-ascend#16430"),
        right="id 2",
        cells=("b53@6/temperature=0.0/batch=draft-1",),
        kept=(2,),
        probs=(1.0,),
        defects=("greedy-as-position",),
    ),
    Entry(
        id="B54",
        title="acceptance divides by the target's best probability instead of the draft's",
        sources=("1bit-MONSTER/1bit-MONSTER#637", "deepseek-ai/DeepSpec#31"),
        right=".5 .3 .2",
        cells=("p8@8/neutral/batch=drawn-draft-1",),
        own=drafted((0.5, 0.3, 0.2), (0.1, 0.1, 0.8)),
        kept=(0, 1, 2),
        probs=(0.5, 0.3, 0.2),
        defects=("acceptance-by-best-token",),
    ),
    Entry(
        id="B55",
        title="a greedy draft counts as certain: accepted with p(x), else drawn without x",
        sources=("vllm-project/vllm#16899", "vllm-project/vllm#40149", "vllm-project/vllm#40651"),
        right="The law is exact",
        cells=("p8@8/neutral/batch=draft-1", "p8@8/top_k=3/batch=draft-2"),
        kept=tuple(range(8)),
        probs=(0.40, 0.22, 0.14, 0.09, 0.06, 0.04, 0.03, 0.02),
        control=True,
    ),
    Entry(
        id="B56",
        title="the grammar does not reach the rows after a draft",
        sources=(
            "vllm-project/vllm#54442",
            "vllm-project/vllm#44292",
            "vllm-project/vllm#44297",
            "vllm-project/vllm#44006",
        ),
        right="only allowed ids on every row",
        cells=(
            "b56@32/neutral/batch=draft-bonus/stages=grammar",
            "dense-normal@512/top_k=20/batch=mixed-8/stages=grammar",
        ),
        defects=("grammar-skipped-at-drafts", "grammar-row-shifted"),
    ),
)
"""Speculation, in the order of the corpus."""
