"""Every kind of made row holds what its name promises; masses are scipy's float64 softmax."""

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import softmax

from sampler_scenarios.row_kinds import FINITE_COUNTS, KINDS, PEAK_EXPONENTS, PLACES, RowKind
from sampler_scenarios.rows import VOCAB_SIZES, load_row

EVERY_KIND = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
# One below, at and above a tile; a non-round one; and one with sixteen tiles.
SIZES = pytest.mark.parametrize("vocab_size", [127, 8192, 8193, 50257, 131072])


def logits_of(kind: str, vocab_size: int) -> NDArray[np.float32]:
    """The row's logits, float32 [vocab_size]."""
    return load_row(f"{kind}@{vocab_size}").logits


def probs_of(kind: str, vocab_size: int) -> NDArray[np.float64]:
    """The softmax of the row in float64, [vocab_size]."""
    probs: NDArray[np.float64] = softmax(logits_of(kind, vocab_size).astype(np.float64))
    return probs


def falling_mass(kind: str, vocab_size: int) -> NDArray[np.float64]:
    """Cumulative probability from the likeliest token down, [vocab_size]."""
    return np.cumsum(np.sort(probs_of(kind, vocab_size))[::-1])


@EVERY_KIND
def test_every_vocabulary_has_its_row(kind: RowKind) -> None:
    """A kind builds float32 [vocab_size] at its smallest vocabulary and at every listed one."""
    for vocab_size in {kind.min_vocab_size, *VOCAB_SIZES}:
        if vocab_size >= kind.min_vocab_size:
            logits = kind.build(vocab_size)
            assert (logits.dtype.name, logits.shape) == ("float32", (vocab_size,))


@EVERY_KIND
def test_special_marks_nan_and_infinity(kind: RowKind) -> None:
    """A kind is special exactly when its rows hold NaN or +inf, at the smallest size too."""
    for vocab_size in (kind.min_vocab_size, 8193):
        logits = kind.build(vocab_size)
        assert kind.special == bool((np.isnan(logits) | (logits == np.inf)).any())


@EVERY_KIND
def test_why_is_one_sentence(kind: RowKind) -> None:
    """Each reason reads as a sentence of a report's line or two."""
    assert kind.why[0].isupper() or kind.why[0] == "+"
    assert kind.why.endswith(".")
    assert 40 < len(kind.why) < 220


def test_kind_names_are_unique() -> None:
    """A name means one kind."""
    assert len({kind.name for kind in KINDS}) == len(KINDS)


def test_no_two_kinds_are_the_same_row() -> None:
    """No kind repeats another at a vocabulary where all exist."""
    rows = {kind.build(8193).tobytes() for kind in KINDS}
    assert len(rows) == len(KINDS)


@pytest.mark.parametrize("exponent", PEAK_EXPONENTS)
@pytest.mark.parametrize("vocab_size", [2, 129, 4096, 131072])
def test_peaked_head_mass(exponent: int, vocab_size: int) -> None:
    """The head holds 1 - 10^-j; what is left is right to 2e-5 of itself, fp32's share of 24."""
    # Tail logits reach -16 - 8 - 12 nats at most: half an ulp of 32 is 2^-19 = 1.9e-6 nats each,
    # and the mass is a mean of such errors.
    probs = probs_of(f"peaked-{exponent}", vocab_size)
    assert probs.max() == pytest.approx(1 - 10.0**-exponent, abs=1e-6)
    assert np.delete(probs, probs.argmax()).sum() == pytest.approx(10.0**-exponent, rel=2e-5)


@pytest.mark.parametrize("exponent", PEAK_EXPONENTS)
def test_peaked_tail_is_geometric(exponent: int) -> None:
    """Sorted tail logits fall by the same step, 8 nats over the tail, and are not in id order."""
    logits = np.delete(logits_of(f"peaked-{exponent}", 4096), 2048).astype(np.float64)
    steps = np.diff(np.sort(logits))
    np.testing.assert_allclose(steps, 8 / 4094, atol=4e-6)  # two roundings of half an ulp of 32
    assert (np.diff(logits) > 0).any()
    assert (np.diff(logits) < 0).any()


@SIZES
@pytest.mark.parametrize(("count", "place"), [*product(FINITE_COUNTS, PLACES)])
def test_finite_counts_and_places(count: int, place: str, vocab_size: int) -> None:
    """Exactly ``count`` distinct finite logits: first ids, last ids, or amid equal parts."""
    logits = logits_of(f"finite-{count}-{place}", vocab_size)
    ids = np.flatnonzero(np.isfinite(logits))
    assert len(set(logits[ids])) == ids.size == count
    if place == "spread":
        part = vocab_size / count
        np.testing.assert_allclose(ids + 0.5, (np.arange(count) + 0.5) * part, atol=0.5)
    else:
        first = 0 if place == "front" else vocab_size - count
        np.testing.assert_array_equal(ids, np.arange(first, first + count))


