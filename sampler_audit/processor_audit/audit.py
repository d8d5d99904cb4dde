"""The audit of one processor: load it, search for faults, ask what it refuses, time it."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from sampler_audit import version
from sampler_audit.errors import TargetRaised
from sampler_audit.processor_audit.report import ProcessorReport
from sampler_audit.processor_audit.search import search
from sampler_audit.processor_audit.settings import COMMON, Settings
from sampler_audit.processor_audit.subject_process import SubjectProcess
from sampler_audit.processor_audit.turns import KINDS, Fault

BATCH_SIZES = (1, 8, 64)
"""Those of the timing."""

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, kw_only=True)
class ProcessorRequest:
    """What to audit, and with what.

    Attributes:
        processor: ``module:Class``.
        python: Its interpreter; None is this one.
        runner: Whose rules it is loaded by, of ``sampler.processors.RULES``.
        settings: What requests may ask, beside nothing; empty is COMMON.
        bad: What ``validate_params`` must refuse.
        vocab_size: Width of a row; token ids of the settings must lie below.
        n_sequences: How many sequences of turns are tried.
        seed: Of sequences and logits.
        timeout_s: Longest wait for one answer.
        command: The command line that repeats the audit.
    """

    processor: str
    python: str | None = None
    runner: str = "sampler-audit"
    settings: tuple[Settings, ...] = ()
    bad: tuple[Settings, ...] = ()
    vocab_size: int = 1024
    n_sequences: int = 200
    seed: int
    timeout_s: float = 600.0
    command: str = ""


def audit_processor(request: ProcessorRequest, progress: Progress) -> ProcessorReport:
    """``audit_in`` a process of the request's interpreter."""
    with closing(SubjectProcess(request.python, request.timeout_s)) as process:
        return audit_in(process, request, progress)


def audit_in(
    process: SubjectProcess, request: ProcessorRequest, progress: Progress
) -> ProcessorReport:
    """Deterministic for the same request and class, but for the times.

    Raises:
        UsageError: the class, its interpreter or the parameters are not what was named.
        TargetError: the class could not be constructed, or its process died or hung.
    """
    facts = process.load(
        request.processor,
        request.settings or COMMON,
        runner=request.runner,
        vocab_size=request.vocab_size,
        seed=request.seed,
    )
    searched = search(
        process.play,
        n_settings=facts.n_settings,
        most_drafts=facts.most_drafts,
        n_sequences=request.n_sequences,
        seed=request.seed,
        progress=progress,
    )
    faults = [*searched.faults, *process.refusals(request.bad)]
    return ProcessorReport(
        version=version(),
        command=request.command,
        processor=request.processor,
        level=facts.level,
        argmax_invariant=facts.argmax_invariant,
        python=facts.python,
        vocab_size=request.vocab_size,
        seed=request.seed,
        faults=tuple(_first_of_each_kind(faults)),
        counts=dict(searched.counts),
        microseconds=_times(process),
    )


def _first_of_each_kind(faults: list[Fault]) -> list[Fault]:
    first = {fault["kind"]: fault for fault in reversed(faults)}
    return [first[kind] for kind in KINDS if kind in first]


def _times(process: SubjectProcess) -> dict[str, float]:
    """None of a processor that raises: that is reported with the sequence that shows it."""
    try:
        return {str(n): round(process.microseconds(n), 1) for n in BATCH_SIZES}
    except TargetRaised:
        return {}
