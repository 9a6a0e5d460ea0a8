"""Joining the fleet: the token, the hub's answer to a new host, and the request that the host makes.

1. `invite` stores a one-time key's public half and hands out the secret half in a token.
2. The new host makes its own key, connects with the one-time key, and sends its public key, signed with the secret one.
3. The hub checks the invite, records the host, gives its key its rights on the server, and answers with its signature.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from supervisor_core.common.errors import SupervisorError, TemporaryError, UsageError
from supervisor_core.common.text import canonical_json
from supervisor_core.config.names import FLEET_NAME
from supervisor_core.fleet.keys import KeyPair, verify
from supervisor_core.fleet.members.membership import KEY_IN_USE, FleetMembers, Invite, JoinRefused
from supervisor_core.fleet.reports import InvalidReport, decode, text
from supervisor_core.fleet.transport.connection import FleetConnection
from supervisor_core.fleet.transport.messages import FleetMessage, NoAnswer
from supervisor_core.fleet.transport.server import reload_server, write_accounts
from supervisor_core.fleet.transport.streams import prepare_host, prepare_stream, remove_host
from supervisor_core.fleet.transport.subjects import ALL_JOINS, join_inbox, join_subject, last_word
from supervisor_core.version import __version__

TOKEN = "fleet1-"  # noqa: S105 (the beginning of each, which isn't secret)
MAX_REQUEST = 4096
JOIN_SECONDS = 20.0
RETRY_SECONDS = 0.2
PREPARED_AT_ONCE = 32

REQUEST = {
    "host": text(63, FLEET_NAME),
    "public_key": text(MAX_REQUEST),
    "signature": text(MAX_REQUEST),
    "version": text(MAX_REQUEST),
}

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, repr=False)
class JoinToken:
    """The content of a token. Anyone who has it can join in the host's name, once."""

    url: str
    ca: str
    """The certificate of the authority; empty for the system's."""
    hub_key: str
    host: str
    invite: str
    seed: str

    @classmethod
    def of(cls, invite: Invite, url: str, ca: str, hub_key: str) -> Self:
        return cls(url, ca, hub_key, invite.host_id, invite.invite_id, invite.keys.seed)

    def as_text(self) -> str:
        content = canonical_json({name: getattr(self, name) for name in self.__dataclass_fields__})
        return TOKEN + base64.urlsafe_b64encode(content.encode()).decode().rstrip("=")

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Read a token; `UsageError` for anything else, without repeating it."""
        try:
            raw = text.strip().removeprefix(TOKEN)
            content = json.loads(base64.b64decode(raw + "=" * (-len(raw) % 4), altchars=b"-_", validate=True))
            return cls(**{name: str(content[name]) for name in cls.__dataclass_fields__})
        except (ValueError, KeyError, TypeError):
            raise UsageError("This isn't a token of `supervisor fleet invite`.", remedy="Copy it as a whole.") from None


async def apply_members(connection: FleetConnection, members: FleetMembers, folder: Path, hub_key: str) -> None:
    """Give every host and open invite its rights on the server, and everybody else none. It may be repeated."""
    hosts, invites = await asyncio.to_thread(members.users, datetime.now(UTC))
    places = asyncio.Semaphore(PREPARED_AT_ONCE)

    async def prepare(host: str) -> None:
        async with places:
            await prepare_host(connection, host)

    await asyncio.gather(*map(prepare, hosts))
    await asyncio.to_thread(write_accounts, folder, hub_key, hosts, invites)
    await reload_server(connection)


async def remove_member(
    connection: FleetConnection, members: FleetMembers, folder: Path, hub_key: str, host: str
) -> None:
    """Cut off a revoked host at once, and delete its commands."""
    await apply_members(connection, members, folder, hub_key)
    await remove_host(connection, host)


class JoinService:
    """The hub's answers to hosts that want to join."""

    def __init__(self, connection: FleetConnection, members: FleetMembers, folder: Path, keys: KeyPair) -> None:
        self._connection = connection
        self._members = members
        self._folder = folder
        self._keys = keys
        self._turn = asyncio.Lock()
        self.joined: Callable[[], None] = lambda: None
        """Called when a host has joined."""

    async def start(self) -> None:
        """Prepare the server for the members, and listen."""
        await prepare_stream(self._connection)
        await apply_members(self._connection, self._members, self._folder, self._keys.public_key)
        await self._connection.subscribe(ALL_JOINS, self._answer)

    async def _answer(self, message: FleetMessage) -> None:
        try:
            async with self._turn:
                answer = await self._join(last_word(message.subject), message.data)
        except SupervisorError as error:
            if not isinstance(error, JoinRefused):  # those are reported with a count
                log.warning("a host can't join: %s", error.message)
            answer = {"error": error.message, "remedy": error.remedy, "retryable": error.retryable}
        await message.respond(canonical_json(answer).encode())

    async def _join(self, invite_id: str, data: bytes) -> Mapping[str, Any]:
        """The server has checked that the sender has the key of this invite."""
        now = datetime.now(UTC)
        request = _request_of(data)
        if request is None:
            await asyncio.to_thread(self._members.refuse, invite_id, invite_id, "This isn't a request to join.", now)
        host, key = request["host"], request["public_key"]
        if key == self._keys.public_key:
            await asyncio.to_thread(self._members.refuse, invite_id, host, KEY_IN_USE, now)
        if not verify(key, _signed(invite_id, host, key), request["signature"]):
            reason = "The request isn't signed with the host's key."
            await asyncio.to_thread(self._members.refuse, invite_id, host, reason, now)
        await asyncio.to_thread(self._members.join, invite_id, host, key, request["version"], now)
        await apply_members(self._connection, self._members, self._folder, self._keys.public_key)
        self.joined()
        return {"host": host, "signature": self._keys.sign(_confirmed(invite_id, host, key))}


