"""Verification of drafts: request by request in float64, in law, and at its corners."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import stats

from sampler_kernels import (
    ACCEPTANCE_DOMAIN,
    DRAFT_DOMAIN,
    DRAW_DOMAIN,
    RESIDUAL_DOMAIN,
    Verified,
    VerifyMethod,
    gumbel_draw_torch,
    verify_drafts,
    verify_drafts_torch,
)
from sampler_kernels._triton import jit, tl
from sampler_reference import noise, speculative

Float = NDArray[np.float64]
Verify = Callable[..., Verified]
BOTH = pytest.mark.parametrize("verify", [verify_drafts, verify_drafts_torch])
METHOD_NAMES: tuple[VerifyMethod, ...] = ("standard", "block")
METHODS = pytest.mark.parametrize("method", METHOD_NAMES)
WITH_Q = pytest.mark.parametrize("with_q", [True, False])
INF = torch.inf


def _starts(n_drafts: Sequence[int]) -> torch.Tensor:
    return torch.tensor([0, *np.cumsum(np.asarray(n_drafts, dtype=np.int64) + 1)])


def _random_requests(seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """12 requests of 0 to 3 drafts and 7 tokens: rows, drafts, draft rows, row starts."""
    generator = torch.Generator().manual_seed(seed)
    n_drafts = [0, 1, 2, 3, 3, 3] * 2
    starts = _starts(n_drafts)
    draft_rows = torch.randn(12, 3, 7, generator=generator)
    rows = torch.randn(int(starts[-1]), 7, generator=generator)
    for i, n in enumerate(n_drafts):
        rows[starts[i] : starts[i] + n] = 0.4 * rows[starts[i] : starts[i] + n] + draft_rows[i, :n]
    rows[torch.rand(rows.shape, generator=generator) < 0.15] = -INF
    probs = draft_rows.softmax(2).flatten(0, 1)
    drafts = torch.multinomial(probs, 1, generator=generator).view(12, 3)
    drafts[5::6, 1] = -1
    return rows, drafts.int(), draft_rows, starts


def _softmax(row: torch.Tensor) -> Float:
    return torch.softmax(row.double(), -1).numpy()


def _first_arrival(weights: Float, seed: int, position: int, domain: int) -> int:
    """The token whose exponential clock of rate ``weights`` rings first."""
    ids = np.flatnonzero(weights > 0)
    u = noise.uniforms(np.array([seed]), np.array([position]), ids, domain)[0]
    return int(ids[(-np.log1p(-u) / weights[ids]).argmin()])


def _passed(
    p: Float, drafts: Sequence[int], q: Float, u: Float, method: VerifyMethod
) -> tuple[int, float]:
    """How many drafts are kept, and the running ratio that scales the residual."""
    if method == "standard":
        passes = [p[i, x] > u[i] * q[i, x] for i, x in enumerate(drafts)]
        return (passes.index(False) if False in passes else len(drafts)), 1.0
    kept, ratio, r = 0, 1.0, 1.0
    for i, draft in enumerate(drafts):
        r = min(1.0, r * p[i, draft] / q[i, draft])
        threshold = r
        if i + 1 < len(drafts):
            left = np.maximum(r * p[i + 1] - q[i + 1], 0).sum()
            threshold = left / (left + 1 - r)
        if u[i] <= threshold:
            kept, ratio = i + 1, r
    return kept, ratio


def _expected(
    rows: torch.Tensor, drafts: list[int], q: Float | None, seed: int, method: VerifyMethod
) -> list[int]:
    """What one request emits, by the definitions of the two papers in float64."""
    p = _softmax(rows)
    drafts = drafts[: drafts.index(-1)] if -1 in drafts else drafts
    q = np.eye(p.shape[1])[drafts] if q is None else q
    at = np.arange(len(drafts))
    u = noise.uniforms(np.full_like(at, seed), at + 9, np.array([0]), ACCEPTANCE_DOMAIN)[:, 0]
    kept, ratio = _passed(p, drafts, q, u, method)
    if kept == len(drafts):
        return [*drafts, _first_arrival(p[kept], seed, kept + 9, DRAW_DOMAIN)]
    left = np.maximum(ratio * p[kept] - q[kept], 0)
    return [*drafts[:kept], _first_arrival(left, seed, kept + 9, RESIDUAL_DOMAIN)]


@BOTH
@METHODS
@WITH_Q
def test_request_by_request(verify: Verify, method: VerifyMethod, with_q: bool) -> None:
    """Every request emits what float64 makes of its uniforms, its clocks and the definitions."""
    rows, drafts, draft_rows, starts = _random_requests(18)
    seeds = torch.arange(12) - 5
    nine = torch.full((12,), 9)
    emitted, n_accepted = verify(
        rows, drafts, draft_rows if with_q else None, starts, seeds, nine, method=method
    )
    for i in range(12):
        n = int(starts[i + 1] - starts[i]) - 1
        wanted = _expected(
            rows[starts[i] : starts[i + 1]],
            drafts[i, :n].tolist(),
            _softmax(draft_rows[i, :n]) if with_q else None,
            i - 5,
            method,
        )
        assert emitted[i].tolist() == wanted + [-1] * (4 - len(wanted))
        assert n_accepted[i].item() == len(wanted) - 1
    assert len(set(n_accepted.tolist())) >= 3


class Model:
    """A target and a draft of 4 tokens whose laws depend on what came before."""

    def __init__(self, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.target = torch.randn(3, 5, 4, generator=generator) * 1.5
        self.draft = torch.randn(3, 5, 4, generator=generator)
        self.target[:, ::2, 1] = -INF  # as a filter would

    def law_of(self, table: torch.Tensor) -> speculative.Conditional:
        """By the number of tokens before, and the last of them."""
        return lambda prefix: _softmax(table[len(prefix), prefix[-1] if prefix else 4])


N = 20_000


def _emitted(
    model: Model, method: VerifyMethod, with_q: bool, n_placeholders: int
) -> list[tuple[int, ...]]:
    """What 20,000 requests emit that draft two tokens each, with noise of one seed each."""
    seeds, zeros = torch.arange(N) + (1 << 40), torch.zeros(N, dtype=torch.int64)
    last, tokens, draft_rows = torch.full((N,), 4), [], []
    for j in range(2 - n_placeholders):
        draft_rows.append(model.draft[j, last])
        last = gumbel_draw_torch(model.draft[j], seeds, zeros + j, last, domain=DRAFT_DOMAIN)
        tokens.append(last)
    tokens += [zeros - 1] * n_placeholders
    draft_rows += [torch.zeros(N, 4)] * n_placeholders
    before = [zeros + 4, *(token.clamp(min=0) for token in tokens)]
    rows = torch.stack([model.target[j, before[j]] for j in range(3)], 1)
    emitted, _ = verify_drafts_torch(
        rows.reshape(-1, 4),
        torch.stack(tokens, 1).int(),
        torch.stack(draft_rows, 1) if with_q else None,
        torch.arange(N + 1) * 3,
        seeds,
        zeros,
        method=method,
    )
    return [tuple(token for token in row if token >= 0) for row in emitted.tolist()]


def _pvalue(emitted: list[tuple[int, ...]], law: speculative.Law) -> float:
    """Chi-square of the emitted sequences; what is rarer than 8 expected is one cell.

    0 where something is emitted that cannot be.
    """
    counts = Counter(emitted)
    if not counts.keys() <= {tokens for tokens, prob in law.items() if prob > 0}:
        return 0.0
    common = [tokens for tokens, prob in law.items() if prob * N >= 8]
    observed = np.array([counts[tokens] for tokens in common])
    expected = np.array([law[tokens] * N for tokens in common])
    if expected.sum() < N - 8:
        observed = np.append(observed, N - observed.sum())
        expected = np.append(expected, N - expected.sum())
    return float(stats.chisquare(observed, expected * observed.sum() / expected.sum()).pvalue)


def _law(model: Model, method: VerifyMethod, with_q: bool, n_placeholders: int) -> speculative.Law:
    draft = model.law_of(model.draft)
    verify = speculative.standard_law if method == "standard" else speculative.block_law
    return speculative.emitted_law(
        speculative.rows_of(model.law_of(model.target)),
        speculative.propose(draft, 2 - n_placeholders, n_placeholders),
        draft if with_q else None,
        verify,
    )


@METHODS
@WITH_Q
@pytest.mark.parametrize("n_placeholders", [0, 1, 2])
def test_emitted_sequences_have_their_exact_law(
    method: VerifyMethod, with_q: bool, n_placeholders: int
) -> None:
    """Of two drafts, accepted or not: chi-square against enumeration, false alarm 1e-6 each."""
    model = Model(1)
    emitted = _emitted(model, method, with_q, n_placeholders)
    assert _pvalue(emitted, _law(model, method, with_q, n_placeholders)) > 1e-6


@METHODS
@WITH_Q
def test_every_token_has_the_targets_law(method: VerifyMethod, with_q: bool) -> None:
    """After each emitted prefix the next token is the target's: false alarm 1e-6 each."""
    model = Model(3)
    target, emitted = model.law_of(model.target), _emitted(model, method, with_q, 0)
    for prefix in [(), (0,), (2,), (3,), (0, 0), (2, 3)]:
        after = [tokens[len(prefix)] for tokens in emitted if tokens[: len(prefix)] == prefix
                 and len(tokens) > len(prefix)]  # fmt: skip
        counts, law = np.bincount(after, minlength=4), target(prefix)
        assert counts[law == 0].sum() == 0
        expected = law[law > 0] * len(after)
        assert stats.chisquare(counts[law > 0], expected).pvalue > 1e-6


