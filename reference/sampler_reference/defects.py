"""Planted defects: each a wrong version of one stage, with the law that it yields where it has one.

Defects of noise, seeds and batches leave the law of a single draw alone, or break it in ways that
only a sampler can show; a sampler plants those by name.
"""

from dataclasses import replace

import numpy as np

from sampler_reference.corpus_defects import CORPUS_DEFECTS
from sampler_reference.defect import Defect
from sampler_reference.defect_laws import (
    min_p_absolute,
    min_p_from_first_id,
    moved,
    resized_top_k,
    swapped,
    temperature_twice,
    ties_by_chance,
    with_conventions,
    with_kept,
    with_params,
)
from sampler_reference.stage_defects import STAGE_DEFECTS

__all__ = ["DEFECTS", "DEFECT_LIST_VERSION", "POOLED", "STAGE_DEFECTS", "Defect"]

DEFECT_LIST_VERSION = 1
"""Version of the list of pooled defects: a run's e-value averages over exactly these."""


_ALL = (
    Defect(
        name="weakest-dropped",
        summary="the weakest token that should survive is masked",
        stage="kept",
        source="vllm 0.32.0 Triton top-k/top-p on rows with few finite logits",
        law=with_kept(lambda ids: ids[: max(1, ids.size - 1)]),
        pooled=True,
    ),
    Defect(
        name="runner-up-dropped",
        summary="the second most likely token is masked",
        stage="kept",
        source="vllm-project/vllm-ascend#13847",
        law=with_kept(lambda ids: np.delete(ids, 1) if ids.size > 1 else ids),
        pooled=True,
    ),
    Defect(
        name="tail-half-dropped",
        summary="the weaker half of the kept tokens is masked: a hidden cap on candidates",
        stage="kept",
        source="tenstorrent/vllm#414",
        law=with_kept(lambda ids: ids[: (ids.size + 1) // 2]),
        pooled=True,
    ),
    Defect(
        name="top-k-minus-one",
        summary="top_k keeps one token too few",
        stage="kept",
        source="kingoflolz/mesh-transformer-jax#164",
        needs=frozenset({"top_k"}),
        law=resized_top_k(-1),
        pooled=True,
    ),
    Defect(
        name="top-k-plus-one",
        summary="top_k keeps one token too many",
        stage="kept",
        source="flashinfer-ai/flashinfer#3774",
        needs=frozenset({"top_k"}),
        law=resized_top_k(+1),
        pooled=True,
    ),
    Defect(
        name="top-k-ignored",
        summary="top_k keeps the whole vocabulary",
        stage="kept",
        source="FlashML-org/FreeToken#345",
        needs=frozenset({"top_k"}),
        law=with_params(lambda params: replace(params, top_k=-1)),
    ),
    Defect(
        name="crossing-token-dropped",
        summary="the token at which the mass reaches top_p is masked",
        stage="kept",
        source="turboderp-org/exllamav3, where it is the rule; a fault where it is not declared",
        needs=frozenset({"top_p"}),
        law=with_conventions(lambda conventions: replace(conventions, crossing_kept=False)),
        pooled=True,
    ),
    Defect(
        name="order-swapped",
        summary="top_p acts before top_k instead of after it, or the reverse",
        stage="kept",
        source="vllm-project/vllm#1885",
        needs=frozenset({"top_k", "top_p"}),
        law=with_conventions(swapped),
        pooled=True,
    ),
    Defect(
        name="joint-for-sequential",
        summary="top_k and top_p judge the same row instead of one after the other, or the reverse",
        stage="kept",
        source="sgl-project/sglang#36173",
        needs=frozenset({"top_k", "top_p"}),
        law=with_conventions(lambda conventions: replace(conventions, joint=not conventions.joint)),
        pooled=True,
    ),
    Defect(
        name="temperature-twice",
        summary="logits are divided by the temperature twice",
        stage="scale",
        source="RL-Align/RL-Kernel#81",
        needs=frozenset({"temperature"}),
        law=temperature_twice,
        pooled=True,
        found_by="histogram",
    ),
    Defect(
        name="temperature-ignored",
        summary="temperature has no effect",
        stage="scale",
        source="vllm-project/vllm#26859",
        needs=frozenset({"temperature"}),
        law=with_params(lambda params: replace(params, temperature=1.0)),
        pooled=True,
        found_by="histogram",
    ),
    Defect(
        name="temperature-last",
        summary="the filters judge the row before the temperature divides it",
        stage="scale",
        source="huggingface/transformers#8686",
        needs=frozenset({"temperature"}),
        law=with_conventions(moved("temperature", 3)),
        pooled=True,
    ),
    Defect(
        name="min-p-absolute",
        summary="min_p is compared with the probability, not with its ratio to the largest",
        stage="kept",
        source="state-spaces/mamba#927",
        needs=frozenset({"min_p"}),
        law=min_p_absolute,
        pooled=True,
    ),
    Defect(
        name="min-p-before-temperature",
        summary="min_p judges the row before the temperature divides it",
        stage="scale",
        source="ggml-org/llama.cpp#7498",
        needs=frozenset({"min_p", "temperature"}),
        law=with_conventions(moved("min_p", 0)),
    ),
    Defect(
        name="min-p-last",
        summary="min_p acts after top_p, which sees the tokens that min_p removes",
        stage="kept",
        source="sgl-project/sglang#15648",
        needs=frozenset({"min_p", "top_p"}),
        law=with_conventions(moved("min_p", 3)),
        pooled=True,
    ),
    Defect(
        name="ties-by-chance",
        summary="which tokens of the tied group at the edge survive changes from call to call",
        stage="kept",
        source="vllm-project/vllm#54651",
        law=ties_by_chance,
    ),
    Defect(
        name="ties-kept",
        summary="all tokens tied with the last kept one survive",
        stage="kept",
        source="vllm-project/vllm#50979",
        law=with_conventions(
            lambda conventions: replace(conventions, ties_at_k="keep_all", ties_at_p="keep_all")
        ),
    ),
    Defect(
        name="top-p-ignored",
        summary="top_p has no effect",
        stage="kept",
        source="tenstorrent/vllm#317",
        needs=frozenset({"top_p"}),
        law=with_params(lambda params: replace(params, top_p=1.0)),
        found_by="support",
    ),
    Defect(
        name="min-p-ignored",
        summary="min_p has no effect",
        stage="kept",
        source="vllm-project/vllm#38467",
        needs=frozenset({"min_p"}),
        law=with_params(lambda params: replace(params, min_p=0.0)),
        found_by="support",
    ),
    Defect(
        name="min-p-from-first-id",
        summary="min_p is measured from the token with id 0 instead of the likeliest",
        stage="kept",
        source="state-spaces/mamba#927",
        needs=frozenset({"min_p"}),
        law=min_p_from_first_id,
    ),
    Defect(
        name="stride-ignored",
        summary="rows are read as if their stride were the vocabulary",
        stage="batch",
        source="vllm-project/vllm#42684",
    ),
    Defect(
        name="outside-vocabulary",
        summary="now and then a token is drawn that does not exist",
        stage="noise",
        source="NVIDIA/TensorRT-LLM#1590",
        found_by="support",
    ),
    Defect(
        name="neighbour-k",
        summary="a row uses the top_k of the next row of its batch",
        stage="batch",
        source="flashinfer-ai/flashinfer#5339",
    ),
    Defect(
        name="batch-size-path",
        summary="batches of 8 rows and more take a path that keeps all tied tokens",
        stage="batch",
        source="vllm-project/vllm#50979",
    ),
    Defect(
        name="first-row-seed",
        summary="the seed of the first row of the batch is used for all",
        stage="seeds",
        source="flashinfer-ai/flashinfer#4861",
        found_by="seeds",
    ),
    Defect(
        name="fixed-seed",
        summary="every request draws with the same seed",
        stage="seeds",
        source="Blaizzy/mlx-vlm#1818",
        found_by="independence",
    ),
    Defect(
        name="position-ignored",
        summary="every position of a request draws with the same noise",
        stage="seeds",
        source="NVIDIA/TensorRT-Edge-LLM#211",
        found_by="independence",
    ),
    Defect(
        name="noise-by-rank",
        summary="noise is keyed by the rank of a token in the sorted row instead of its id",
        stage="noise",
        source="sgl-project/sglang#35697",
        found_by="noise",
    ),
    Defect(
        name="noise-24-bit",
        summary="the uniform has 24 bits, so that rare tokens are never drawn",
        stage="noise",
        source="vllm-project/vllm#43150",
        found_by="noise",
    ),
    Defect(
        name="uniform-reaches-one",
        summary="a uniform that rounds to its end value wins the draw, or makes it NaN",
        stage="noise",
        source="sgl-project/sglang#25106",
        found_by="noise",
    ),
)

DEFECTS: dict[str, Defect] = {
    **{defect.name: defect for defect in _ALL},
    **STAGE_DEFECTS,
    **CORPUS_DEFECTS,
}
"""Every planted defect by name."""

POOLED: tuple[str, ...] = tuple(defect.name for defect in _ALL if defect.pooled)
"""The alternatives of a run's e-value; changing them changes DEFECT_LIST_VERSION."""