@pytest.mark.parametrize("count", [2, 3, 4, 5, 8])
def test_few_finite_all_needed(count: int) -> None:
    """Up to eight tokens, p = .95 needs the lowest, the one that a faulty search drops."""
    probs = probs_of(f"finite-{count}-spread", 4096)
    assert probs[probs > 0].min() > 1 - 0.95
    assert probs[probs > 0].min() > 0.2 * probs.max()


def test_finite_zero_is_masked_whole() -> None:
    """No finite logit."""
    assert (logits_of("finite-0", 129) == -np.inf).all()


@pytest.mark.parametrize("mass", [0.05, 0.1, 0.2, 0.3, 0.4, 0.49])
@pytest.mark.parametrize("vocab_size", [2, 129, 131072])
def test_runner_up_mass(mass: float, vocab_size: int) -> None:
    """Two tokens hold everything, the less likely one ``mass``."""
    held = np.sort(probs_of(f"runner-up-{mass}", vocab_size))[::-1]
    assert held[:2] == pytest.approx([1 - mass, mass], abs=1e-7)
    assert held[2:].sum() == 0


def test_constant_and_valued_rows() -> None:
    """One value; two values in a third and two thirds of the row; one token above the rest."""
    assert np.unique(logits_of("constant", 4096)).size == 1
    values, counts = np.unique(logits_of("two-valued", 4096), return_counts=True)
    assert (values.tolist(), counts.tolist()) == ([0.0, 1.0], [2731, 1365])
    values, counts = np.unique(logits_of("one-high", 4096), return_counts=True)
    assert (values.tolist(), counts.tolist()) == ([0.0, 1.0], [4095, 1])


@SIZES
def test_bottom_ties(vocab_size: int) -> None:
    """K = 50 ends in the middle of the lowest of three groups of twenty."""
    logits = logits_of("bottom-ties", vocab_size)
    values, counts = np.unique(logits[np.isfinite(logits)], return_counts=True)
    assert (values.tolist(), counts.tolist()) == ([0.0, 1.0, 2.0], [20, 20, 20])


@SIZES
@pytest.mark.parametrize("k", [20, 50])
def test_ties_straddle_k(k: int, vocab_size: int) -> None:
    """The k-th and the next logit are equal and so is one on each further side."""
    falling = np.sort(logits_of("ties-at-k", vocab_size))[::-1]
    assert falling[k - 2] == falling[k - 1] == falling[k] == falling[k + 1]
    assert (falling == falling[k]).sum() == 60
    assert np.unique(falling[:15]).size == 15


@SIZES
@pytest.mark.parametrize("p", [0.5, 0.8, 0.9])
def test_ties_straddle_p(p: float, vocab_size: int) -> None:
    """The token that crosses p ties with others on both sides, and p is clear of its ends."""
    mass = falling_mass("ties-at-p", vocab_size)
    falling = np.sort(logits_of("ties-at-p", vocab_size))[::-1]
    crossing = int(np.searchsorted(mass, p))
    group = np.flatnonzero(falling == falling[crossing])
    assert (group.size, group[0] < crossing, crossing < group[-1]) == (40, True, True)
    # Farther from the edge than any fp32 sum of some 100 terms can err (100 * 2^-24).
    assert min(mass[crossing] - p, p - mass[crossing - 1]) > 1e-3


