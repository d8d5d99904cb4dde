"""Text to token ids and back."""

import numpy as np

from sampler_audit.demo.tokenizer import Tokenizer
from sampler_scenarios.real_rows import REAL_ROWS, prompt_of

TOKENIZER = Tokenizer(4096)


def test_every_id_has_a_text_of_its_own() -> None:
    """Ids beyond the vocabulary too, which a planted defect draws."""
    texts = {TOKENIZER.text(token_id) for token_id in range(4100)}
    assert len(texts) == 4100


def test_ids_read_back_from_their_text() -> None:
    """Any sequence, whatever stands beside whatever; seed 1."""
    token_ids = tuple(np.random.default_rng(1).integers(0, 4096, 500).tolist())
    assert TOKENIZER.encode(TOKENIZER.decode(token_ids)) == token_ids
    assert Tokenizer(300).encode(Tokenizer(300).decode((0, 299))) == (0, 299)


def test_other_words_have_ids_too() -> None:
    """A word a token, the same at every call, all within the vocabulary."""
    token_ids = TOKENIZER.encode("The weather today is")
    assert token_ids == Tokenizer(4096).encode(" The  weather\ntoday is ")
    assert len(token_ids) == 4
    assert all(0 <= token_id < 4096 for token_id in token_ids)


def test_a_word_of_a_larger_vocabulary_is_hashed() -> None:
    """Its spelling says 4095, which a vocabulary of 4000 tokens has not."""
    (token_id,) = Tokenizer(4000).encode(TOKENIZER.text(4095))
    assert token_id < 4000


def test_the_real_prompts_stay_apart() -> None:
    """Thirty contexts, one for each row."""
    assert len({TOKENIZER.encode(prompt_of(slug)) for slug in REAL_ROWS}) == len(REAL_ROWS) == 30
