"""The token ladder of one cell, in text: expected against observed, token by token."""

from collections.abc import Callable, Sequence

from sampler_audit.reports import words
from sampler_audit.results import LadderStep

_UNICODE = ("█", "░", "▒")
_ASCII = ("#", "-", "+")
_LONGEST_BAR, _SHORTEST_BAR = 40, 8
_WIDE = 90

_Column = tuple[str, int, Callable[[LadderStep], str]]


def ladder_lines(
    steps: Sequence[LadderStep], *, width: int = 76, ascii_only: bool = False
) -> tuple[str, ...]:
    """A heading, one line a token and a legend, each at most ``width`` >= 76 characters.

    A bar shows what is both expected and observed, then what is expected and missing, or what is
    observed and not expected. The longest bar is the largest share in the ladder. Where tokens
    were drawn, the 99.99 % interval of the observed share stands beside it.
    """
    if not steps:
        return ()
    full, missing, surplus = marks = _ASCII if ascii_only else _UNICODE
    columns = _columns(drawn=any(step.low < step.high for step in steps), wide=width >= _WIDE)
    heading = " ".join(f"{name:>{size}}" for name, size, _ in columns)
    notes = max(len(_note(step)) for step in steps)
    room = min(_LONGEST_BAR, max(_SHORTEST_BAR, width - len(heading) - 4 - notes))
    largest = max(max(step.expected, step.observed) for step in steps) or 1.0
    lines = []
    for step in steps:
        numbers = " ".join(f"{say(step):>{size}}" for _, size, say in columns)
        bar = _bar(step, room / largest, marks)
        lines.append(f"{numbers}  {bar:<{room}}  {_note(step)}".rstrip())
    legend = f"{full} as expected   {missing} expected and missing   {surplus} more than expected"
    return (heading, *lines, f"{'':7} {legend}")


def _columns(*, drawn: bool, wide: bool) -> list[_Column]:
    columns: list[_Column] = [("token", 7, lambda step: str(step.token))]
    if wide or not drawn:
        columns.append(("logit", 8, lambda step: _logit(step.logit)))
    columns.append(("expected", 9, lambda step: words.share(step.expected)))
    columns.append(("observed", 9, lambda step: words.share(step.observed)))
    if drawn:
        columns.append(("99.99 % interval", 17, _interval))
    return columns


def _interval(step: LadderStep) -> str:
    return f"{words.share(step.low).removesuffix(' %')} - {words.share(step.high)}"


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
