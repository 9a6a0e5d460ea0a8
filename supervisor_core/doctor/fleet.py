"""The checks of `supervisor fleet doctor`: key, connection, durability, clock and rights."""

from __future__ import annotations

import contextlib
import re
from datetime import UTC, datetime

from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.times import from_text
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.config.problems import HOST, HUB
from supervisor_core.doctor.checks import CheckResult
from supervisor_core.fleet.keys import KeyPair
from supervisor_core.fleet.transport.connection import FleetConnection, NotPermitted
from supervisor_core.fleet.transport.server import CA
from supervisor_core.fleet.transport.streams import call, require_durability
from supervisor_core.fleet.transport.subjects import COMMANDS, HUB_INBOX, host_inbox

CONNECT_SECONDS = 10.0
MOST_SKEW_SECONDS = 30.0


async def check_fleet(config: SupervisorConfig) -> list[CheckResult]:
    fleet = config.fleet
    if fleet.role not in (HUB, HOST) or fleet.credentials is None:
        return [CheckResult("role", ok=True, message="This host isn't in a fleet.")]
    found: list[CheckResult] = []
    try:
        keys = KeyPair.read(fleet.credentials)
        found.append(CheckResult("key", ok=True, message=f"{fleet.credentials} has the key {keys.public_key}."))
        own = config.fleet_folder / CA
        ca = fleet.ca or (own if fleet.role == HUB and own.exists() else None)
        if ca is not None and not ca.exists():
            remedy = f"Remove fleet.ca to use {own}, which `supervisor fleet init` makes."
            if fleet.role == HOST:
                remedy = f"Join again: `supervisor fleet invite {config.supervisor.id}` on the hub."
            raise SupervisorError(f"The certificate file {ca} is missing.", remedy=remedy)
        inbox = HUB_INBOX if fleet.role == HUB else host_inbox(config.supervisor.id)
        url = fleet.url.get_secret_value()
        async with FleetConnection(url, keys, name="doctor", inbox=inbox, ca=ca) as connection:
            await connection.wait_connected(CONNECT_SECONDS)
            found.append(CheckResult("connection", ok=True, message=f"The server {fleet.url} accepts the key."))
            await (_check_hub if fleet.role == HUB else _check_host)(connection, found)
    except SupervisorError as error:
        names = ("key", "connection", "server", "streams")
        name = names[min(len(found), 3)]
        remedy = error.remedy or (_connection_remedy(config) if name == "connection" else "")
        found.append(CheckResult(name, ok=False, message=error.message, remedy=remedy))
    return found


def _connection_remedy(config: SupervisorConfig) -> str:
    if config.fleet.role == HUB:
        ran = (
            "`supervisor daemon start` starts it, and `supervisor status` says why it doesn't run."
            if config.fleet.server.run
            else "Start it."
        )
        return f"Is the NATS server running? {ran}"
    again = f"A host that was revoked joins again: `supervisor fleet invite {config.supervisor.id}` on the hub."
    return f"Is the NATS server running, and its port open? {again}"


async def _check_hub(connection: FleetConnection, found: list[CheckResult]) -> None:
    server = (await require_durability(connection))["data"]
    version = server["version"]
    found.append(CheckResult("server", ok=True, message=f"nats-server {version} keeps what it acknowledges."))
    with contextlib.suppress(ValueError):  # without a clock
        at = from_text(re.sub(r"(\.\d{1,6})\d*", r"\1", str(server.get("now", ""))))
        apart = abs((datetime.now(UTC) - at).total_seconds())
        remedy = "" if apart <= MOST_SKEW_SECONDS else "Synchronize the clocks (NTP)."
        message = f"The server's clock differs by {apart:.1f} s."
        found.append(CheckResult("clock", ok=not remedy, message=message, remedy=remedy))
    answer = await call(connection, f"STREAM.INFO.{COMMANDS}")
    missing = "error" in answer
    message = f"{COMMANDS} is missing." if missing else f"{COMMANDS} holds {answer['state']['messages']} messages."
    remedy = "Start the hub's daemon, which makes it." if missing else ""
    found.append(CheckResult("stream", ok=not missing, message=message, remedy=remedy))


async def _check_host(connection: FleetConnection, found: list[CheckResult]) -> None:
    """A host's key that may administer was given too many rights."""
    try:
        await call(connection, f"STREAM.INFO.{COMMANDS}")
    except NotPermitted:
        found.append(CheckResult("rights", ok=True, message="The key has no more rights than a host needs."))
    else:
        remedy = "Start the server with the configuration that `supervisor fleet init` wrote."
        message = "The server gives this key the rights of an administrator."
        found.append(CheckResult("rights", ok=False, message=message, remedy=remedy))
