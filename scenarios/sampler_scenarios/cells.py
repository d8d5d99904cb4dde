"""Cell: one thing to try, named by an id that says all of it and reads back."""

from dataclasses import dataclass

from sampler_scenarios.params import STAGES, Combo, SamplingParams, combo_name, parse_params
from sampler_scenarios.patterns import PATTERNS
from sampler_scenarios.rows import check_row_name


@dataclass(frozen=True)
class Cell:
    """A logit row by name, the filters and stages of its request, and the batch it sits in.

    The id, ``finite-3-front@4096/top_k=50,top_p=0.9/batch=mixed-8/stages=logit_bias+bad_words``,
    is the argument of ``--only``, the key in reports and the pytest id; it ends with the batch
    where no stage is on. Cells hold names, not arrays: what a stage asks of the row is up to
    stages.py.

    Raises:
        ValueError: stages that are unknown or not in the order of STAGES.
    """

    row: str
    params: SamplingParams
    batch: str = "alone"
    stages: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.stages != tuple(stage for stage in STAGES if stage in self.stages):
            raise ValueError(
                f"stages must be some of {', '.join(STAGES)}, in this order, got {self.stages}"
            )

    @property
    def id(self) -> str:
        """Row, parameters, batch and stages, separated by slashes."""
        base = f"{self.row}/{self.params.id}/batch={self.batch}"
        return f"{base}/stages={combo_name(self.stages)}" if self.stages else base

    @property
    def combo(self) -> Combo:
        """The filters and stages that are on."""
        return (*self.params.combo, *self.stages)


def parse_cell(text: str) -> Cell:
    """The inverse of ``Cell.id``.

    Raises:
        ValueError: text that is no cell id, saying which part is wrong and what is allowed.
    """
    parts = text.split("/")
    if not 3 <= len(parts) <= 4 or not parts[2].startswith("batch="):
        raise ValueError(f"a cell id is ROW/PARAMS/batch=PATTERN[/stages=A+B], got {text!r}")
    row, params, batch = parts[0], parse_params(parts[1]), parts[2].removeprefix("batch=")
    check_row_name(row)
    if batch not in PATTERNS:
        raise ValueError(f"unknown batch {batch!r}; known: {', '.join(PATTERNS)}")
    return Cell(row, params, batch, _parse_stages(parts[3:]))


def _parse_stages(parts: list[str]) -> tuple[str, ...]:
    if not parts:
        return ()
    names = parts[0].removeprefix("stages=").split("+")
    if not parts[0].startswith("stages=") or not set(names) <= set(STAGES):
        raise ValueError(
            f"the fourth part of a cell id is stages=A+B of {', '.join(STAGES)}, got {parts[0]!r}"
        )
    return tuple(stage for stage in STAGES if stage in names)
