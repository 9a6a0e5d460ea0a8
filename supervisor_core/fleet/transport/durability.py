"""The server's settings that the fleet's promises depend on: what it acknowledges must survive a power cut."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from supervisor_core.common.errors import RefusedError, TemporaryError
from supervisor_core.common.times import from_text
from supervisor_core.fleet.transport.connection import FleetConnection
from supervisor_core.fleet.transport.messages import NotPermitted
from supervisor_core.fleet.transport.subjects import SERVER_VARIABLES

OLDEST = (2, 12, 5)
"""Older servers let a host delete another's command by acknowledging its number in the stream."""

_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")


class NotDurable(RefusedError):
    """The NATS server can't keep the fleet's promises."""


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """The server, as it describes itself to the hub."""

    server_id: str
    version: str
    jetstream: bool
    stored_in: str
    """The folder of its files; empty if it keeps nothing on disk."""
    max_bytes: int
    sync_always: bool
    at: datetime | None
    """Its clock."""

    def faults(self) -> Sequence[str]:
        """The settings that break a promise, each with its remedy."""
        found = []
        version = _VERSION.match(self.version)
        if version is None or tuple(map(int, version.groups())) < OLDEST:
            found.append(f"Its version is {self.version or 'unknown'}. Install {'.'.join(map(str, OLDEST))} or later.")
        if not self.jetstream:
            found.append("JetStream is off. Add the section jetstream to its configuration.")
        elif not self.stored_in or self.max_bytes <= 0:
            found.append("It stores nothing on disk. Set store_dir and max_file_store in its section jetstream.")
        elif not self.sync_always:
            found.append(
                "It acknowledges messages before they are on disk. Set sync_interval: always in its section jetstream."
            )
        return found


def facts_of(answer: Mapping[str, Any]) -> ServerFacts:
    server, data = answer.get("server", {}), answer.get("data", {})
    settings = data.get("jetstream", {}).get("config") or {}
    return ServerFacts(
        str(server.get("id", "")),
        str(data.get("version", "")),
        bool(settings),
        str(settings.get("store_dir", "")),
        int(settings.get("max_storage", 0)),
        settings.get("sync_always") is True,
        _moment(str(data.get("now", ""))),
    )


async def server_facts(connection: FleetConnection) -> ServerFacts:
    """Ask the server; `NotDurable` if it doesn't tell."""
    try:
        return facts_of(json.loads(await connection.request(SERVER_VARIABLES, b"")))
    except (NotPermitted, TemporaryError) as error:
        if not connection.connected:
            raise
        raise NotDurable(
            "The NATS server doesn't tell the hub its settings.",
            remedy="Start it with the configuration that `supervisor fleet init` wrote.",
        ) from error


async def require_durability(connection: FleetConnection) -> ServerFacts:
    """The server's facts; `NotDurable` names every setting that breaks a promise."""
    facts = await server_facts(connection)
    faults = facts.faults()
    if faults:
        raise NotDurable(f"The NATS server can't keep the fleet's promises. {' '.join(faults)}")
    return facts


def _moment(text: str) -> datetime | None:
    try:
        return from_text(re.sub(r"(\.\d{1,6})\d*", r"\1", text))
    except ValueError:
        return None
