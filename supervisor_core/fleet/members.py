"""The hosts and invites of the fleet, as rows in the hub's ledger, and how a host joins. Each change has its audit row.

1. `invite` stores a one-time key's public half and hands out the secret half in a token.
2. The new host makes its own key, connects with the one-time key, and sends its public key, signed with the secret one.
3. The hub checks the invite, records the host, gives its key its rights on the server, and answers with its signature.

An invite that was used stays a user of the server until it expires: so a second use of its token reaches the hub, is
refused there, and is in the audit trail.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Self

from sqlalchemy import Connection, RowMapping, insert, select, update

from supervisor_core.commands.command import Issuer
from supervisor_core.common.errors import RefusedError, SupervisorError, TemporaryError, UsageError
from supervisor_core.common.text import canonical_json, nearest, random_id
from supervisor_core.config.fields import FLEET_NAME
from supervisor_core.fleet.keys import KeyPair, verify
from supervisor_core.fleet.reports import InvalidReport, decode, text
from supervisor_core.fleet.transport.connection import FleetConnection, FleetMessage, NoAnswer
from supervisor_core.fleet.transport.server import reload_server, write_accounts
from supervisor_core.fleet.transport.streams import prepare_host, prepare_stream
from supervisor_core.fleet.transport.subjects import ALL_JOINS, checked_name, join_inbox, join_subject, last_word
from supervisor_core.storage.audit import chain
from supervisor_core.storage.audit.chain import AuditEntry
from supervisor_core.storage.store import Ledger
from supervisor_core.storage.tables import fleet_hosts, fleet_invites
from supervisor_core.version import __version__

INVITE_LIFE = timedelta(minutes=60)
REPORT_REPEATS = timedelta(minutes=10)
"""The shortest time between two audit rows about refusals of one invite."""

INVITED, JOINED_FLEET, REVOKED_HOST, REFUSED = "HOST_INVITED", "HOST_JOINED", "HOST_REVOKED", "REFUSED"
HOST = "host"
"""The type of the target of these audit rows."""

KEY_IN_USE = "The key isn't new: a host joins with one that nobody in the fleet has or had."
MAX_WORKERS_TEXT = 1_000_000
MAX_VERSION = MAX_NAME = 64

log = logging.getLogger(__name__)


class HostState(StrEnum):
    JOINED = "joined"
    REVOKED = "revoked"


class JoinRefused(RefusedError):
    """The host may not join."""


@dataclass(frozen=True, slots=True)
class FleetHost:
    host_id: str
    public_key: str
    state: HostState
    joined_at: datetime
    revoked_at: datetime | None
    last_seen_at: datetime | None
    version: str
    announced: Sequence[Mapping[str, Any]]
    """Its workers as it announced them last: id, team, and whether each is enabled."""

    @property
    def workers(self) -> Sequence[str]:
        return [str(each["id"]) for each in self.announced]


class HostNews(NamedTuple):
    name: str
    version: str
    workers: Sequence[Mapping[str, Any]] | None = None
    """The workers that it announces; None if they haven't changed."""


class Invite(NamedTuple):
    invite_id: str
    keys: KeyPair
    """Its one-time key, which is nowhere else."""