async def request_join(token: JoinToken, keys: KeyPair, ca: Path | None) -> None:
    """Ask the hub to take in this host; `JoinRefused` with its reason if it doesn't."""
    one_time = KeyPair(token.seed)
    signature = keys.sign(_signed(token.invite, token.host, keys.public_key))
    request = {"host": token.host, "public_key": keys.public_key, "signature": signature, "version": __version__}
    async with FleetConnection(token.url, one_time, name="join", inbox=join_inbox(token.invite), ca=ca) as connection:
        await connection.wait_connected(JOIN_SECONDS)
        data = await _ask_hub(connection, join_subject(token.invite), canonical_json(request).encode())
    answer = json.loads(data)
    if "error" in answer:
        kind: Callable[..., SupervisorError] = TemporaryError if answer.get("retryable") else JoinRefused
        raise kind(str(answer["error"]), remedy=str(answer.get("remedy", "")))
    confirmed = _confirmed(token.invite, token.host, keys.public_key)
    if not verify(token.hub_key, confirmed, str(answer.get("signature", ""))):
        raise JoinRefused("The answer isn't signed by the hub of the token. Somebody else may run this server.")


async def _ask_hub(connection: FleetConnection, subject: str, data: bytes) -> bytes:
    """The hub's answer, also that of a hub that starts or reconnects meanwhile. It takes a host's request twice."""
    deadline = asyncio.get_running_loop().time() + JOIN_SECONDS
    while True:
        left = deadline - asyncio.get_running_loop().time()
        try:
            return await connection.request(subject, data, left)
        except NoAnswer:
            if left <= RETRY_SECONDS:
                raise
            log.info("the hub doesn't answer; asking again")
            await asyncio.sleep(RETRY_SECONDS)


def _request_of(data: bytes) -> Mapping[str, str] | None:
    try:
        return decode("request", json.loads(data), REQUEST) if len(data) <= MAX_REQUEST else None
    except (ValueError, RecursionError, InvalidReport):
        return None


def _signed(invite_id: str, host: str, key: str) -> bytes:
    return canonical_json(["join", invite_id, host, key]).encode()


def _confirmed(invite_id: str, host: str, key: str) -> bytes:
    return canonical_json(["joined", invite_id, host, key]).encode()
