"""The command line: arguments become settings, settings a run, a run reports and an exit code.

Knows no statistics. Whatever is slow to import is imported by the command that needs it, so that
``--help`` is quick and needs neither torch nor scipy.
"""

import shlex
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from sampler_audit.demo_command import demo_server
from sampler_audit.errors import TargetUnavailable
from sampler_audit.options import (
    LEAST_ALPHA,
    MOST_SECONDS,
    NoColorOption,
    QuietOption,
    SeedOption,
    between,
    one_of,
    whole,
)
from sampler_audit.processor_audit.command import processor

if TYPE_CHECKING:
    from sampler_audit.audit import AuditSettings, TargetRequest
    from sampler_audit.reports.files import Outputs

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Find out whether an LLM engine's token sampler draws from the right distribution.

    Exit codes: 0 nothing wrong was found, and planted defects would have been; 1 a fault;
    2 usage; 3 could not audit, or not enough power; 130 interrupted.
    """
    if version:
        from sampler_audit import version as installed

        typer.echo(f"sampler-audit {installed()}")
        raise typer.Exit(0)
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(2)


@app.command()
def local(
    context: typer.Context,
    target: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="What to audit: a name of 'list targets' or module:attr, a function (logits, k, p)"
            " -> masked logits. Repeatable. Default: builtin and every engine that is found.",
        ),
    ] = None,
    python: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="The interpreter that the engine is installed in."),
    ] = None,
    lib: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="The libllama.so of llama_cpp; else llama-cpp-python's."),
    ] = None,
    device: Annotated[
        str,
        typer.Option(
            parser=one_of("auto", "cpu", "cuda"),
            metavar="auto|cpu|cuda",
            help="Where the samplers run; auto takes a GPU where there is one.",
        ),
    ] = "auto",
    combos: Annotated[
        str,
        typer.Option(
            metavar="SET",
            help="Combinations of filters: core, singles, pairs, triples, all, or names of"
            " 'list combos', as in top_k+top_p+min_p,top_k.",
        ),
    ] = "core",
    rows: Annotated[
        str,
        typer.Option(
            metavar="SET",
            help="Rows of logits: quick, core, full, real, or names of 'list rows', as in"
            " zipf,constant@8192. With --combos core, core means quick.",
        ),
    ] = "core",
    only: Annotated[
        str | None,
        typer.Option(metavar="ID", help="One cell, by its id, instead of --combos and --rows."),
    ] = None,
    draws: Annotated[
        int | None,
        typer.Option(
            parser=whole(1), metavar="N", help="The most draws that a cell gets; else 200."
        ),
    ] = None,
    defect: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Plant a defect of 'list defects' in builtin."),
    ] = None,
    when: Annotated[
        str | None,
        typer.Option(metavar="COMBO", help="The planted defect acts only when these are all on."),
    ] = None,
    alpha: Annotated[
        float,
        typer.Option(
            parser=between(LEAST_ALPHA, 1),
            metavar="RATE",
            help="False-alarm rate of the whole run.",
        ),
    ] = 1e-4,
    gate: Annotated[
        str,
        typer.Option(
            parser=one_of("e-value", "chi-square"),
            metavar="e-value|chi-square",
            help="Which statistic fails a run.",
        ),
    ] = "e-value",
    seed: SeedOption = None,
    timeout: Annotated[
        float,
        typer.Option(
            parser=between(0, MOST_SECONDS), metavar="SECONDS", help="Longest wait for one answer."
        ),
    ] = 600,
    known: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Known faults (TOML: id, reason, link), not counted."),
    ] = None,
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write everything as JSON.")
    ] = None,
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="Write JUnit XML.")] = None,
    markdown: Annotated[Path | None, typer.Option(metavar="FILE", help="Write Markdown.")] = None,
    github: Annotated[
        bool, typer.Option("--github", help="Annotations and step summary of GitHub Actions.")
    ] = False,
    allow_inconclusive: Annotated[
        bool, typer.Option("--allow-inconclusive", help="End 0 where only power is lacking.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the plan's cells and draw nothing.")
    ] = False,
    quiet: QuietOption = False,
    no_color: NoColorOption = False,
) -> int:
    """Audit the samplers on this machine.

    Our own, and every engine that can be imported here or by the interpreter of --python.
    """
    from sampler_audit.audit import AuditSettings
    from sampler_audit.known import read_known
    from sampler_audit.plan import Gate
    from sampler_audit.reports.files import Outputs, github_outputs
    from sampler_audit.requests import choose_requests

    outputs = Outputs(json=json, junit=junit, markdown=markdown)
    outputs = github_outputs(outputs) if github else outputs
    requests = choose_requests(
        target or [],
        python=python,
        device=cast(Literal["auto", "cpu", "cuda"], device),
        defect=defect,
        when=when,
        timeout_s=timeout,
        lib=lib,
    )
    run_seed = _fresh_seed() if seed is None else seed
    settings = AuditSettings(
        combos=combos,
        rows=rows,
        only=only,
        n_draws=draws,
        alpha=alpha,
        gate=cast(Gate, gate),
        seed=run_seed,
        command=_command(context.obj, run_seed if seed is None else None),
        known=read_known(known) if known else (),
    )
    searched = not target and defect is None
    if dry_run:
        return _print_plans(settings, requests, searched)
    outputs.check()
    with _one_interrupt():
        return _run(
            settings,
            requests,
            outputs,
            searched=searched,
            allow_inconclusive=allow_inconclusive,
            quiet=quiet,
            no_color=no_color,
        )


@app.command()
def selftest(
    seed: SeedOption = None, quiet: QuietOption = False, no_color: NoColorOption = False
) -> int:
    """Check the auditor itself.

    Plants every defect, which must be found, and audits healthy samplers, which must not fail.
    """
    from sampler_audit.reports import selftest as selftest_report
    from sampler_audit.reports.progress import progress_bar
    from sampler_audit.reports.terminal import make_console
    from sampler_audit.selftest import run_selftest

    console = make_console(no_color=no_color, stderr=True)
    with progress_bar(console, quiet=quiet) as progress:
        report = run_selftest(seed=_fresh_seed() if seed is None else seed, progress=progress)
    selftest_report.show(report, make_console(no_color=no_color), quiet=quiet)
    return 0 if report.outcome == "pass" else 1


app.command("demo-server")(demo_server)
app.command()(processor)


@app.command("list")
def list_(
    what: Annotated[
        str,
        typer.Argument(
            parser=one_of("rows", "combos", "targets", "checks", "defects", "conventions"),
            metavar="rows|combos|targets|checks|defects|conventions",
        ),
    ],
) -> None:
    """Print what there is: one name a line, and what it is."""
    from sampler_audit.listing import LISTINGS

    pairs = LISTINGS[what]()
    width = max(len(name) for name, _ in pairs)
    for name, text in pairs:
        typer.echo(f"{name:<{width}}  {text}".rstrip())


def _print_plans(
    settings: "AuditSettings", requests: "Sequence[TargetRequest]", searched: bool
) -> int:
    from sampler_audit import audit
    from sampler_audit.reports.dry_run import render

    plans = []
    for request in requests:
        try:
            plans += audit.dry_run(settings, [request])
        except TargetUnavailable as exc:
            if not searched:
                raise
            typer.echo(f"not reached  {request.name}: {exc}", err=True)
    typer.echo(render([(info.name, plan) for info, plan in plans]), nl=False)
    return 0


def _run(
    settings: "AuditSettings",
    requests: "Sequence[TargetRequest]",
    outputs: "Outputs",
    *,
    searched: bool,
    allow_inconclusive: bool,
    quiet: bool,
    no_color: bool,
) -> int:
    from dataclasses import replace

    from sampler_audit.audit import run_audit
    from sampler_audit.reports import terminal
    from sampler_audit.reports.conclusion import exit_code
    from sampler_audit.reports.progress import progress_bar
    from sampler_audit.reports.words import log10_e

    console = terminal.make_console(no_color=no_color, stderr=True)
    with progress_bar(console, quiet=quiet) as progress:
        report = run_audit(
            settings,
            requests,
            lambda step: progress(
                step.target, step.done, step.total, f"log10 E {log10_e(step.log_e)}"
            ),
        )
    report = replace(report, searched=searched)
    # Files first: a closed pipe on stdout must not lose them.
    annotations = outputs.write(report, allow_inconclusive=allow_inconclusive)
    terminal.show(report, terminal.make_console(no_color=no_color), quiet=quiet)
    for annotation in annotations:
        typer.echo(annotation)
    return exit_code(report, allow_inconclusive=allow_inconclusive)


@contextmanager
def _one_interrupt() -> Iterator[None]:
    """Ctrl-C interrupts once: what follows takes no time, and a second would lose the report."""

    def interrupt(_number: int, _frame: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _fresh_seed() -> int:
    import secrets

    return secrets.randbelow(2**31)


def _command(words: Sequence[str], fresh_seed: int | None) -> str:
    """The command line as typed, with the seed that makes it repeatable."""
    seed = [] if fresh_seed is None else ["--seed", str(fresh_seed)]
    return shlex.join(["sampler-audit", *words, *seed])
