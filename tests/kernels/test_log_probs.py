"""Log-probs, top tokens and ranks against float64; what they may not depend on."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from sampler_kernels import (
    log_probs_of,
    log_probs_of_torch,
    mass_error,
    ranks_of,
    ranks_of_torch,
    row_log_sum,
    row_log_sum_torch,
    top_log_probs,
    top_log_probs_torch,
    top_token_ids,
    top_token_ids_torch,
)
from sampler_reference import log_probs as reference

HardRows = Callable[[int], dict[str, NDArray[np.float32]]]
Of = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
Top = Callable[[torch.Tensor, int], torch.Tensor]
LOG_PROBS = pytest.mark.parametrize("log_probs", [log_probs_of, log_probs_of_torch])
RANKS = pytest.mark.parametrize("ranks", [ranks_of, ranks_of_torch])
TOP = pytest.mark.parametrize("top", [top_token_ids, top_token_ids_torch])

NOT_FINITE = ("NaN", "all NaN", "+inf", "all +inf", "all masked")


@pytest.fixture
def rows(hard_rows: HardRows) -> torch.Tensor:
    """Every kind of row but those with NaN or +inf or nothing, ``[19, 300]``."""
    kinds = {name: row for name, row in hard_rows(300).items() if name not in NOT_FINITE}
    return torch.tensor(np.stack(list(kinds.values())))


@pytest.fixture
def token_ids() -> torch.Tensor:
    """Seven ids for each of the rows, some of them twice."""
    return torch.randint(0, 300, (19, 7), generator=torch.Generator().manual_seed(3))


@LOG_PROBS
def test_log_probs(log_probs: Of, rows: torch.Tensor, token_ids: torch.Tensor) -> None:
    """They are float64's within the error of the mass and one rounding to fp32, -inf below it."""
    exact = reference.log_softmax(rows.double().numpy())
    exact = np.take_along_axis(exact, token_ids.numpy(), 1)
    got = log_probs(rows, token_ids)
    assert got.dtype == torch.float32
    with np.errstate(over="ignore"):
        lost = np.isneginf(exact.astype(np.float32))
    assert np.array_equal(got.isneginf().numpy(), lost)
    errors = np.abs(got.double().numpy()[~lost] - exact[~lost])
    assert (errors <= mass_error(300) + 2.0**-24 * np.abs(exact[~lost])).all()


@pytest.mark.parametrize("log_sum", [row_log_sum, row_log_sum_torch])
def test_row_log_sum(log_sum: Callable[[torch.Tensor], torch.Tensor], rows: torch.Tensor) -> None:
    """The log of the sum of exponentials is float64's, also where all logits are near 1e4."""
    exact = torch.logsumexp(rows.double(), 1)
    got = log_sum(rows)
    assert got.dtype == torch.float64
    assert ((got - exact).abs() <= mass_error(300) + 2.0**-52 * exact.abs()).all()