class FleetMembers:
    """The hosts and invites in the hub's ledger. Every call blocks."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._refusals: Counter[str] = Counter()
        """Those of each invite that aren't on record yet."""
        self._refused_at: dict[str, datetime] = {}

    def hosts(self) -> Sequence[FleetHost]:
        query = select(fleet_hosts).order_by(fleet_hosts.c.host_id)
        return [_host(row) for row in self._ledger.read(lambda look: look.execute(query).mappings().all())]

    def invite(self, name: str, by: Issuer, now: datetime) -> Invite:
        """Invite a host. One that is in the fleet must be revoked first."""
        checked_name(name)
        invite = Invite(random_id(16), KeyPair.new())
        row = {
            "invite_id": invite.invite_id,
            "host_id": name,
            "public_key": invite.keys.public_key,
            "created_by": by.id,
            "created_at": now,
            "expires_at": now + INVITE_LIFE,
        }

        def work(connection: Connection) -> None:
            known = _find(connection, name)
            if known is not None and known.state is HostState.JOINED:
                raise RefusedError(
                    f"{name} is in the fleet already.",
                    remedy=f"To replace its key, run `supervisor fleet revoke {name}`.",
                )
            connection.execute(insert(fleet_invites), row)
            self._record(connection, by.id, INVITED, name, now, {"invite": invite.invite_id})

        self._ledger.write(work)
        return invite

    def join(self, invite_id: str, name: str, public_key: str, version: str, now: datetime) -> None:
        """Take a host into the fleet; `JoinRefused`, with an audit row, if its invite doesn't allow it.

        The same request may be repeated, for its answer may have been lost.
        """
        reason = self._ledger.write(
            lambda connection: self._join(connection, invite_id, name, public_key, version, now)
        )
        if reason:
            self.refuse(invite_id, name, reason, now)

    def refuse(self, invite_id: str, name: str, reason: str, now: datetime) -> NoReturn:
        """Raise `JoinRefused`. The first refusal of an invite is recorded at once, and others with their number."""
        self._refusals[invite_id] += 1
        if invite_id not in self._refused_at or now >= self._refused_at[invite_id] + REPORT_REPEATS:
            name, count = name[:MAX_NAME], self._refusals[invite_id]
            log.warning("%s can't join: %s (%d times)", name, reason, count)
            details = {"command": f"fleet join {name}", "error": reason, "invite": invite_id, "count": count}
            entry = AuditEntry(f"invite:{invite_id}", REFUSED, name, "failure", target_type=HOST, details=details)
            self._ledger.audit(entry, now)
            del self._refusals[invite_id]
            self._refused_at[invite_id] = now
        raise JoinRefused(reason, remedy=f"Run `supervisor fleet invite {name}` on the hub for a new token.")

    def revoke(self, name: str, by: Issuer, now: datetime) -> bool:
        """Revoke a host and its open invites; False if it was revoked before."""
        known = [host.host_id for host in self.hosts()]
        if name not in known:
            near = nearest(name, known)
            hint = f"Did you mean {near}?" if near else "`supervisor fleet list` shows the hosts."
            raise UsageError(f"No host {name!a} in the fleet.", remedy=hint)

        def work(connection: Connection) -> bool:
            changes = {"state": HostState.REVOKED, "revoked_at": now}
            joined = (fleet_hosts.c.host_id == name) & (fleet_hosts.c.state == HostState.JOINED)
            revoked = connection.execute(update(fleet_hosts).where(joined).values(changes)).rowcount == 1
            waiting = (fleet_invites.c.host_id == name) & (fleet_invites.c.expires_at > now)
            connection.execute(update(fleet_invites).where(waiting).values(expires_at=now))
            if revoked:
                self._record(connection, by.id, REVOKED_HOST, name, now, {})
            return revoked

        return self._ledger.write(work)

    def seen(self, hosts: Sequence[HostNews], now: datetime) -> None:
        """Note that these hosts are there, and what they announce, in one transaction."""
        rows = []
        for host in hosts:
            values: dict[str, Any] = {"last_seen_at": now, "version": host.version[:MAX_VERSION]}
            text = canonical_json(list(host.workers)) if host.workers is not None else ""
            if 0 < len(text) <= MAX_WORKERS_TEXT:
                values["workers_json"] = text
            rows.append((fleet_hosts.c.host_id == host.name, values))

        def work(connection: Connection) -> None:
            for here, values in rows:
                connection.execute(update(fleet_hosts).where(here).values(values))

        if rows:
            self._ledger.write(work)

    def users(self, now: datetime) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """The public keys that may connect: of hosts by name, and of invites by id."""
        hosts = {each.host_id: each.public_key for each in self.hosts() if each.state is HostState.JOINED}
        query = select(fleet_invites.c.invite_id, fleet_invites.c.public_key).where(fleet_invites.c.expires_at > now)
        rows = self._ledger.read(lambda look: look.execute(query).all())
        return hosts, {row.invite_id: row.public_key for row in rows}

    def _join(
        self, connection: Connection, invite_id: str, name: str, public_key: str, version: str, now: datetime
    ) -> str:
        """The reason for a refusal; empty if the host has joined."""
        invite = connection.execute(select(fleet_invites).where(fleet_invites.c.invite_id == invite_id)).mappings()
        found = invite.one_or_none()
        if found is None:
            return "This invite isn't known."
        if found["host_id"] != name:
            return f"This invite is for {found['host_id']}."
        known = _find(connection, name)
        if found["used_at"] is not None:
            again = known is not None and known.state is HostState.JOINED and known.public_key == public_key
            return "" if again else "This invite has been used."
        if found["expires_at"] <= now:
            return "This invite has expired."
        if known is not None and known.state is HostState.JOINED:
            return f"{name} is in the fleet already, with another key."
        hosts = select(fleet_hosts.c.public_key).where(fleet_hosts.c.public_key == public_key)
        invites = select(fleet_invites.c.public_key).where(fleet_invites.c.public_key == public_key)
        if connection.execute(hosts.union_all(invites)).first() is not None:
            return KEY_IN_USE
        values = {
            "public_key": public_key,
            "state": HostState.JOINED,
            "joined_at": now,
            "revoked_at": None,
            "last_seen_at": None,
            "version": version[:MAX_VERSION],
            "workers_json": "[]",
        }
        if known is None:
            connection.execute(insert(fleet_hosts), {"host_id": name, **values})
        else:
            connection.execute(update(fleet_hosts).where(fleet_hosts.c.host_id == name).values(values))
        unused = (fleet_invites.c.invite_id == invite_id) & fleet_invites.c.used_at.is_(None)
        connection.execute(update(fleet_invites).where(unused).values(used_at=now))
        details = {"invite": invite_id, "public_key": public_key}
        self._record(connection, found["created_by"], JOINED_FLEET, name, now, details)
        return ""

    def _record(
        self, connection: Connection, actor: str, action: str, name: str, now: datetime, details: Mapping[str, Any]
    ) -> None:
        entry = AuditEntry(actor, action, name, target_type=HOST, details=details)
        chain.append(connection, self._ledger.supervisor_id, entry, now)


