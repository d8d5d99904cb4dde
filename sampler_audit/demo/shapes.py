"""Parts of answers that the styles share."""

from collections.abc import Sequence
from dataclasses import dataclass

from sampler_audit.demo.generation import Choice
from sampler_audit.demo.tokenizer import Tokenizer
from sampler_audit.demo.wire import Body
from sampler_audit.sampler.log_probs import TokenLogProbs


@dataclass(frozen=True)
class Entry:
    """A token of a list. ``rank`` counts the tokens that are at least as likely."""

    token_id: int
    text: str
    logprob: float
    rank: int

    @property
    def body(self) -> Body:
        """As OpenAI's lists hold it."""
        return {"token": self.text, "logprob": self.logprob, "bytes": list(self.text.encode())}


def entries(listing: TokenLogProbs, tokenizer: Tokenizer, lowest: float) -> list[Entry]:
    """The tokens that are listed, the drawn one first; ``lowest`` stands for -inf."""
    columns = listing.token_ids.tolist(), listing.values.tolist(), listing.ranks.tolist()
    return [
        Entry(token_id, tokenizer.text(token_id), max(value, lowest), rank)
        for token_id, value, rank in zip(*columns, strict=True)
    ]


def likeliest(listed: Sequence[Entry], n: int) -> list[Entry]:
    """The ``n`` likeliest; of equally likely ones the lowest ids."""
    return sorted(listed, key=lambda entry: (-entry.logprob, entry.token_id))[:n]


def usage(prompt: Sequence[int], choices: Sequence[Choice]) -> Body:
    """What a request cost, in tokens."""
    n_drawn = sum(len(choice.token_ids) for choice in choices)
    return {
        "prompt_tokens": len(prompt),
        "completion_tokens": n_drawn,
        "total_tokens": len(prompt) + n_drawn,
    }
