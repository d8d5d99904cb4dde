"""The token ladder of one cell, in text: expected against observed, token by token."""

from collections.abc import Sequence

from sampler_audit.reports import words
from sampler_audit.results import LadderStep

_UNICODE = ("█", "░", "▒")
_ASCII = ("#", "-", "+")
_LONGEST_BAR = 40


def ladder_lines(
    steps: Sequence[LadderStep], *, width: int = 80, ascii_only: bool = False
) -> tuple[str, ...]:
    """A heading, one line a token and a legend, each at most ``width`` >= 80 characters.

    A bar shows what is both expected and observed, then what is expected and missing, or what is
    observed and not expected. The longest bar is the largest share in the ladder. Where tokens
    were drawn, the 99.99 % interval of the observed share stands beside it.
    """
    if not steps:
        return ()
    full, missing, surplus = marks = _ASCII if ascii_only else _UNICODE
    drawn = any(step.low < step.high for step in steps)
    heading = f"{'token':>7} {'logit':>8} {'expected':>9} {'observed':>9}"
    heading += f" {'99.99 % interval':>17}" if drawn else ""
    notes = max(len(_note(step)) for step in steps)
    room = max(8, min(_LONGEST_BAR, width - len(heading) - 4 - notes))
    largest = max(max(step.expected, step.observed) for step in steps) or 1.0
    lines = [
        f"{_numbers(step, drawn)}  {_bar(step, room / largest, marks):<{room}}  {_note(step)}".rstrip()
        for step in steps
    ]
    legend = f"{full} as expected   {missing} expected and missing   {surplus} more than expected"
    return (heading, *lines, f"{'':7} {legend}")


def _numbers(step: LadderStep, drawn: bool) -> str:
    text = (
        f"{step.token:>7} {_logit(step.logit):>8}"
        f" {words.share(step.expected):>9} {words.share(step.observed):>9}"
    )
    if not drawn:
        return text
    interval = f"{words.share(step.low).removesuffix(' %')} - {words.share(step.high)}"
    return f"{text} {interval:>17}"


def _bar(step: LadderStep, scale: float, marks: tuple[str, str, str]) -> str:
    full, missing, surplus = marks
    expected, observed = _length(step.expected, scale), _length(step.observed, scale)
    return (
        full * min(expected, observed)
        + missing * (expected - observed)
        + surplus * (observed - expected)
    )


def _length(value: float, scale: float) -> int:
    # A share that is not zero must be seen.
    return max(1, round(value * scale)) if value > 0 else 0


def _note(step: LadderStep) -> str:
    outside = step.low < step.high and not step.low <= step.expected <= step.high
    return step.note or ("outside" if outside else "")


def _logit(value: float) -> str:
    return f"{value:.3f}" if 0.001 <= abs(value) < 1000 or value == 0 else f"{value:.2g}"
