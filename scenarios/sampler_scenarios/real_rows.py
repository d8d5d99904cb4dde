"""Thirty next-token rows of a real language model, as package data.

Source: SmolLM2-135M-Instruct (HuggingFaceTB, Apache License 2.0), run in bfloat16; the file holds
the bits of the raw logits after each prompt, uint16 ``[30, 49152]``, and beside it the prompts with
a few counts. Knows the data, not what a sampler should do with it.
"""

import json
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

REAL_VOCAB_SIZE = 49152

REAL_ROWS: tuple[str, ...] = (
    "real-the-weather-today-is",
    "real-the-capital-of-france-is",
    "real-def-fibonacci-n-if-n",
    "real-once-upon-a-time-there-was-a-small",
    "real-2-plus-2-is",
    "real-the-three-primary-colours-are-red",
    "real-she-opened-the-door-and-saw",
    "real-in-1969-astronauts-landed-on-the",
    "real-import-numpy-as",
    "real-roses-are-red-violets-are",
    "real-je-voudrais-un-verre-de",
    "real-the-quick-brown-fox-jumps-over-the-lazy",
    "real-to-be-or-not-to-be-that-is-the",
    "real-my-favourite-number-is",
    "real-water-boils-at",
    "real-the-opposite-of-hot-is",
    "real-http-status-code-404-means",
    "real-for-int-i-is-0-i-n-i",
    "real-a-b-c-d",
    "real-thank-you-very",
    "real-the-meeting-has-been-moved-from-monday-to",
    "real-he-scored",
    "real-you-should-never",
    "real-dear-sir-or",
    "real-the-recipe-calls-for-two-cups-of",
    "real-photosynthesis-is-the-process-by-which",
    "real-select-from-users-where",
    "real-the-stock-market",
    "real-according-to-the-report",
    "real-i-think-that",
)
"""A readable slug for each row, in the order of the data; ``@`` and a size make it a row's name."""


@dataclass(frozen=True)
class RealRowFacts:
    """What is recorded about a row beside its logits.

    Attributes:
        prompt: The text after which the model was asked for the next token.
        survivors_min_p_0_05: Tokens of at least 5 % of the most likely one's probability.
        tied_with_20th: Tokens whose logit equals the 20th largest, itself included.
    """

    prompt: str
    survivors_min_p_0_05: int
    tied_with_20th: int


@lru_cache(maxsize=1)
def _facts() -> tuple[RealRowFacts, ...]:
    text = (files("sampler_scenarios") / "data" / "smollm2_135m_rows.json").read_text("utf-8")
    return tuple(
        RealRowFacts(row["prompt"], row["survivors_min_p_0_05"], row["tied_with_20th"])
        for row in json.loads(text)
    )


@lru_cache(maxsize=1)
def _bits() -> NDArray[np.uint16]:
    """Shape ``[30, 49152]``."""
    with (
        (files("sampler_scenarios") / "data" / "smollm2_135m_rows.npz").open("rb") as file,
        np.load(file) as archive,
    ):
        bits: NDArray[np.uint16] = archive["logits_bf16_bits"]
    return bits


def facts_of(slug: str) -> RealRowFacts:
    """What is recorded about the row ``slug``, one of REAL_ROWS."""
    return _facts()[REAL_ROWS.index(slug)]


def prompt_of(slug: str) -> str:
    """The text after which the model gave the row ``slug``, one of REAL_ROWS."""
    return facts_of(slug).prompt


def real_logits(slug: str, vocab_size: int = REAL_VOCAB_SIZE) -> NDArray[np.float32]:
    """The ``vocab_size`` likeliest tokens' logits of a real row, in id order, [vocab_size].

    The values are the model's bfloat16 values, exactly. Where the cut falls among tied logits
    the lowest ids stay. A shortened row keeps the head and its ties; its law is that of the
    model's row with the remaining tokens masked.
    """
    bits = _bits()[REAL_ROWS.index(slug)].astype(np.uint32) << np.uint32(16)
    logits: NDArray[np.float32] = bits.view(np.float32)
    likeliest = np.argsort(-logits, kind="stable")[:vocab_size]
    return np.take(logits, np.sort(likeliest))
