"""Cell ids read back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampler_scenarios.cells import Cell, parse_cell
from sampler_scenarios.params import STAGES, SamplingParams, make_combo
from sampler_scenarios.patterns import PATTERNS
from sampler_scenarios.real_rows import REAL_ROWS
from sampler_scenarios.rows import KINDS
from sampler_scenarios.settings import edge_params

NAMES = [
    *(f"{kind.name}@{kind.min_vocab_size + 1}" for kind in KINDS),
    *(f"{slug}@49152" for slug in REAL_ROWS),
]
CELLS = st.builds(
    Cell,
    st.sampled_from(NAMES),
    st.sampled_from(edge_params(4096)),
    st.sampled_from([*PATTERNS]),
    st.sets(st.sampled_from(STAGES)).map(make_combo),
)


@given(CELLS)
def test_id_round_trip(cell: Cell) -> None:
    """Every row, edge setting, pattern and set of stages gives an id that reads back."""
    assert parse_cell(cell.id) == cell


def test_id_says_all_of_it() -> None:
    """Row, parameters and batch, as in the design; the combination is the parameters'."""
    cell = Cell("finite-3-front@4096", SamplingParams(top_k=50, top_p=0.9), "mixed-8")
    assert cell.id == "finite-3-front@4096/top_k=50,top_p=0.9/batch=mixed-8"
    assert cell.combo == ("top_k", "top_p")


def test_stages_end_an_id() -> None:
    """And a combination; where there are none, neither shows it."""
    cell = Cell("zipf@129", SamplingParams(top_k=5), "alone", ("logit_bias", "bad_words"))
    assert cell.id == "zipf@129/top_k=5/batch=alone/stages=logit_bias+bad_words"
    assert cell.combo == ("top_k", "logit_bias", "bad_words")
    assert parse_cell("zipf@129/top_k=5/batch=alone/stages=bad_words+logit_bias") == cell


@pytest.mark.parametrize("stages", [("bad_words", "logit_bias"), ("bias",), ("top_k",)])
def test_stages_out_of_order_or_unknown(stages: tuple[str, ...]) -> None:
    """One cell has one id."""
    with pytest.raises(ValueError, match=r"stages must be some of grammar, .*, in this order, got"):
        Cell("zipf@129", SamplingParams(), "alone", stages)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"a cell id is ROW/PARAMS/batch=PATTERN\[/stages=A\+B\], got ''"),
        ("zipf@129/neutral", "a cell id is ROW/PARAMS/batch=PATTERN"),
        ("zipf@129/neutral/alone", "a cell id is ROW/PARAMS/batch=PATTERN"),
        ("zipf@129/neutral/batch=mixed", "unknown batch 'mixed'; known: alone, strided, mixed-7,"),
        ("zopf@129/neutral/batch=alone", "unknown row 'zopf'; known:"),
        ("zipf@129/top_p=2/batch=alone", "top_p must be"),
        ("zipf@129/neutral/batch=alone/", r"fourth part of a cell id is stages=A\+B of .*, got ''"),
        ("zipf@129/neutral/batch=alone/stages=", "got 'stages='"),
        ("zipf@129/neutral/batch=alone/stages=top_k", "of grammar, .*, got 'stages=top_k'"),
        ("zipf@129/neutral/batch=alone/bad_words", "got 'bad_words'"),
        ("zipf@129/neutral/batch=alone/stages=bad_words/x", "a cell id is ROW/PARAMS/"),
    ],
)
def test_no_id(text: str, message: str) -> None:
    """Text that is no id says which part is wrong and what is known."""
    with pytest.raises(ValueError, match=message):
        parse_cell(text)
