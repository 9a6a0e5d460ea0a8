"""Ed25519 keys (NKeys): a user's key for NATS, and the messages that the hub signs with its own.

A host acts only on a message with a valid signature that is addressed to it; somebody who controls the NATS server
can't make one, and an altered one is refused. A signature covers a prefix that isn't valid UTF-8. At each connection
the same key signs a text of the server's choice, so without the prefix a server could have the hub sign a command.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import stat
import sys
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.command import Command, Issuer
from supervisor_core.common.errors import RefusedError, SupervisorError
from supervisor_core.common.text import canonical_json
from supervisor_core.common.times import from_text, to_text
from supervisor_core.host.descriptors import PRIVATE_FILE, PRIVATE_FOLDER
from supervisor_core.host.open_folder import OpenFolder

DOMAIN = b"\xffsupervisor fleet\n"
"""The beginning of everything that is signed."""

SEED_BYTES = 32
MAX_SEED_FILE = 1024
OTHERS = stat.S_IRWXG | stat.S_IRWXO


class KeyUnusable(SupervisorError):
    """The key can't be used."""


class KeyPair:
    """A secret key and its public key. It never shows the secret one."""

    def __init__(self, seed: str) -> None:
        import nkeys

        try:
            prefix, raw = nkeys.decode_seed(seed.encode())
            intact = nkeys.encode_seed(bytes(raw), prefix).decode() == seed  # the library doesn't check the checksum
        except (nkeys.NkeysError, ValueError, IndexError):
            intact = False
        if not intact:
            raise KeyUnusable("The secret key is damaged: it isn't an NKey seed.")
        self._pair = nkeys.from_seed(bytearray(seed.encode()))
        self.public_key: str = self._pair.public_key.decode()
        if not _is_public_key(self.public_key):
            raise KeyUnusable("The secret key isn't a user's: its seed must begin with SU.")
        self.seed = seed
        """The secret key. It goes to nats-py and into the token of an invite, and nowhere else."""

    @classmethod
    def new(cls) -> Self:
        import nkeys

        return cls(nkeys.encode_seed(os.urandom(SEED_BYTES), nkeys.PREFIX_BYTE_USER).decode())

    @classmethod
    def read(cls, path: Path) -> Self:
        try:
            with OpenFolder.at(path.parent, shared=False) as folder:
                mode = folder.look(path.name).st_mode
                text = folder.read(path.name, MAX_SEED_FILE).decode("ascii", "replace").strip()
        except FileNotFoundError:
            raise KeyUnusable(
                f"The key file {path} doesn't exist.", remedy="Run `supervisor fleet init` or `supervisor fleet join`."
            ) from None
        except OSError as error:
            raise KeyUnusable(f"The key file {path} can't be read: {error.strerror}.") from None
        if sys.platform != "win32" and mode & OTHERS:
            raise KeyUnusable(
                f"The key file {path} can be read by others (mode {stat.S_IMODE(mode):04o}).",
                remedy=f"Run `chmod 600 {path}`. If somebody may have read it, revoke the host and let it join again.",
            )
        try:
            return cls(text)
        except KeyUnusable as error:
            raise KeyUnusable(f"The key file {path} can't be used. {error.message}") from None

    @classmethod
    def create(cls, path: Path) -> Self:
        """A new key, saved durably in a new file that only its owner may read. An existing one is never replaced."""
        pair = cls.new()
        path.parent.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        try:
            with OpenFolder.at(path.parent, shared=False) as folder:
                folder.create(path.name, f"{pair.seed}\n".encode(), PRIVATE_FILE)
        except FileExistsError:
            raise RefusedError(
                f"The key file {path} exists. It isn't replaced.", remedy="To make a new key, move the file away first."
            ) from None
        return pair

    def sign(self, data: bytes) -> str:
        return base64.urlsafe_b64encode(self._pair.sign(DOMAIN + data)).decode().rstrip("=")

    def __repr__(self) -> str:
        return f"KeyPair({self.public_key})"


