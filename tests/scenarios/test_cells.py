"""Cell ids read back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampler_scenarios.cells import Cell, parse_cell
from sampler_scenarios.params import SamplingParams
from sampler_scenarios.patterns import PATTERNS
from sampler_scenarios.real_rows import REAL_ROWS
from sampler_scenarios.rows import KINDS
from sampler_scenarios.settings import edge_params

NAMES = [
    *(f"{kind.name}@{kind.min_vocab_size + 1}" for kind in KINDS),
    *(f"{slug}@49152" for slug in REAL_ROWS),
]
CELLS = st.builds(
    Cell, st.sampled_from(NAMES), st.sampled_from(edge_params(4096)), st.sampled_from([*PATTERNS])
)


@given(CELLS)
def test_id_round_trip(cell: Cell) -> None:
    """Every row, edge setting and pattern gives an id that reads back."""
    assert parse_cell(cell.id) == cell


def test_id_says_all_of_it() -> None:
    """Row, parameters and batch, as in the design; the combination is the parameters'."""
    cell = Cell("finite-3-front@4096", SamplingParams(top_k=50, top_p=0.9), "mixed-8")
    assert cell.id == "finite-3-front@4096/top_k=50,top_p=0.9/batch=mixed-8"
    assert cell.combo == ("top_k", "top_p")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a cell id is ROW/PARAMS/batch=PATTERN, got ''"),
        ("zipf@129/neutral", "a cell id is ROW/PARAMS/batch=PATTERN"),
        ("zipf@129/neutral/alone", "a cell id is ROW/PARAMS/batch=PATTERN"),
        ("zipf@129/neutral/batch=mixed", "unknown batch 'mixed'; known: alone, strided, mixed-7,"),
        ("zopf@129/neutral/batch=alone", "unknown row 'zopf'; known:"),
        ("zipf@129/top_p=2/batch=alone", "top_p must be"),
    ],
)
def test_no_id(text: str, message: str) -> None:
    """Text that is no id says which part is wrong and what is known."""
    with pytest.raises(ValueError, match=message):
        parse_cell(text)
