"""``sampler-audit processor``: its options, and how they become an audit and a report."""

from pathlib import Path
from typing import Annotated

import typer

from sampler_audit.options import (
    MOST_SECONDS,
    NoColorOption,
    QuietOption,
    SeedOption,
    between,
    one_of,
    whole,
)

RUNNERS = ("sampler-audit", "vllm-v2", "vllm-v1", "vllm-v1-tpu")
"""The names of ``sampler.processors.RULES``, which is too slow to import here."""


def processor(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="MODULE:CLASS")],
    params: Annotated[
        list[str] | None,
        typer.Option(
            "--params",
            metavar="JSON",
            help="Parameters that switch it on, as in"
            """ '{"extra_args": {"target_token": 3}}'. Repeatable; requests without come on top."""
            " Default: min_p, logit_bias and min_tokens.",
        ),
    ] = None,
    bad_params: Annotated[
        list[str] | None,
        typer.Option(
            "--bad-params", metavar="JSON", help="Parameters that it must refuse. Repeatable."
        ),
    ] = None,
    python: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="The interpreter that the class is written for."),
    ] = None,
    runner: Annotated[
        str,
        typer.Option(
            parser=one_of(*RUNNERS),
            metavar="|".join(RUNNERS),
            help="Whose rules load it: which interfaces run there, and whether any does.",
        ),
    ] = RUNNERS[0],
    vocab_size: Annotated[
        int, typer.Option(parser=whole(16), metavar="N", help="Width of a row of logits.")
    ] = 1024,
    sequences: Annotated[
        int, typer.Option(parser=whole(1), metavar="N", help="How many sequences are tried.")
    ] = 200,
    seed: SeedOption = None,
    timeout: Annotated[
        float,
        typer.Option(
            parser=between(0, MOST_SECONDS), metavar="SECONDS", help="Longest wait for one answer."
        ),
    ] = 600,
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write everything as JSON.")
    ] = None,
    quiet: QuietOption = False,
    no_color: NoColorOption = False,
) -> int:
    """Audit a custom logits processor, ours or one written for an installed vLLM.

    Requests come, go, move and change places; every row must be what a fresh instance gives to its
    request alone. Each fault is shown with the smallest sequence that has it.
    """
    import secrets

    from sampler_audit.processor_audit import report as reports
    from sampler_audit.processor_audit.audit import ProcessorRequest, audit_processor
    from sampler_audit.processor_audit.settings import read_settings
    from sampler_audit.reports.files import Outputs
    from sampler_audit.reports.progress import progress_bar
    from sampler_audit.reports.terminal import make_console

    Outputs(json=json).check()
    run_seed = secrets.randbelow(2**31) if seed is None else seed
    request = ProcessorRequest(
        processor=name,
        python=python,
        runner=runner,
        settings=tuple(read_settings(text, "--params") for text in params or ()),
        bad=tuple(read_settings(text, "--bad-params") for text in bad_params or ()),
        vocab_size=vocab_size,
        n_sequences=sequences,
        seed=run_seed,
        timeout_s=timeout,
        command=_command(context.obj or [], run_seed if seed is None else None),
    )
    with progress_bar(make_console(no_color=no_color, stderr=True), quiet=quiet) as progress:
        report = audit_processor(request, progress)
    if json:
        _write(json, reports.to_json(report))
    reports.show(report, make_console(no_color=no_color), quiet=quiet)
    return report.exit_code


def _write(path: Path, text: str) -> None:
    from sampler_audit.errors import SamplerAuditError

    try:
        path.write_text(text, encoding="utf-8")
    except OSError as exc:
        raise SamplerAuditError(f"cannot write {path}: {exc.strerror}") from exc


def _command(words: list[str], fresh_seed: int | None) -> str:
    import shlex

    seed = [] if fresh_seed is None else ["--seed", str(fresh_seed)]
    return shlex.join(["sampler-audit", *words, *seed])
