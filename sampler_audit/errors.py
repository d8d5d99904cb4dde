"""Everything this tool raises on purpose, with the exit code each ends in.

SamplerAuditError
├── UsageError               2  the command line or an input file is wrong
├── AddressUnavailable       3  the demo server cannot listen where it was told to
└── TargetError              3  an engine could not be audited
    ├── TargetUnavailable       not installed here; the message says what to install
    ├── TargetProtocolError     the worker died, hung, or answered nonsense
    ├── TargetRaised            the engine's own code raised; names the exception
    └── ServerError             a server could not be audited over HTTP
        ├── ServerUnreachable      no connection, no such name, no trust, no answer in time
        ├── ServerRefused          it said no, with a status of 4xx: key, path, size, field
        ├── ServerFailed           429 or 5xx, still there after every retry
        ├── ServerNonsense         an answer that cannot be right
        └── ServerChanged          answers came from more than one model

A message says what was given, what is allowed, and what to do next. What the command line alone
shows to be wrong ends in 2; whatever takes a server to find out ends in 3.
"""


class SamplerAuditError(Exception):
    """Any failure that this tool explains itself."""

    exit_code = 3


class UsageError(SamplerAuditError):
    """The command line, or a file that it names, asks for something that does not exist."""

    exit_code = 2


class AddressUnavailable(SamplerAuditError):
    """Nothing can listen at the address: it is taken, not allowed, or not this machine's."""


class TargetError(SamplerAuditError):
    """An engine could not be audited."""


class TargetUnavailable(TargetError):
    """The engine cannot be imported or needs hardware that is not here."""


class TargetProtocolError(TargetError):
    """The worker process died, hung, or sent something that is not the protocol."""


class TargetRaised(TargetError):
    """The engine's own code raised an exception while it ran."""


class ServerError(TargetError):
    """A server could not be audited over HTTP."""


class ServerUnreachable(ServerError):
    """No connection, no such name, a certificate that is not trusted, or no answer in time."""


class ServerRefused(ServerError):
    """The server said no. Its words stand in the message; ``status`` is its HTTP status."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class ServerFailed(ServerError):
    """The server answered 429 or 5xx, and still did after every retry."""


class ServerNonsense(ServerError):
    """An answer that cannot be right: no JSON, a NaN, fewer choices than were asked for."""


class ServerChanged(ServerError):
    """Answers came from more than one model or provider, so their draws have no common law."""
