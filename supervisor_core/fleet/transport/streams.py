"""The streams COMMANDS and FEED and their consumers, made by the hub. Each call may be repeated.

Both keep a message until its consumer has acknowledged it, and refuse new ones when they are full: the sender's outbox
repeats those.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from supervisor_core.common.errors import SupervisorError
from supervisor_core.fleet.transport.connection import FleetConnection
from supervisor_core.fleet.transport.subjects import (
    ALL_COMMANDS,
    ALL_FEEDS,
    COMMANDS,
    FEED,
    HUB_CONSUMER,
    command_subject,
)

SECOND = 10**9
"""In the server's nanoseconds."""

DUPLICATE_SECONDS = 15 * 60
"""A message with the same id isn't stored again in this time. Later, the receiver's ledger knows the id."""

COMMANDS_KEPT_SECONDS = 7 * 24 * 3600
"""A command to a host that is away for longer is gone. Its deadline was over long before."""

MAX_COMMANDS, MAX_FEED = 10_000, 1_000_000
"""Stored messages of one host."""

UNACKNOWLEDGED_COMMANDS, UNACKNOWLEDGED_FEED = 1, 1000
"""Messages that a consumer may have at a time. With one, a host gets its commands in order, whatever is repeated."""

ACKNOWLEDGE_SECONDS = 30
NOT_FOUND = 404


class StreamError(SupervisorError):
    """The server doesn't make a stream."""


def stream_settings(name: str) -> Mapping[str, Any]:
    """The configuration of a stream, as the server's API has it."""
    commands = name == COMMANDS
    return {
        "name": name,
        "subjects": [ALL_COMMANDS if commands else ALL_FEEDS],
        "storage": "file",
        "retention": "workqueue",
        "discard": "new",
        "discard_new_per_subject": True,
        "max_msgs_per_subject": MAX_COMMANDS if commands else MAX_FEED,
        "max_age": COMMANDS_KEPT_SECONDS * SECOND if commands else 0,
        "duplicate_window": DUPLICATE_SECONDS * SECOND,
        "num_replicas": 1,
        "deny_delete": False,
    }


def consumer_settings(name: str, subject: str, unacknowledged: int) -> Mapping[str, Any]:
    """The configuration of a durable pull consumer."""
    return {
        "durable_name": name,
        "name": name,
        "filter_subject": subject,
        "deliver_policy": "all",
        "ack_policy": "explicit",
        "ack_wait": ACKNOWLEDGE_SECONDS * SECOND,
        "max_ack_pending": unacknowledged,
        "max_deliver": -1,
    }


async def prepare_streams(connection: FleetConnection) -> None:
    """Create or update the streams, and the hub's consumer."""
    for name in (COMMANDS, FEED):
        settings = stream_settings(name)
        answer = await call(connection, f"STREAM.UPDATE.{name}", settings)
        if answer.get("error", {}).get("code") == NOT_FOUND:
            answer = await call(connection, f"STREAM.CREATE.{name}", settings)
        _check(answer, f"the stream {name}")
    await _prepare_consumer(connection, FEED, consumer_settings(HUB_CONSUMER, ALL_FEEDS, UNACKNOWLEDGED_FEED))


async def prepare_host(connection: FleetConnection, host: str) -> None:
    """Create or update the consumer of a host's commands."""
    settings = consumer_settings(host, command_subject(host), UNACKNOWLEDGED_COMMANDS)
    await _prepare_consumer(connection, COMMANDS, settings)


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


async def _prepare_consumer(connection: FleetConnection, stream: str, settings: Mapping[str, Any]) -> None:
    place = f"CONSUMER.DURABLE.CREATE.{stream}.{settings['name']}"
    answer = await call(connection, place, {"stream_name": stream, "config": settings})
    _check(answer, f"the consumer {settings['name']} of {stream}")


def _check(answer: Mapping[str, Any], what: str) -> None:
    if "error" in answer:
        reason = answer["error"].get("description", "no reason given")
        raise StreamError(f"The server can't prepare {what}: {reason}.", remedy="Run `supervisor fleet doctor`.")