@pytest.mark.parametrize("log_sum", [row_log_sum, row_log_sum_torch])
def test_row_log_sum_of_a_model_size_row(log_sum: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """131072 tokens, flat or behind a peak, within mass_error."""
    flat = torch.randn(131072, generator=torch.Generator().manual_seed(5))
    peak = flat.clone()
    peak[77_777] = 40.0
    logits = torch.stack((flat, peak))
    errors = (log_sum(logits) - torch.logsumexp(logits.double(), 1)).abs()
    assert (errors <= mass_error(131072)).all()


@TOP
@pytest.mark.parametrize("n", [0, 1, 5, 299, 300])
def test_top_tokens(top: Top, n: int, rows: torch.Tensor) -> None:
    """The n largest, ties by the lowest id, masked tokens last: the reference's order."""
    exact = np.stack([reference.top_ids(row, n) for row in rows.double().numpy()])
    assert top(rows, n).tolist() == exact.tolist()


@TOP
def test_top_tokens_of_larger_rows(top: Top) -> None:
    """A row that is swept digit by digit, full of ties, gives the reference's order too."""
    row = np.round(np.random.default_rng(6).normal(0, 3, 9000)).astype(np.float32)
    row[::2] = -np.inf
    row[:4500:4] = np.nan
    wanted = reference.top_ids(np.nan_to_num(row, nan=-np.inf, neginf=-np.inf), 5000)
    assert top(torch.from_numpy(row)[None], 5000).tolist() == [wanted.tolist()]


@RANKS
def test_ranks(ranks: Of, rows: torch.Tensor, token_ids: torch.Tensor) -> None:
    """How many logits are at least the token's: of tied ones the worst."""
    pairs = zip(rows.double().numpy(), token_ids.numpy(), strict=True)
    exact = [reference.ranks_of(row, ids).tolist() for row, ids in pairs]
    assert ranks(rows, token_ids).tolist() == exact


@RANKS
def test_ranks_under_ties(ranks: Of) -> None:
    """Logits 9 7 7 5 7 and a masked token: ranks 1, 4 of each 7, 5, and 6, the whole row."""
    logits = torch.tensor([[9.0, 7.0, 7.0, 5.0, 7.0, -torch.inf]])
    assert ranks(logits, torch.arange(6)[None]).tolist() == [[1, 4, 4, 5, 4, 6]]


@pytest.mark.parametrize("top", [top_log_probs, top_log_probs_torch])
def test_a_list_of_log_probs(
    top: Callable[[torch.Tensor, int], tuple[torch.Tensor, torch.Tensor]],
) -> None:
    """P4 of 0.1 to 0.4: the best three and ln 0.4, 0.3, 0.2."""
    token_ids, log_probs = top(torch.tensor([[0.1, 0.2, 0.3, 0.4]]).log(), 3)
    assert token_ids.tolist() == [[3, 2, 1]]
    assert log_probs[0].tolist() == pytest.approx([-0.91629, -1.20397, -1.60944], abs=1e-5)


@LOG_PROBS
def test_masked_nan_and_infinite_logits(log_probs: Of) -> None:
    """NaN is masked, +inf is FLT_MAX, an all-masked row and ids that do not exist have -inf."""
    inf, nan = torch.inf, torch.nan
    logits = torch.tensor([[0.0, nan, 0.0], [inf, 1.0, inf], [-inf, nan, -inf]])
    got = log_probs(logits, torch.tensor([[0, 1, 2, -1, 3]]).expand(3, 5))
    ln2 = -0.6931472
    assert got[0].tolist() == pytest.approx([ln2, -inf, ln2, -inf, -inf])
    assert got[1].tolist() == pytest.approx([ln2, -3.4028235e38, ln2, -inf, -inf])
    assert got[2].tolist() == [-inf] * 5


@RANKS
def test_ranks_of_what_is_masked_or_does_not_exist(ranks: Of) -> None:
    """NaN counts as masked, whose rank is the vocabulary; ids out of range have 0."""
    logits = torch.tensor([[torch.nan, 1.0, -torch.inf, torch.inf]])
    got = ranks(logits, torch.tensor([[0, 1, 2, 3, -1, 4]]))
    assert got.tolist() == [[4, 2, 4, 1, 0, 0]]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(dtype: torch.dtype, rows: torch.Tensor, token_ids: torch.Tensor) -> None:
    """16-bit logits have the log-probs, lists and ranks of the same values in fp32."""
    half = rows[:2].to(dtype)
    for function in (log_probs_of, ranks_of):
        assert torch.equal(function(half, token_ids[:2]), function(half.float(), token_ids[:2]))
    assert torch.equal(top_token_ids(half, 20), top_token_ids(half.float(), 20))


@pytest.mark.parametrize("chunk", [1, 4, 18])
def test_every_chunking_of_a_prompt_gives_the_same_bits(chunk: int, hard_rows: HardRows) -> None:
    """Rows in chunks, in another order, at another tile or stride have the numbers they have."""
    rows = torch.tensor(np.stack(list(hard_rows(300).values())))
    token_ids = torch.arange(24 * 3).reshape(24, 3) * 4
    whole, ranks = log_probs_of(rows, token_ids), ranks_of(rows, token_ids)
    top = top_token_ids(rows, 7)
    padded = torch.full((24, 333), 1e30)
    padded[:, :300] = rows
    for start in range(0, 24, chunk):
        part = torch.arange(24)[start : start + chunk].flip(0)
        logits = padded[:, :300][part]
        assert torch.equal(log_probs_of(logits, token_ids[part], block_size=128), whole[part])
        assert torch.equal(ranks_of(logits, token_ids[part]), ranks[part])
        assert torch.equal(top_token_ids(logits, 7), top[part])


def test_kernels_and_twins_have_the_same_bits(hard_rows: HardRows) -> None:
    """Sums, log-probs, lists and ranks of every kind of row, NaN and +inf included."""
    rows = torch.tensor(np.stack(list(hard_rows(300).values())))
    token_ids = torch.randint(-2, 303, (24, 5), generator=torch.Generator().manual_seed(4))
    assert torch.equal(row_log_sum(rows), row_log_sum_torch(rows))
    assert torch.equal(log_probs_of(rows, token_ids), log_probs_of_torch(rows, token_ids))
    assert torch.equal(ranks_of(rows, token_ids), ranks_of_torch(rows, token_ids))
    assert torch.equal(top_token_ids(rows, 9), top_token_ids_torch(rows, 9))


def test_more_tokens_than_there_are() -> None:
    """The whole vocabulary is the most."""
    with pytest.raises(ValueError, match=r"n is 9; 0 to 8, .*n=logits\.shape\[1\]"):
        top_token_ids(torch.zeros(2, 8), 9)
