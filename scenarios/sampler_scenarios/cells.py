"""Cell: one thing to try, named by an id that says all of it and reads back."""

from dataclasses import dataclass

from sampler_scenarios.params import Combo, SamplingParams, parse_params
from sampler_scenarios.patterns import PATTERNS
from sampler_scenarios.rows import check_row_name


@dataclass(frozen=True)
class Cell:
    """A logit row by name, the parameters of its request, and the batch it sits in.

    The id, ``finite-3-front@4096/top_k=50,top_p=0.9/batch=mixed-8``, is the argument of
    ``--only``, the key in reports and the pytest id. Cells hold names, not arrays.
    """

    row: str
    params: SamplingParams
    batch: str = "alone"

    @property
    def id(self) -> str:
        """Row, parameters and batch, separated by slashes."""
        return f"{self.row}/{self.params.id}/batch={self.batch}"

    @property
    def combo(self) -> Combo:
        """The filters that are on."""
        return self.params.combo


def parse_cell(text: str) -> Cell:
    """The inverse of ``Cell.id``.

    Raises:
        ValueError: text that is no cell id, saying which part is wrong and what is allowed.
    """
    parts = text.split("/")
    if len(parts) != 3 or not parts[2].startswith("batch="):
        raise ValueError(f"a cell id is ROW/PARAMS/batch=PATTERN, got {text!r}")
    row, params, batch = parts[0], parse_params(parts[1]), parts[2].removeprefix("batch=")
    check_row_name(row)
    if batch not in PATTERNS:
        raise ValueError(f"unknown batch {batch!r}; known: {', '.join(PATTERNS)}")
    return Cell(row, params, batch)