@pytest.mark.parametrize("defect", ["shared noise", "residual not renormalised", "u twice"])
def test_a_wrong_verification_is_noticed(defect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests above reject three classical faults, the first of them vllm#54282."""
    model = Model(2)
    model.target[:] = torch.tensor([0.20, 0.45, 0.35, 0.0]).log()
    model.draft[:] = torch.tensor([0.70, 0.28, 0.02, 0.0]).log()
    module = "sampler_kernels._verify_torch"
    if defect == "shared noise":
        monkeypatch.setattr(f"{module}.RESIDUAL_DOMAIN", DRAFT_DOMAIN)
    elif defect == "residual not renormalised":
        plain = partial(torch.full_like, fill_value=-1, dtype=torch.int64)
        monkeypatch.setattr(f"{module}.draw_residual_torch", lambda left, _: plain(left[:, 0]))
    else:
        monkeypatch.setattr(f"{module}.log_fp64_torch", lambda u: 2 * u.log())
    emitted = _emitted(model, "standard", True, 0)
    assert _pvalue(emitted, _law(model, "standard", True, 0)) < 1e-6


def test_block_keeps_more() -> None:
    """Of the same drafts and uniforms block verification keeps more, as enumeration says."""
    lengths = [
        np.mean([len(tokens) for tokens in _emitted(Model(2), method, True, 0)])
        for method in METHOD_NAMES
    ]
    exact = [speculative.mean_length(_law(Model(2), method, True, 0)) for method in METHOD_NAMES]
    # A length has a standard deviation below 1: 5 of them divided by sqrt(20,000).
    assert lengths == pytest.approx(exact, abs=0.035)
    assert exact[1] > exact[0] + 0.01
    assert lengths[1] > lengths[0]


def _emits(
    verify: Verify,
    rows: list[list[float]],
    drafts: list[int],
    q: list[list[float]] | None,
    method: VerifyMethod,
    wanted: set[tuple[int, ...]],
) -> bool:
    """Whether one request given by its probabilities emits all of ``wanted`` and nothing else.

    60 seeds are tried; of the kernel, which takes its time, 2, and any of them will do.
    """
    n = 2 if verify is verify_drafts else 60
    p = torch.tensor(rows).log()
    draft_rows = None if q is None else torch.tensor(q).log().expand(n, len(drafts), len(rows[0]))
    seeds = torch.arange(n)
    emitted, _ = verify(
        p.repeat(n, 1),
        torch.tensor([drafts], dtype=torch.int32).repeat(n, 1),
        draft_rows,
        torch.arange(n + 1) * len(rows),
        seeds,
        seeds,
        method=method,
    )
    seen = {tuple(token for token in row if token >= 0) for row in emitted.tolist()}
    return seen <= wanted if verify is verify_drafts else seen == wanted


HALF = [0.0, 0.5, 0.5]
THIRD = [1 / 3, 1 / 3, 1 / 3]


@BOTH
@METHODS
def test_equal_laws_accept_every_draft(verify: Verify, method: VerifyMethod) -> None:
    """Where p is q, whatever u, both drafts stay and a bonus token follows."""
    q = [[0.1, 0.2, 0.7], THIRD]
    assert _emits(verify, [*q, HALF], [0, 2], q, method, {(0, 2, 1), (0, 2, 2)})


@BOTH
@METHODS
@WITH_Q
def test_one_token(verify: Verify, method: VerifyMethod, with_q: bool) -> None:
    """A vocabulary of one token always emits it three times of two drafts."""
    q = [[1.0], [1.0]] if with_q else None
    assert _emits(verify, [[1.0]] * 3, [0, 0], q, method, {(0, 0, 0)})


@BOTH
@METHODS
@WITH_Q
def test_a_draft_that_the_target_excludes_is_never_emitted(
    verify: Verify, method: VerifyMethod, with_q: bool
) -> None:
    """Where p is 0 the draft is replaced from what the target has, whether or not q is 0 too."""
    assert _emits(
        verify, [HALF, THIRD], [0], [[1.0, 0, 0]] if with_q else None, method, {(1,), (2,)}
    )
    if with_q:
        assert _emits(verify, [HALF, THIRD], [0], [[0.0, 1.0, 0.0]], method, {(2,)})


@BOTH
@METHODS
def test_a_draft_that_its_own_law_excludes_is_accepted(
    verify: Verify, method: VerifyMethod
) -> None:
    """Where q is 0 and p is not, also in a draft row that is all masked, the ratio is infinite."""
    for q in ([0.0, 1.0, 0.0], [0.0, 0.0, 0.0]):
        rows = [[0.01, 0.99, 0.0], [0.0, 0.0, 1.0]]
        assert _emits(verify, rows, [0], [q], method, {(0, 2)})


@BOTH
@METHODS
@WITH_Q
def test_greedy_rows(verify: Verify, method: VerifyMethod, with_q: bool) -> None:
    """Of rows with one token each the drafts stay up to the first other one."""
    rows = [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    q = [THIRD, [0.01, 0.01, 0.98]] if with_q else None
    assert _emits(verify, rows, [1, 0], q, method, {(1, 0, 2)})
    assert _emits(verify, rows, [1, 2], q, method, {(1, 0)})
    assert _emits(verify, rows, [2, 0], q, method, {(1,)})


@BOTH
@METHODS
@WITH_Q
def test_all_masked_rows(verify: Verify, method: VerifyMethod, with_q: bool) -> None:
    """A row without any token accepts no draft, and nothing is emitted from there on."""
    nothing = [0.0, 0.0, 0.0]
    q = [HALF, HALF] if with_q else None
    assert _emits(verify, [nothing, HALF, HALF], [1, 1], q, method, {()})
    assert _emits(verify, [[0.0, 1.0, 0.0], nothing, HALF], [1, 1], q, method, {(1,)})


@BOTH
@METHODS
@WITH_Q
def test_plain_draws_are_those_without_drafts(
    verify: Verify, method: VerifyMethod, with_q: bool
) -> None:
    """Without a draft, before a placeholder or an id out of range, and after the last draft."""
    row = torch.randn(5, generator=torch.Generator().manual_seed(7))
    drafts = torch.tensor([[-1, 2], [5, 2], [3, -1], [3, 3], [0, 0]], dtype=torch.int32)
    rows = row.repeat(13, 1)
    rows[6], rows[9], rows[10] = (torch.full((5,), -INF) for _ in range(3))
    rows[[6, 9, 10], 3] = 0.0
    seeds, positions = torch.arange(5) << 35, torch.arange(5) + 100
    q = torch.zeros(5, 2, 5) if with_q else None
    emitted, n_accepted = verify(
        rows, drafts, q, _starts([2, 2, 2, 2, 0]), seeds, positions, method=method
    )
    assert n_accepted.tolist() == [0, 0, 1, 2, 0]
    drawn = gumbel_draw_torch(row[None], seeds, positions + n_accepted, torch.zeros_like(seeds))
    assert emitted.gather(1, n_accepted[:, None])[:, 0].tolist() == drawn.tolist()
    assert emitted[2, 0].item() == 3
    assert emitted[3, :2].tolist() == [3, 3]


@BOTH
def test_requests_without_their_rows_emit_nothing(verify: Verify) -> None:
    """No row, more rows than drafts and one, rows before the first or beyond the last."""
    rows = torch.zeros(4, 3)
    zeros = torch.zeros(5, dtype=torch.int64)
    drafts = torch.zeros((5, 1), dtype=torch.int32)
    starts = torch.tensor([-1, 1, 1, 4, 5, 3])
    emitted, n_accepted = verify(rows, drafts, None, starts, zeros, zeros)
    assert (emitted == -1).all()
    assert (n_accepted == 0).all()
    assert verify(rows[:0], drafts, None, starts, zeros, zeros).token_ids.shape == (5, 2)
    nobody = verify(rows, drafts[:0], None, starts[:1], zeros[:0], zeros[:0], method="block")
    assert nobody.token_ids.shape == (0, 2)


@BOTH
def test_nothing_left_of_a_residual(verify: Verify, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rejection that rounding leaves no residual is replaced by a draw from the target."""
    monkeypatch.setattr("sampler_kernels._verify_torch.log_fp64_torch", lambda u: u + 1)
    monkeypatch.setattr("sampler_kernels.verify.log_fp64", _one_more)
    assert _emits(verify, [THIRD, HALF], [0], [THIRD], "standard", {(0,), (1,), (2,)})


@jit
def _one_more(u: tl.tensor) -> tl.tensor:
    return u + 1.0


@BOTH
@METHODS
def test_place_changes_nothing(verify: Verify, method: VerifyMethod) -> None:
    """A request emits the same alone, in another order, between other rows and padded wider."""
    rows, drafts, draft_rows, starts = _random_requests(6)
    seeds = torch.arange(12) * 1_000_003
    whole, _ = verify(rows, drafts, draft_rows, starts, seeds, seeds, method=method)
    order = [11, 3, 10, 5, 1]
    blocks = [rows[starts[i] : starts[i + 1]] for i in order]
    padded = torch.full((sum(map(len, blocks)) + 2, 9), 1e30)
    padded[1:-1, :7] = torch.cat(blocks)
    wider = torch.full((5, 5), 6, dtype=torch.int32)
    wider[:, :3] = drafts[order]
    q = torch.full((5, 5, 7), torch.nan)
    q[:, :3] = draft_rows[order]
    other, _ = verify(
        padded[:, :7],
        wider,
        q,
        _starts([len(block) - 1 for block in blocks]) + 1,
        seeds[order],
        seeds[order],
        method=method,
    )
    assert torch.equal(other[:, :4], whole[order])
    assert (other[:, 4:] == -1).all()


@METHODS
@WITH_Q
@pytest.mark.parametrize("vocab_size", [129, 300])
def test_kernels_and_twin_emit_the_same(
    method: VerifyMethod, with_q: bool, vocab_size: int
) -> None:
    """One mechanism, at two tiles, for rows in fp32 and bf16 with NaN and +inf among them."""
    generator = torch.Generator().manual_seed(vocab_size)
    starts = _starts([2, 1, 0, 2, 2])
    draft_rows = torch.randn(5, 2, vocab_size, generator=generator).bfloat16()
    rows = torch.randn(int(starts[-1]), vocab_size, generator=generator)
    rows[0] = draft_rows[0, 0].float()
    rows[1, 0], rows[3, 1], draft_rows[3, 0, 2] = torch.nan, INF, torch.nan
    drafts = torch.randint(0, vocab_size, (5, 2), generator=generator).int()
    seeds = torch.arange(5)
    arguments = (rows, drafts, draft_rows if with_q else None, starts, seeds, seeds << 31)
    twin = verify_drafts_torch(*arguments, method=method)
    for block_size in (None, 128)[: vocab_size // 128]:
        kernels = verify_drafts(*arguments, method=method, block_size=block_size)
        assert torch.equal(kernels.token_ids, twin.token_ids)
        assert torch.equal(kernels.n_accepted, twin.n_accepted)


def test_refusals() -> None:
    """A method that does not exist and draft logits of another shape say what is allowed."""
    rows, drafts = torch.zeros(2, 3), torch.zeros((1, 1), dtype=torch.int32)
    starts, zero = torch.tensor([0, 2]), torch.zeros(1, dtype=torch.int64)
    with pytest.raises(ValueError, match="method is 'tree'; 'standard' and 'block' are allowed"):
        verify_drafts(rows, drafts, None, starts, zero, zero, method="tree")  # type: ignore[arg-type]  # the error under test
    with pytest.raises(ValueError, match=r"shape \(1, 3\); \[1, 1, 3\], \[n_requests"):
        verify_drafts(rows, drafts, rows[:1], starts, zero, zero)
    with pytest.raises(TypeError, match=r"draft_token_ids is torch\.int64; a tensor of int32"):
        verify_drafts_torch(rows, drafts.long(), None, starts, zero, zero)
