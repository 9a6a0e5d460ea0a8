"""What the hub needs of the server: that it keeps what it acknowledges, and the stream COMMANDS with its consumers.

The stream keeps a message until its host has acknowledged it, and refuses new ones when it's full: the hub sends those
later. Each call may be repeated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from supervisor_core.common.errors import RefusedError, SupervisorError, TemporaryError
from supervisor_core.fleet.transport.connection import FleetConnection, NotPermitted
from supervisor_core.fleet.transport.subjects import ALL_COMMANDS, COMMANDS, SERVER_VARIABLES, command_subject

OLDEST = (2, 12, 5)
"""Older servers let a host delete another's command by acknowledging its number in the stream."""

_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")


class NotDurable(RefusedError):
    """The NATS server can't keep the fleet's promises."""


def find_faults(answer: Mapping[str, Any]) -> Sequence[str]:
    """The server's settings that break a promise, each with its remedy. What it acknowledges survives a power cut."""
    data = answer.get("data", {})
    name, settings = str(data.get("version", "")), data.get("jetstream", {}).get("config") or {}
    faults, version = [], _VERSION.match(name)
    if version is None or tuple(map(int, version.groups())) < OLDEST:
        faults.append(f"Its version is {name or 'unknown'}. Install {'.'.join(map(str, OLDEST))} or later.")
    if not settings:
        faults.append("JetStream is off. Add the section jetstream to its configuration.")
    elif not settings.get("store_dir") or int(settings.get("max_storage", 0)) <= 0:
        faults.append("It stores nothing on disk. Set store_dir and max_file_store in its section jetstream.")
    elif settings.get("sync_always") is not True:
        faults.append(
            "It acknowledges messages before they are on disk. Set sync_interval: always in its section jetstream."
        )
    return faults


async def ask_server(connection: FleetConnection) -> dict[str, Any]:
    """The server's description of itself; `NotDurable` if it doesn't tell."""
    try:
        return dict(json.loads(await connection.request(SERVER_VARIABLES, b"")))
    except (NotPermitted, TemporaryError) as error:
        if not connection.connected:
            raise
        raise NotDurable(
            "The NATS server doesn't tell the hub its settings.",
            remedy="Start it with the configuration that `supervisor fleet init` wrote.",
        ) from error


async def require_durability(connection: FleetConnection) -> dict[str, Any]:
    """The server's description of itself; `NotDurable` names every setting that breaks a promise."""
    answer = await ask_server(connection)
    if faults := find_faults(answer):
        raise NotDurable(f"The NATS server can't keep the fleet's promises. {' '.join(faults)}")
    return answer


SECOND = 10**9
"""In the server's nanoseconds."""

DUPLICATE_SECONDS = 15 * 60
"""A message with the same id isn't stored again in this time. Later, the receiver's ledger knows the id."""

COMMANDS_KEPT_SECONDS = 7 * 24 * 3600
"""A command to a host that is away for longer is gone. Its deadline was over long before."""

MAX_COMMANDS = 10_000
"""Stored messages of one host."""

UNACKNOWLEDGED = 1
"""Messages that a consumer may have at a time. With one, a host gets its commands in order, whatever is repeated."""

ACKNOWLEDGE_SECONDS = 30
NOT_FOUND = 404


async def prepare_stream(connection: FleetConnection) -> None:
    settings = {
        "name": COMMANDS,
        "subjects": [ALL_COMMANDS],
        "storage": "file",
        "retention": "workqueue",
        "discard": "new",
        "discard_new_per_subject": True,
        "max_msgs_per_subject": MAX_COMMANDS,
        "max_age": COMMANDS_KEPT_SECONDS * SECOND,
        "duplicate_window": DUPLICATE_SECONDS * SECOND,
        "num_replicas": 1,
        "deny_delete": False,
    }
    answer = await call(connection, f"STREAM.UPDATE.{COMMANDS}", settings)
    if answer.get("error", {}).get("code") == NOT_FOUND:
        answer = await call(connection, f"STREAM.CREATE.{COMMANDS}", settings)
    _check(answer, f"the stream {COMMANDS}")


async def prepare_host(connection: FleetConnection, host: str) -> None:
    consumer = {
        "durable_name": host,
        "name": host,
        "filter_subject": command_subject(host),
        "deliver_policy": "all",
        "ack_policy": "explicit",
        "ack_wait": ACKNOWLEDGE_SECONDS * SECOND,
        "max_ack_pending": UNACKNOWLEDGED,
        "max_deliver": -1,
    }
    content = {"stream_name": COMMANDS, "config": consumer}
    answer = await call(connection, f"CONSUMER.DURABLE.CREATE.{COMMANDS}.{host}", content)
    _check(answer, f"the consumer {host} of {COMMANDS}")


async def remove_host(connection: FleetConnection, host: str) -> None:
    """Delete the consumer of a host, and its commands. What it has reported stays."""
    for place, content in (
        (f"CONSUMER.DELETE.{COMMANDS}.{host}", {}),
        (f"STREAM.PURGE.{COMMANDS}", {"filter": command_subject(host)}),
    ):
        answer = await call(connection, place, content)
        if answer.get("error", {}).get("code") != NOT_FOUND:
            _check(answer, f"the commands of {host}")


async def call(connection: FleetConnection, place: str, content: Mapping[str, Any] | None = None) -> dict[str, Any]:
    answer = json.loads(await connection.request(f"$JS.API.{place}", json.dumps(content or {}).encode()))
    return dict(answer)


def _check(answer: Mapping[str, Any], what: str) -> None:
    if "error" in answer:
        reason = answer["error"].get("description", "no reason given")
        raise SupervisorError(f"The server can't prepare {what}: {reason}.", remedy="Run `supervisor fleet doctor`.")