def _find(connection: Connection, name: str) -> FleetHost | None:
    row = connection.execute(select(fleet_hosts).where(fleet_hosts.c.host_id == name)).mappings().one_or_none()
    return None if row is None else _host(row)


def _host(row: RowMapping) -> FleetHost:
    return FleetHost(
        row["host_id"],
        row["public_key"],
        HostState(row["state"]),
        row["joined_at"],
        row["revoked_at"],
        row["last_seen_at"],
        row["version"],
        tuple(json.loads(row["workers_json"])),
    )


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


class JoinService:
    def __init__(self, connection: FleetConnection, members: FleetMembers, folder: Path, keys: KeyPair) -> None:
        self._connection = connection
        self._members = members
        self._folder = folder
        self._keys = keys
        self._turn = asyncio.Lock()
        self.joined: Callable[[], None] = lambda: None
        """Called when a host has joined."""

    async def start(self) -> None:
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
        try:
            request = decode("request", json.loads(data), REQUEST) if len(data) <= MAX_REQUEST else None
        except (ValueError, RecursionError, InvalidReport):
            request = None
        host, reason = invite_id, "This isn't a request to join."
        if request is not None:
            host, key = request["host"], request["public_key"]
            reason = KEY_IN_USE if key == self._keys.public_key else ""
            if not reason and not verify(key, _signed(invite_id, host, key), request["signature"]):
                reason = "The request isn't signed with the host's key."
        if request is None or reason:
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


def _signed(invite_id: str, host: str, key: str) -> bytes:
    return canonical_json(["join", invite_id, host, key]).encode()


def _confirmed(invite_id: str, host: str, key: str) -> bytes:
    return canonical_json(["joined", invite_id, host, key]).encode()
