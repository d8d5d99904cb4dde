"""The process boundary: every way to end becomes an exit code and at most one line on stderr."""

import io
import os
import sys
from collections.abc import Sequence

import typer

from sampler_audit.cli import app
from sampler_audit.errors import SamplerAuditError

DEBUG = "SAMPLER_AUDIT_DEBUG"

# typer exports no base class of its own errors, and which package defines it varies by version.
_BadUsage: type[Exception] = typer.BadParameter.__bases__[0]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (``sys.argv`` by default); returns the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # An ASCII terminal must not end an audit.
        sys.stdout.reconfigure(errors="replace")
    try:
        code = _invoke(words)
        if sys.stdout is not None:
            sys.stdout.flush()
    except SamplerAuditError as exc:
        return _complain(str(exc), exc.exit_code)
    except _BadUsage as exc:
        return _complain(_usage_message(exc), 2)
    except (typer.Abort, KeyboardInterrupt):
        return _complain("interrupted", 130)
    except (SystemExit, BrokenPipeError):
        return _closed_pipe()
    # The boundary of the process: whatever is not ours still must not look like a traceback.
    except Exception as exc:
        if os.environ.get(DEBUG):
            sys.excepthook(type(exc), exc, exc.__traceback__)
        return _complain(
            f"internal error: {type(exc).__name__}: {exc}; please report, rerun with {DEBUG}=1"
            " for the traceback",
            3,
        )
    return code


def _invoke(words: Sequence[str]) -> int:
    """The command's exit code. Not ``app()``, which turns Ctrl-C and closed pipes into its own."""
    command = typer.main.get_command(app)
    try:
        with command.make_context("sampler-audit", list(words), obj=words) as context:
            code = command.invoke(context)
    except typer.Exit as exc:
        return exc.exit_code
    return code if isinstance(code, int) else 0


def _usage_message(exc: Exception) -> str:
    """What was wrong and where help is; typer's errors all have ``format_message`` and ``ctx``."""
    message = getattr(exc, "format_message", exc.__str__)()
    context = getattr(exc, "ctx", None)
    path = context.command_path if context is not None else "sampler-audit"
    return f"{message.rstrip('.')}; see {path} --help"


def _complain(message: str, code: int) -> int:
    # Not sys.stderr.write: there may be no stderr.
    typer.echo(f"sampler-audit: {' '.join(message.split())}", err=True)
    return code


def _closed_pipe() -> int:
    """The reader went away (``| head``): 1 would claim a fault, and 0 that nothing was cut off."""
    # Python flushes stdout once more when it exits, which would print a traceback.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 3


if __name__ == "__main__":
    sys.exit(main())