def test_ties_at_p_lie_in_many_tiles() -> None:
    """At 131072 both groups reach most of the sixteen tiles of 8192."""
    logits = logits_of("ties-at-p", 131072)
    values, counts = np.unique(logits, return_counts=True)
    for value in values[counts == 40]:
        assert np.unique(np.flatnonzero(logits == value) // 8192).size >= 12


@pytest.mark.parametrize("vocab_size", [5, 129, 131072])
def test_dyadic_mass_lands_on_p(vocab_size: int) -> None:
    """Cumulative masses are .5, .75, .875 and 1 up to the rounding of fp32 logits."""
    assert falling_mass("dyadic", vocab_size)[:4] == pytest.approx([0.5, 0.75, 0.875, 1], abs=1e-7)


@pytest.mark.parametrize("vocab_size", [2, 3, 129, 131072])
def test_tied_maximum(vocab_size: int) -> None:
    """Exactly two tokens hold the maximum."""
    logits = logits_of("tied-maximum", vocab_size)
    assert (logits == logits.max()).sum() == 2


def test_bf16_rounded() -> None:
    """Every value is the nearest of bfloat16's 8 significant bits, the even one of two as near."""
    dense, rounded = logits_of("dense-normal", 248320), logits_of("bf16-rounded", 248320)
    assert not (rounded.view(np.uint32) & 0xFFFF).any()
    error = np.abs(rounded.astype(np.float64) - dense)
    half_ulp = np.ldexp(1.0, np.frexp(dense)[1] - 9)
    assert (error <= half_ulp).all()
    midway = rounded[error == half_ulp].view(np.uint32) >> 16
    assert midway.size > 0
    assert not (midway & 1).any()


def test_bf16_rounded_ties() -> None:
    """Logits tie among the fifty largest, where k = 50 may cut."""
    assert np.unique(np.sort(logits_of("bf16-rounded", 50257))[-50:]).size < 50


@pytest.mark.parametrize("vocab_size", [3, 129, 8193])
def test_signed_zeros(vocab_size: int) -> None:
    """The maximum is a zero, held with both signs, the negative one at the lowest id."""
    logits = logits_of("signed-zeros", vocab_size)
    zeros = logits[logits == logits.max()]
    assert (logits.max(), np.signbit(zeros[0])) == (0.0, True)
    assert {bool(sign) for sign in np.signbit(zeros)} == {False, True}


@SIZES
def test_special_values_count(vocab_size: int) -> None:
    """One +inf, one NaN, a tenth NaN, half -inf, one 1e30; every other logit is ordinary."""
    for kind, is_odd_one, count in (
        ("positive-infinity", np.isposinf, 1),
        ("nan-one", np.isnan, 1),
        ("nan-tenth", np.isnan, -(-vocab_size // 10)),
        ("half-negative-infinity", np.isneginf, -(-vocab_size // 2)),
        ("one-1e30", lambda logits: logits == np.float32(1e30), 1),
    ):
        odd_ones = is_odd_one(logits := logits_of(kind, vocab_size))
        assert odd_ones.sum() == count
        assert (np.abs(logits[~odd_ones]) < 20).all()


def test_scales_and_offsets() -> None:
    """Magnitudes are the named ones."""
    dense = logits_of("dense-normal", 4096).astype(np.float64)
    assert dense.std() == pytest.approx(2, rel=0.05)  # four standard errors of 1.1 %
    for kind, expected in (
        ("scale-1e-8", dense * 1e-8),
        ("scale-1e4", dense * 1e4),
        ("offset-100", dense + 100),
        ("offset-minus-200", dense - 200),
    ):
        np.testing.assert_allclose(logits_of(kind, 4096), expected, rtol=2**-24)


def test_denormals() -> None:
    """No logit is a normal number, few are 0, and there is an order to lose."""
    logits = logits_of("denormals", 4096)
    assert (np.abs(logits) < np.finfo(np.float32).tiny).all()
    assert (logits == 0).sum() < 20  # |z| < 2^-150 / 2e-40: about a third of a percent of 4096
    assert np.unique(np.sort(logits)[-50:]).size > 20


@pytest.mark.parametrize("vocab_size", [8193, 50257])
def test_outside_first_block(vocab_size: int) -> None:
    """All of the first 8192 logits are masked and none after them."""
    finite = np.isfinite(logits_of("outside-first-block", vocab_size))
    np.testing.assert_array_equal(finite, np.arange(vocab_size) >= 8192)


@pytest.mark.parametrize("vocab_size", [4096, 131072])
def test_flat_tail(vocab_size: int) -> None:
    """One token holds half, the others' log-probabilities differ by .05 about their mean."""
    probs = np.sort(probs_of("flat-tail", vocab_size))
    assert probs[-1] == pytest.approx(0.5, abs=1e-6)
    assert np.log(probs[:-1]).std() == pytest.approx(0.05, rel=0.05)


@pytest.mark.parametrize("vocab_size", [2, 129, 50257])
def test_zipf(vocab_size: int) -> None:
    """Log p falls by 1.1 from rank 1 to rank e; rank 1 is the last id."""
    probs = probs_of("zipf", vocab_size)
    assert probs.argmax() == vocab_size - 1
    np.testing.assert_allclose(
        probs[::-1] / probs.max(), np.arange(1, vocab_size + 1) ** -1.1, rtol=2e-6
    )
