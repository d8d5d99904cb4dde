"""Everything this tool raises on purpose, with the exit code each ends in.

SamplerAuditError
├── UsageError               2  the command line or an input file is wrong
└── TargetError              3  an engine could not be audited
    ├── TargetUnavailable       not installed here; the message says what to install
    ├── TargetProtocolError     the worker died, hung, or answered nonsense
    └── TargetRaised            the engine's own code raised; names the exception

A message says what was given, what is allowed, and what to do next.
"""


class SamplerAuditError(Exception):
    """Any failure that this tool explains itself."""

    exit_code = 3


class UsageError(SamplerAuditError):
    """The command line, or a file that it names, asks for something that does not exist."""

    exit_code = 2


class TargetError(SamplerAuditError):
    """An engine could not be audited."""


class TargetUnavailable(TargetError):
    """The engine cannot be imported or needs hardware that is not here."""


class TargetProtocolError(TargetError):
    """The worker process died, hung, or sent something that is not the protocol."""


class TargetRaised(TargetError):
    """The engine's own code raised an exception while it ran."""
