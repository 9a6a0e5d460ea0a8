"""The hosts and invites of the fleet, as rows in the hub's ledger. Each change has its audit row.

An invite that was used stays a user of the server until it expires: so a second use of its token reaches the hub, is
refused there, and is in the audit trail.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple, NoReturn

from sqlalchemy import Connection, RowMapping, insert, select, update

from supervisor_core.commands.command import Issuer
from supervisor_core.common.errors import RefusedError, UsageError
from supervisor_core.common.text import canonical_json, nearest, random_id
from supervisor_core.fleet.keys import KeyPair
from supervisor_core.fleet.refusals import RefusalCounts
from supervisor_core.fleet.transport.subjects import checked_name
from supervisor_core.storage.audit import chain
from supervisor_core.storage.audit.chain import AuditEntry
from supervisor_core.storage.store import Ledger
from supervisor_core.storage.tables import fleet_hosts, fleet_invites

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
    """A host that is there."""

    name: str
    version: str
    workers: Sequence[Mapping[str, Any]] | None = None
    """The workers that it announces; None if they haven't changed."""


@dataclass(frozen=True, slots=True)
class Invite:
    """An invite with its one-time key, which is nowhere else."""

    invite_id: str
    host_id: str
    keys: KeyPair
    expires_at: datetime


class FleetMembers:
    """The hosts and invites in the hub's ledger. Every call blocks."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._refusals = RefusalCounts(REPORT_REPEATS.total_seconds())

    def hosts(self) -> Sequence[FleetHost]:
        """All hosts by name, revoked ones included."""
        query = select(fleet_hosts).order_by(fleet_hosts.c.host_id)
        return [_host(row) for row in self._ledger.read(lambda look: look.execute(query).mappings().all())]

    def host(self, name: str) -> FleetHost:
        """The host of this name; `UsageError` if there is none."""
        known = {each.host_id: each for each in self.hosts()}
        if name not in known:
            near = nearest(name, known)
            hint = f"Did you mean {near}?" if near else "`supervisor fleet list` shows the hosts."
            raise UsageError(f"No host {name!a} in the fleet.", remedy=hint)
        return known[name]

    def invite(self, name: str, by: Issuer, now: datetime) -> Invite:
        """Invite a host. One that is in the fleet must be revoked first."""
        checked_name(name)
        made = Invite(random_id(16), name, KeyPair.new(), now + INVITE_LIFE)
        row = {
            "invite_id": made.invite_id,
            "host_id": name,
            "public_key": made.keys.public_key,
            "created_by": by.id,
            "created_at": now,
            "expires_at": made.expires_at,
        }

        def work(connection: Connection) -> None:
            known = _find(connection, name)
            if known is not None and known.state is HostState.JOINED:
                raise RefusedError(
                    f"{name} is in the fleet already.",
                    remedy=f"To replace its key, run `supervisor fleet revoke {name}`.",
                )
            connection.execute(insert(fleet_invites), row)
            self._record(connection, by.id, INVITED, name, now, {"invite": made.invite_id})

        self._ledger.write(work)
        return made

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
        if count := self._refusals.add(invite_id, now.timestamp()):
            name = name[:MAX_NAME]
            log.warning("%s can't join: %s (%d times)", name, reason, count)
            details = {"command": f"fleet join {name}", "error": reason, "invite": invite_id, "count": count}
            entry = AuditEntry(f"invite:{invite_id}", REFUSED, name, "failure", target_type=HOST, details=details)
            self._ledger.audit(entry, now)
            self._refusals.recorded(invite_id, now.timestamp())
        raise JoinRefused(reason, remedy=f"Run `supervisor fleet invite {name}` on the hub for a new token.")

    def revoke(self, name: str, by: Issuer, now: datetime) -> bool:
        """Revoke a host and its open invites; False if it was revoked before."""
        self.host(name)

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
        self._take_in(connection, name, public_key, version, now, new=known is None)
        unused = (fleet_invites.c.invite_id == invite_id) & fleet_invites.c.used_at.is_(None)
        connection.execute(update(fleet_invites).where(unused).values(used_at=now))
        details = {"invite": invite_id, "public_key": public_key}
        self._record(connection, found["created_by"], JOINED_FLEET, name, now, details)
        return ""

    def _take_in(
        self, connection: Connection, name: str, public_key: str, version: str, now: datetime, *, new: bool
    ) -> None:
        values = {
            "public_key": public_key,
            "state": HostState.JOINED,
            "joined_at": now,
            "revoked_at": None,
            "last_seen_at": None,
            "version": version[:MAX_VERSION],
            "workers_json": "[]",
        }
        if new:
            connection.execute(insert(fleet_hosts), {"host_id": name, **values})
        else:
            connection.execute(update(fleet_hosts).where(fleet_hosts.c.host_id == name).values(values))

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
