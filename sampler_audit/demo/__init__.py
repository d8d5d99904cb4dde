"""The demo server: this project's own sampler over a tiny built-in model, in an engine's words.

It lets a newcomer see an audit pass and fail in a minute, and is the test double of our own tests.
It shares no code with the clients in ``servers``, which read it.
"""

from sampler_audit.demo.planted import HIDDEN
from sampler_audit.demo.server import STYLES, RunningServer, start_demo_server
from sampler_audit.demo.service import MODEL, DemoSettings

__all__ = ["HIDDEN", "MODEL", "STYLES", "DemoSettings", "RunningServer", "start_demo_server"]
