"""Logits: what the draw works on is the reference's row, value by value.

Every stage and the temperature act on single logits, so an engine that shows its rows is judged
without a draw and without chance. Which tokens are left is the kept set's business.
"""

import numpy as np
from numpy.typing import NDArray

from sampler_audit.results import CheckResult

DESCRIPTION = "the logits after every stage and the temperature are those of the reference"
NAME = "logits"


def check(
    found: NDArray[np.float32], expected: NDArray[np.float32], *, error: float
) -> CheckResult:
    """Fails where a token that both keep has another logit, ``[vocab_size]`` each.

    ``error`` is relative to the expected logit, and absolute below 1; 0 asks for the same value.
    Infinity counts as the largest float32.
    """
    largest = np.finfo(np.float32).max
    kept = (found > -np.inf) & (expected > -np.inf)
    a = np.minimum(found[kept], largest).astype(np.float64)
    b = np.minimum(expected[kept], largest).astype(np.float64)
    deviation = np.abs(a - b)
    wrong = deviation > error * np.maximum(1.0, np.abs(b))
    if not wrong.any():
        return CheckResult(check=NAME, outcome="pass")
    worst = int(np.argmax(np.where(wrong, deviation, -1.0)))
    token = int(np.flatnonzero(kept)[worst])
    reason = (
        f"{int(wrong.sum())} of {a.size} kept tokens have another logit than the reference's,"
        f" as token {token}: {a[worst]:.6g} for {b[worst]:.6g}"
    )
    return CheckResult(check=NAME, outcome="fail", reason=reason)
