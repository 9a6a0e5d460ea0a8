"""Messages of a fleet: what the hub signs, and how a host checks it.

The hub signs each command and each question with its key. A host acts only on a message with a valid signature that is
addressed to it; somebody who controls the NATS server can't make one, and an altered one is refused.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.command import Command, Issuer
from supervisor_core.common.errors import RefusedError
from supervisor_core.common.text import canonical_json
from supervisor_core.common.times import from_text, to_text
from supervisor_core.fleet.keys import KeyPair

VERSION = 1
COMMAND, QUESTION = "command", "question"
"""The kinds of messages. The kind is signed, so that one can't stand in for the other."""


class InvalidMessage(RefusedError):
    """A message that the hub didn't write, or not for this host. Nothing in it counts."""


class UnfollowableMessage(InvalidMessage):
    """A message that the hub wrote for this host, and that can't be followed."""

    task_id = ""
    """The id of its command."""


Verifier = Callable[[bytes, str], bool]
"""Checks a signature of these bytes with the hub's public key. Never raises."""


@dataclass(frozen=True, slots=True)
class CommandMessage:
    """A command for workers of one host."""

    host: str
    command: Command
    """With its issuer and id, and the host's own worker ids."""
    door: str
    filed_at: datetime
    start_before: datetime
    """The command isn't started after this time."""
    approvals: tuple[Mapping[str, Any], ...] = field(default_factory=tuple)

    def encode(self, key: KeyPair) -> bytes:
        """The signed message. Each call gives another one, so that a host can tell the hub, which sends a command again
        after a crash, from somebody who repeats its message."""
        command, issuer = self.command, self.command.issuer
        if issuer is None:
            raise ValueError("a command without a requester isn't sent")
        body = {
            "task_id": command.task_id,
            "command": command.name,
            "target": command.target,
            "workers": list(command.workers),
            "params": dict(command.params),
            "label": command.label,
            "issuer": {"id": issuer.id, "name": issuer.name, "owner": issuer.owner},
            "door": self.door,
            "filed_at": to_text(self.filed_at),
            "start_before": to_text(self.start_before),
            "approvals": [dict(each) for each in self.approvals],
            "sending": uuid.uuid4().hex,
        }
        return signed(COMMAND, self.host, body, key)


def read_command(data: bytes, host: str, verify: Verifier) -> CommandMessage:
    """The command in a message for this host; `InvalidMessage` says what's wrong with another one."""
    body = read_signed(COMMAND, data, host, verify)
    if (name := str(body.get("command"))) not in CATALOG:
        unknown = UnfollowableMessage(
            f"{host} has no command {name}.",
            remedy="Update the supervisor on this host to the hub's version. A custom command must be in this host's "
            "configuration, too, and a plug-in must be installed there.",
        )
        unknown.task_id = str(body.get("task_id", ""))
        raise unknown
    try:
        issuer = body["issuer"]
        command = Command(
            CATALOG[body["command"]].name,
            target=str(body["target"]),
            workers=tuple(map(str, body["workers"])),
            params=dict(body["params"]),
            label=body["label"],
            issuer=Issuer(str(issuer["id"]), str(issuer["name"]), str(issuer["owner"])),
            task_id=str(body["task_id"]),
        )
        return CommandMessage(
            host,
            command,
            str(body["door"]),
            from_text(body["filed_at"]),
            from_text(body["start_before"]),
            tuple(dict(each) for each in body["approvals"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        refused = UnfollowableMessage(
            f"The hub sent a command that this version doesn't understand ({error!a}).",
            remedy="Update the supervisor on this host to the hub's version.",
        )
        refused.task_id = str(body.get("task_id", ""))
        raise refused from None


def signed(kind: str, host: str, body: Mapping[str, Any], key: KeyPair) -> bytes:
    text = canonical_json({"v": VERSION, "kind": kind, "host": host, "body": body})
    return canonical_json({"signed": text, "signature": key.sign(text.encode())}).encode()


def read_signed(kind: str, data: bytes, host: str, verify: Verifier) -> dict[str, Any]:
    """The body of a message that the hub signed for this host; `InvalidMessage` for any other bytes."""
    try:
        envelope = json.loads(data)
        text, signature = envelope["signed"], envelope["signature"]
        if not (isinstance(text, str) and isinstance(signature, str)):
            raise TypeError("not text")
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InvalidMessage("A message on this host's subject isn't one of the hub's.") from None
    if not verify(text.encode("utf-8", "surrogatepass"), signature):
        raise InvalidMessage(
            "A message on this host's subject isn't signed by the hub.",
            remedy="Check who can publish to the NATS server. If the hub has a new key, join this host again.",
        )
    message = json.loads(text)
    if message.get("kind") != kind or message.get("host") != host:
        raise InvalidMessage(f"A message on this host's subject is a {message.get('kind')} for {message.get('host')}.")
    body: dict[str, Any] = message["body"]
    if message.get("v") != VERSION:
        refused = UnfollowableMessage(
            f"The hub speaks version {message.get('v')} of the fleet's messages, this host version {VERSION}.",
            remedy="Run the same version on the hub and on the hosts.",
        )
        refused.task_id = str(body.get("task_id", ""))
        raise refused
    return body
