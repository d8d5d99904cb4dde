"""Where reports go besides the terminal: checked before the run, written after it."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from sampler_audit.errors import SamplerAuditError, UsageError
from sampler_audit.reports import github, json, junit, markdown
from sampler_audit.results import AuditReport


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """The files that were asked for; ``step_summary`` is appended to, the others are replaced."""

    json: Path | None = None
    junit: Path | None = None
    markdown: Path | None = None
    step_summary: Path | None = None
    annotate: bool = False

    def check(self) -> None:
        """Every file can be written, and none is left behind by asking.

        Raises:
            UsageError: a path that cannot be written, with the reason.
        """
        paths = [p for p in (self.json, self.junit, self.markdown, self.step_summary) if p]
        for path in paths:
            _check_writable(path)

    def write(self, report: AuditReport, *, allow_inconclusive: bool) -> list[str]:
        """Write the files; returns the annotations, which belong on stdout.

        Raises:
            SamplerAuditError: a file could not be written after all.
        """
        for path, text, mode in self._texts(report, allow_inconclusive):
            try:
                with path.open(mode, encoding="utf-8") as file:
                    file.write(text)
            except OSError as exc:
                raise SamplerAuditError(f"cannot write {path}: {exc.strerror}") from exc
        return github.annotations(report) if self.annotate else []

    def _texts(
        self, report: AuditReport, allow_inconclusive: bool
    ) -> Iterator[tuple[Path, str, str]]:
        if self.json:
            yield self.json, json.render(report), "w"
        if self.junit:
            yield self.junit, junit.render(report, allow_inconclusive=allow_inconclusive), "w"
        if self.markdown:
            yield self.markdown, markdown.render(report), "w"
        if self.step_summary:
            yield self.step_summary, markdown.render(report), "a"


def github_outputs(outputs: Outputs) -> Outputs:
    """``outputs`` with annotations and, where GitHub Actions names a file for it, the summary."""
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    return replace(outputs, step_summary=Path(summary) if summary else None, annotate=True)


def _check_writable(path: Path) -> None:
    """Open for appending, which truncates nothing; pipes and devices are taken on trust."""
    existed = path.exists()
    if existed and not path.is_file() and not path.is_dir():
        return
    try:
        with path.open("ab"):
            pass
        if not existed:
            path.unlink()
    except OSError as exc:
        raise UsageError(
            f"cannot write {path}: {exc.strerror}; name a file in a folder that exists and is yours"
        ) from exc
