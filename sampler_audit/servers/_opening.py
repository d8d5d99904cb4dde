"""Opens a server: a client, what answers there, and the size of its vocabulary."""

import asyncio
import re
from collections.abc import Mapping

from sampler_audit.errors import ServerRefused
from sampler_audit.servers._client import Client, Sleep
from sampler_audit.servers._connection import Connection
from sampler_audit.servers._detection import Detection, detect
from sampler_audit.servers._exchange import Exchange
from sampler_audit.servers._profile import Ask, Profile
from sampler_audit.servers._server import HttpServer


async def open_server(
    connection: Connection, profiles: Mapping[str, Profile], *, sleep: Sleep = asyncio.sleep
) -> HttpServer:
    """See ``connect``; ``sleep`` is how pauses are made."""
    client = Client(connection, sleep=sleep)
    try:
        detection = await detect(client, profiles)
        size = await _vocab_size(client, detection)
    except BaseException:
        # Also where the run is interrupted: an open connection would outlive it.
        await client.close()
        raise
    return HttpServer(Exchange(client, detection, size))


async def _vocab_size(client: Client, detection: Detection) -> int | None:
    """What the server tells, or what its refusal of an impossible token id says."""
    told = detection.facts.get("vocab_size")
    if isinstance(told, int):
        return told
    probe = detection.profile.vocab_probe
    if probe is None:
        return None
    profile = detection.profile
    body = profile.wire.write(profile, Ask(model=detection.model, prompt="A", params=None))
    try:
        await client.ask(profile.wire.path, body | dict(probe.fields))
    except ServerRefused as exc:
        found = re.search(probe.pattern, str(exc))
        return None if found is None else int(found[1]) + probe.add
    return None