def verify(public_key: str, data: bytes, signature: str) -> bool:
    """True for the signature of this key over exactly these bytes; False for anything else, junk included."""
    import nacl.exceptions
    import nacl.signing

    if not _is_public_key(public_key):
        return False
    try:
        raw = base64.b64decode(signature + "=" * (-len(signature) % 4), altchars=b"-_", validate=True)
        nacl.signing.VerifyKey(base64.b32decode(public_key)[1:-2]).verify(DOMAIN + data, raw)
    except (ValueError, TypeError, nacl.exceptions.CryptoError):
        return False
    return True


def _is_public_key(text: str) -> bool:
    """True for a user's public key with the right checksum."""
    import nkeys

    try:
        raw = base64.b32decode(text)
    except (binascii.Error, ValueError, TypeError):
        return False
    if len(raw) != SEED_BYTES + 3 or raw[0] != nkeys.PREFIX_BYTE_USER:
        return False
    return bool(nkeys.crc16(bytearray(raw[:-2])) == int.from_bytes(raw[-2:], "little"))


VERSION = 1
COMMAND, QUESTION = "command", "question"
"""The kinds of messages. The kind is signed, so that one can't stand in for the other."""


class InvalidMessage(RefusedError):
    """A message that the hub didn't write, or not for this host. Nothing in it counts."""


class UnfollowableMessage(InvalidMessage):
    """A message that the hub wrote for this host, and that can't be followed."""

    def __init__(self, message: str, *, remedy: str = "", task_id: object = "") -> None:
        """`task_id`: the id of its command."""
        super().__init__(message, remedy=remedy)
        self.task_id = str(task_id)


@dataclass(frozen=True, slots=True)
class CommandMessage:
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


def read_command(data: bytes, host: str, hub_key: str) -> CommandMessage:
    """The command in a message for this host; `InvalidMessage` says what's wrong with another one."""
    body = read_signed(COMMAND, data, host, hub_key)
    if (name := str(body.get("command"))) not in CATALOG:
        raise UnfollowableMessage(
            f"{host} has no command {name}.",
            remedy="Update the supervisor on this host to the hub's version. A custom command must be in this host's "
            "configuration, too, and a plug-in must be installed there.",
            task_id=body.get("task_id", ""),
        )
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
        raise UnfollowableMessage(
            f"The hub sent a command that this version doesn't understand ({error!a}).",
            remedy="Update the supervisor on this host to the hub's version.",
            task_id=body.get("task_id", ""),
        ) from None


def signed(kind: str, host: str, body: Mapping[str, Any], key: KeyPair) -> bytes:
    text = canonical_json({"v": VERSION, "kind": kind, "host": host, "body": body})
    return canonical_json({"signed": text, "signature": key.sign(text.encode())}).encode()


def read_signed(kind: str, data: bytes, host: str, hub_key: str) -> dict[str, Any]:
    """The body of a message that the hub signed for this host; `InvalidMessage` for any other bytes."""
    try:
        envelope = json.loads(data)
        text, signature = envelope["signed"], envelope["signature"]
        if not (isinstance(text, str) and isinstance(signature, str)):
            raise TypeError("not text")
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InvalidMessage("A message on this host's subject isn't one of the hub's.") from None
    if not verify(hub_key, text.encode("utf-8", "surrogatepass"), signature):
        raise InvalidMessage(
            "A message on this host's subject isn't signed by the hub.",
            remedy="Check who can publish to the NATS server. If the hub has a new key, join this host again.",
        )
    message = json.loads(text)
    if message.get("kind") != kind or message.get("host") != host:
        raise InvalidMessage(f"A message on this host's subject is a {message.get('kind')} for {message.get('host')}.")
    body: dict[str, Any] = message["body"]
    if message.get("v") != VERSION:
        raise UnfollowableMessage(
            f"The hub speaks version {message.get('v')} of the fleet's messages, this host version {VERSION}.",
            remedy="Run the same version on the hub and on the hosts.",
            task_id=body.get("task_id", ""),
        )
    return body
