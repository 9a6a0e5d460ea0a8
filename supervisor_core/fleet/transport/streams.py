"""The stream COMMANDS and its consumers, made by the hub. Each call may be repeated.

It keeps a message until its host has acknowledged it, and refuses new ones when it's full: the hub sends those later.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from supervisor_core.common.errors import SupervisorError
from supervisor_core.fleet.transport.connection import FleetConnection
from supervisor_core.fleet.transport.subjects import ALL_COMMANDS, COMMANDS, command_subject

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


class StreamError(SupervisorError):
    """The server doesn't make a stream."""


def stream_settings() -> Mapping[str, Any]:
    return {
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


def consumer_settings(host: str) -> Mapping[str, Any]:
    return {
        "durable_name": host,
        "name": host,
        "filter_subject": command_subject(host),
        "deliver_policy": "all",
        "ack_policy": "explicit",
        "ack_wait": ACKNOWLEDGE_SECONDS * SECOND,
        "max_ack_pending": UNACKNOWLEDGED,
        "max_deliver": -1,
    }


async def prepare_stream(connection: FleetConnection) -> None:
    settings = stream_settings()
    answer = await call(connection, f"STREAM.UPDATE.{COMMANDS}", settings)
    if answer.get("error", {}).get("code") == NOT_FOUND:
        answer = await call(connection, f"STREAM.CREATE.{COMMANDS}", settings)
    _check(answer, f"the stream {COMMANDS}")


async def prepare_host(connection: FleetConnection, host: str) -> None:
    content = {"stream_name": COMMANDS, "config": consumer_settings(host)}
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
    """Call the server's JetStream API; the answer may hold an `error`."""
    answer = json.loads(await connection.request(f"$JS.API.{place}", json.dumps(content or {}).encode()))
    return dict(answer)


def _check(answer: Mapping[str, Any], what: str) -> None:
    if "error" in answer:
        reason = answer["error"].get("description", "no reason given")
        raise StreamError(f"The server can't prepare {what}: {reason}.", remedy="Run `supervisor fleet doctor`.")
