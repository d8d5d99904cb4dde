"""Tokenizer: text to token ids and back, with no vocabulary file.

Every id has a word of its own, spelt in syllables; every other word stands for the id that its hash
picks. Knows no model.
"""

from collections.abc import Iterable
from zlib import crc32

SYLLABLES = (
    *("ba", "de", "fi", "go", "hu", "ja", "ke", "li"),
    *("mo", "nu", "pa", "re", "si", "to", "vu", "za"),
)
"""Digits of base 16: two letters each, so that a word reads back in one way only."""

_DIGITS = {syllable: digit for digit, syllable in enumerate(SYLLABLES)}


class Tokenizer:
    """``encode(decode(token_ids)) == token_ids`` for every sequence of ids below ``vocab_size``."""

    def __init__(self, vocab_size: int) -> None:
        self._vocab_size = vocab_size
        self._width = len(f"{vocab_size - 1:x}")

    def encode(self, text: str) -> tuple[int, ...]:
        """A token id for each word; words are what white space separates."""
        return tuple(map(self._id_of, text.split()))

    def decode(self, token_ids: Iterable[int]) -> str:
        """The words of the ids, each with a space before it."""
        return "".join(map(self.text, token_ids))

    def text(self, token_id: int) -> str:
        """One token's text, another for each id, those beyond the vocabulary included."""
        digits = f"{token_id:0{self._width}x}"
        return " " + "".join(SYLLABLES[int(digit, 16)] for digit in digits)

    def _id_of(self, word: str) -> int:
        pairs = [word[i : i + 2] for i in range(0, len(word), 2)]
        if len(pairs) == self._width and all(pair in _DIGITS for pair in pairs):
            token_id = int("".join(f"{_DIGITS[pair]:x}" for pair in pairs), 16)
            if token_id < self._vocab_size:
                return token_id
        return crc32(word.encode()) % self._vocab_size
