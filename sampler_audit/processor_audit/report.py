"""The report on one processor: for a terminal, as JSON, and its exit code."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal

from rich.console import Console
from rich.text import Text

from sampler_audit.processor_audit.turns import KINDS, Fault

SCHEMA = 1

Outcome = Literal["pass", "fail", "inconclusive"]
_LABELS: Mapping[Outcome, tuple[str, str]] = {
    "pass": ("PASS", "green"),
    "fail": ("FAIL", "bold red"),
    "inconclusive": ("INCONCLUSIVE", "yellow"),
}
_EXIT_CODES: Mapping[Outcome, int] = {"pass": 0, "fail": 1, "inconclusive": 3}


@dataclass(frozen=True, kw_only=True)
class ProcessorReport:
    """What the audit of one processor showed.

    Attributes:
        version: Of this tool.
        command: The command line that repeats it.
        processor: ``module:Class``.
        level: ``batch-level`` or ``slot-level``.
        argmax_invariant: What a batch-level class says of itself.
        python: The version of its interpreter.
        vocab_size: Width of the rows.
        seed: Of sequences and logits.
        faults: One a kind, each with its smallest sequence.
        counts: How often each thing happened in the sequences, before shrinking.
        microseconds: Time of a step by batch size, as text because JSON's keys are.
    """

    version: str
    command: str
    processor: str
    level: str
    argmax_invariant: bool
    python: str
    vocab_size: int
    seed: int
    faults: tuple[Fault, ...]
    counts: Mapping[str, int]
    microseconds: Mapping[str, float]

    @property
    def untried(self) -> str | None:
        """What the sequences left out, and what to do about it; None if nothing."""
        if not self.counts.get("changed rows"):
            return (
                "no row was changed, so that nothing was tried; name parameters that switch the "
                """processor on, as in --params '{"extra_args": {...}}'"""
            )
        missing = [name for name in ("removed", "moves", "swaps") if not self.counts.get(name)]
        return f"{missing[0]}: none was tried; raise --sequences" if missing else None

    @property
    def outcome(self) -> Outcome:
        """A fault fails; a processor that has not been tried does not pass."""
        if self.faults:
            return "fail"
        return "inconclusive" if self.untried else "pass"

    @property
    def exit_code(self) -> int:
        """0 nothing wrong, 1 a fault, 3 not tried."""
        return _EXIT_CODES[self.outcome]

    @property
    def verdict(self) -> str:
        """One sentence, or the names of the faults."""
        if self.faults:
            return ", ".join(fault["kind"] for fault in self.faults)
        return self.untried or "every row is what a fresh instance gives to its request alone"


def to_json(report: ProcessorReport) -> str:
    """Everything, with a schema version, as the text of a file."""
    # ``meaning`` is for readers who have no table of kinds.
    faults = [{**fault, "meaning": KINDS[fault["kind"]]} for fault in report.faults]
    told = {"schema": SCHEMA, "outcome": report.outcome, "verdict": report.verdict}
    return json.dumps({**told, **asdict(report), "faults": faults}, indent=2) + "\n"


def show(report: ProcessorReport, console: Console, *, quiet: bool) -> None:
    """Print it; ``quiet`` leaves the verdict only."""
    if not quiet:
        console.print(Text(f"sampler-audit {report.version}", style="bold"))
        console.print(Text(report.command), soft_wrap=True)
        console.print()
        for line in _facts(report):
            console.print(Text(line))
        for fault in report.faults:
            _show_fault(fault, console)
        console.print()
    label, style = _LABELS[report.outcome]
    text = Text(f"{label}  {report.processor}: {report.verdict}")
    text.stylize(style, 0, len(label))
    console.print(text)


def _facts(report: ProcessorReport) -> list[str]:
    counts = report.counts
    claim = ", argmax-invariant by its own account" if report.argmax_invariant else ""
    names = ("sequences", "steps", "added", "removed", "moves", "swaps", "changed rows")
    times = "   ".join(f"{n} rows: {t:.0f}" for n, t in report.microseconds.items())
    return [
        f"class      {report.processor}, {report.level}{claim}",
        f"Python     {report.python}",
        "tried      " + ", ".join(f"{name} {counts.get(name, 0)}" for name in names),
        f"time       microseconds a step at {report.vocab_size} tokens:   {times or 'not taken'}",
    ]


def _show_fault(fault: Fault, console: Console) -> None:
    mark = "x" if console.options.ascii_only else "✗"
    console.print()
    console.print(Text(f"{mark} {fault['kind']}: {KINDS[fault['kind']]}", style="bold red"))
    console.print(Text(f"  {fault['where']}"))
    for i, step in enumerate(fault["steps"], 1):
        console.print(Text(f"    {i}. {step}"), soft_wrap=True)
