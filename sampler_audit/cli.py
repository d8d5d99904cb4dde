"""The command line: arguments become settings, settings a run, a run reports and an exit code.

Knows no statistics. Whatever is slow to import is imported by the command that needs it, so that
``--help`` is quick and needs neither torch nor scipy.
"""

import math
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from sampler_audit.errors import TargetUnavailable, UsageError

if TYPE_CHECKING:
    from sampler_audit.audit import AuditSettings, TargetRequest
    from sampler_audit.reports.files import Outputs

OWN_TARGETS = ("builtin", "torch")
"""Targets that are part of this tool; every other one is an engine."""

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _whole(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise typer.BadParameter(f"expected a whole number >= {least}, got {text!r}")
        return value

    return parse


def _between(low: float, high: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not low < value < high:
            above = f"above {low:g}" + (f" and below {high:g}" if math.isfinite(high) else "")
            raise typer.BadParameter(f"expected a number {above}, got {str(text)!r}")
        return value

    return parse


def _one_of(*allowed: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in allowed:
            raise typer.BadParameter(f"{text!r} is not one of {', '.join(allowed)}")
        return text

    return parse


SeedOption = Annotated[
    int | None,
    typer.Option(parser=_whole(0), metavar="N", help="Seed of the run; else fresh, and printed."),
]
QuietOption = Annotated[bool, typer.Option("--quiet", help="No progress bar; verdicts only.")]
NoColorOption = Annotated[bool, typer.Option("--no-color", help="No colours (NO_COLOR works too).")]


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
    device: Annotated[
        str,
        typer.Option(parser=_one_of("auto", "cpu", "cuda"), metavar="auto|cpu|cuda", help="Where."),
    ] = "auto",
    combos: Annotated[
        str,
        typer.Option(
            metavar="SET",
            help="Combinations of filters: core, singles, pairs, triples, all, or as in"
            " top_k+top_p+min_p,top_k.",
        ),
    ] = "core",
    rows: Annotated[
        str,
        typer.Option(metavar="SET", help="Rows of logits: core, full, or names of 'list rows'."),
    ] = "core",
    only: Annotated[
        str | None,
        typer.Option(metavar="ID", help="One cell, by the id that the report prints."),
    ] = None,
    draws: Annotated[
        int | None,
        typer.Option(parser=_whole(1), metavar="N", help="The most draws that a cell gets."),
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
            parser=_between(0, 1), metavar="RATE", help="False-alarm rate of the whole run."
        ),
    ] = 1e-4,
    gate: Annotated[
        str,
        typer.Option(
            parser=_one_of("e-value", "chi-square"),
            metavar="e-value|chi-square",
            help="Which statistic fails a run.",
        ),
    ] = "e-value",
    seed: SeedOption = None,
    timeout: Annotated[
        float,
        typer.Option(
            parser=_between(0, math.inf), metavar="SECONDS", help="Longest wait for one answer."
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
    """Audit the samplers on this machine: our own, and every engine that can be imported."""
    from sampler_audit.audit import AuditSettings
    from sampler_audit.known import read_known
    from sampler_audit.plan import Gate
    from sampler_audit.reports.files import Outputs, github_outputs

    outputs = Outputs(json=json, junit=junit, markdown=markdown)
    outputs = github_outputs(outputs) if github else outputs
    requests = choose_requests(
        target or [],
        python=python,
        device=cast(Literal["auto", "cpu", "cuda"], device),
        defect=defect,
        when=when,
        timeout_s=timeout,
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
    """Plant every defect, which must be found, and audit healthy samplers, which must not fail."""
    from sampler_audit.reports import selftest as selftest_report
    from sampler_audit.reports.progress import progress_bar
    from sampler_audit.reports.terminal import make_console
    from sampler_audit.selftest import run_selftest

    console = make_console(no_color=no_color, stderr=True)
    with progress_bar(console, quiet=quiet) as progress:
        report = run_selftest(seed=_fresh_seed() if seed is None else seed, progress=progress)
    selftest_report.show(report, make_console(no_color=no_color), quiet=quiet)
    return 0 if report.outcome == "pass" else 1


@app.command("list")
def list_(
    what: Annotated[
        str,
        typer.Argument(
            parser=_one_of("rows", "combos", "targets", "checks", "defects", "conventions"),
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


def choose_requests(
    names: Sequence[str],
    *,
    python: str | None,
    device: Literal["auto", "cpu", "cuda"],
    defect: str | None,
    when: str | None,
    timeout_s: float,
) -> "list[TargetRequest]":
    """What to audit, each once: the targets named, or builtin and every engine.

    ``python`` is the interpreter of the engines; this tool's own targets run in this one.

    Raises:
        UsageError: an unknown target or defect, or a defect planted in somebody else's engine.
    """
    from sampler_audit.audit import TargetRequest
    from sampler_audit.targets import describe, target_names

    options = _defect_options(defect, when)
    engines = [name for name in target_names() if name not in OWN_TARGETS]
    chosen = list(dict.fromkeys(names)) or ["builtin", *([] if options else engines)]
    for name in chosen:
        # Before the first target runs, not after: this raises for a name that is no target.
        describe(name)
    if options and chosen != ["builtin"]:
        raise UsageError(f"--defect plants a fault in builtin, not in {', '.join(chosen)}")
    if python is not None and set(chosen) <= set(OWN_TARGETS):
        raise UsageError(f"--python is for engines; {', '.join(chosen)} runs in this interpreter")
    return [
        TargetRequest(
            name=name,
            python=None if name in OWN_TARGETS else python,
            device=device,
            options=options,
            timeout_s=timeout_s,
        )
        for name in chosen
    ]


def _defect_options(defect: str | None, when: str | None) -> dict[str, str]:
    from sampler_reference.defects import DEFECTS
    from sampler_scenarios.params import combo_name, make_combo

    if defect is None:
        if when is not None:
            raise UsageError("--when says when a planted defect acts; give --defect NAME too")
        return {}
    if defect not in DEFECTS:
        raise UsageError(f"unknown defect {defect!r}; known: {', '.join(DEFECTS)}")
    if when is None:
        return {"defect": defect}
    try:
        return {"defect": defect, "when": combo_name(make_combo(when.split("+")))}
    except ValueError as exc:
        raise UsageError(f"--when: {exc}") from exc


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


def _fresh_seed() -> int:
    import secrets

    return secrets.randbelow(2**31)


def _command(words: Sequence[str] | None, fresh_seed: int | None) -> str:
    """The command line as typed, with the seed that makes it repeatable."""
    typed = ["sampler-audit", *(sys.argv[1:] if words is None else words)]
    return shlex.join(typed + ([] if fresh_seed is None else ["--seed", str(fresh_seed)]))
