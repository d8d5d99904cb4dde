"""Entries B35 to B46: random numbers and seeds."""

from sampler_scenarios.corpus.entry import Entry

_ENDS = "dense-normal@512/temperature=0.6,top_k=20/batch=mixed-8"
"""A cell of the pattern in which seeds and the end values of the noise are probed."""

NOISE_ENTRIES: tuple[Entry, ...] = (
    Entry(
        id="B35",
        title="a uniform that rounds to 1 wins the draw",
        sources=(
            "sgl-project/sglang#25106",
            "sgl-project/sglang#25133",
            "sgl-project/sglang#33423",
        ),
        right="the largest Gumbel is finite",
        cells=(_ENDS,),
        defects=("uniform-reaches-one",),
    ),
    Entry(
        id="B36",
        title="+inf of the noise meets the -inf of a masked token",
        sources=("vllm-project/vllm#43249",),
        right="id 0, the only one that is not masked",
        cells=("finite-1-front@4096/neutral/batch=mixed-8",),
        kept=(0,),
        probs=(1.0,),
        defects=("uniform-reaches-one",),
    ),
    Entry(
        id="B37",
        title="the noise has a floor that cuts off the lower tail",
        sources=(
            "vllm-project/vllm#43150",
            "vllm-project/vllm#45996",
            "vllm-project/vllm#47524",
            "vllm-project/vllm#51367",
        ),
        right="5.40e-4 of the mass on the tail",
        cells=("b37@4096/neutral/batch=mixed-8",),
        defects=("noise-24-bit",),
    ),
    Entry(
        id="B39",
        title="of the seeds of a batch only the first is used",
        sources=(
            "flashinfer-ai/flashinfer#4861",
            "flashinfer-ai/flashinfer#2345",
            "NVIDIA/TensorRT-LLM#1742",
        ),
        right="a seed gives the same id in any row, other seeds other ids",
        cells=("constant@1000/neutral/batch=mixed-8",),
        defects=("first-row-seed",),
    ),
    Entry(
        id="B41",
        title="n > 1 with a seed gives n equal completions",
        sources=("vllm-project/vllm#11898", "vllm-project/vllm#14280"),
        right="eight different seeds",
        visible="server",
        reason="an engine's front end makes n requests of one; its sampler sees one at a time",
    ),
    Entry(
        id="B42",
        title="a seed is ignored beside a request that has none",
        sources=("vllm-project/vllm#51226",),
        right="the seeded request's tokens do not depend on its mates",
        cells=("p8@8/neutral/batch=mixed-8",),
        defects=("seed-lost-in-mixed-batch",),
    ),
    Entry(
        id="B43",
        title="every step draws the same uniform",
        sources=("NVIDIA/TensorRT-Edge-LLM#211",),
        right="the next id equals the last one with probability .25",
        cells=("constant@4/neutral/batch=mixed-8",),
        defects=("position-ignored",),
    ),
    Entry(
        id="B44",
        title="unseeded requests all get the same fixed seed",
        sources=("Blaizzy/mlx-vlm#1818", "areal-project/AReaL#1524"),
        right="twenty requests do not agree on one of sixteen ids",
        cells=("constant@16/neutral/batch=mixed-8",),
        defects=("fixed-seed",),
    ),
    Entry(
        id="B45",
        title="multinomial draws a token of weight zero at an end of its range",
        sources=("pytorch/pytorch#48841", "pytorch/pytorch#4858", "pytorch/pytorch#13867"),
        right="id 100 of 1000, always",
        visible="nowhere",
        reason="once in 2^24 draws, of a generator that takes no label: only injected end values"
        " show it, and those need noise whose labels are known (B36 is that case)",
    ),
    Entry(
        id="B46",
        title="ranks of a tensor-parallel group draw apart",
        sources=(
            "openai/gpt-oss#270",
            "sgl-project/sglang#38565",
            "flashinfer-ai/flashinfer#4831",
        ),
        right="bitwise equal answers to equal calls",
        visible="server",
        reason="needs several GPUs; in process every kept set in mixed-8 is asked for twice",
    ),
)
"""Noise and seeds, in the order of the corpus."""
