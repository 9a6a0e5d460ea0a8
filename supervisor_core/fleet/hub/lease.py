"""The lease of the hub: one machine acts, and another takes over when the lease isn't renewed.

It's a row in the hub's database, valid for some seconds by the clock of the database. Its holder renews it, and stops
by a clock of its own before another one can take it. Each write transaction of the hub checks it as well, so a program
that was frozen for a while can't write.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Update,
    insert,
    inspect,
    literal_column,
    select,
    type_coerce,
    update,
)
from sqlalchemy.exc import DBAPIError, IntegrityError

from supervisor_core.common.errors import LedgerUnavailable, describe
from supervisor_core.common.times import clock_time
from supervisor_core.storage import schema
from supervisor_core.storage.engine import UtcDateTime
from supervisor_core.storage.tables import leases

LEASE_SECONDS = 6.0
RENEW_SECONDS = 2.0
MARGIN_SECONDS = 1.0
"""The holder stops so long before its lease ends. What it has begun ends meanwhile."""

MACHINE = 255

log = logging.getLogger(__name__)


class LeaseLost(LedgerUnavailable):
    """This machine isn't the hub any more: it doesn't hold the lease."""

    short = "the lease of the hub is lost"


@dataclass(frozen=True, slots=True)
class LeaseHolder:
    """The machine that is the hub."""

    machine: str
    since: datetime

    def in_words(self) -> str:
        """The machine and its time as the hub."""
        return f"{self.machine}, the hub since {clock_time(self.since, datetime.now(UTC))}"


def clock() -> float:
    """Seconds that also pass while the machine sleeps, where the system counts them."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)


class HubLease:
    """The lease of one process. Any thread may ask it; `DBAPIError` where the database can't be used."""

    def __init__(self, engine: Engine, supervisor_id: str, machine: str = "") -> None:
        self.machine = (machine or socket.gethostname())[:MACHINE]
        self._engine = engine
        self._holder = uuid.uuid4().hex
        self._row = leases.c.supervisor_id == supervisor_id
        self._supervisor_id = supervisor_id
        self._number = 0
        self._valid_until = 0.0
        self._over = threading.Event()
        self.replaced: LeaseHolder | None = None
        """The other machine that let its lease run out, with its last sign; None if it gave it back."""

    def prepare(self) -> None:
        """Have the row. The tables are left as they are while another version of the program may use them."""
        with self._engine.connect() as connection:
            is_there = inspect(connection).has_table(leases.name)
        if not is_there:
            schema.ensure(self._engine)
        with self._engine.connect() as connection:
            add_row(connection, self._supervisor_id)

    def take(self) -> LeaseHolder | None:
        """Take or renew the lease. None if it's ours, else its holder."""
        begun = clock()
        with self._engine.begin() as connection:
            row = connection.execute(select(leases).where(self._row).with_for_update()).mappings().one()
            now = database_time(connection)
            ours = (row["holder"], row["number"]) == (self._holder, self._number)
            if not ours and row["holder"] and row["until"] > now:
                return LeaseHolder(row["machine"], row["since"])
            values: dict[str, Any] = {"until": now + timedelta(seconds=LEASE_SECONDS)}
            if not ours and self._number:  # another one had it, and may have done anything
                raise LeaseLost(f"This hub's lease was taken over by {row['machine']}.")
            if not ours:
                mine = {"holder": self._holder, "machine": self.machine, "number": row["number"] + 1, "since": now}
                values |= mine
                if row["holder"] and row["machine"] != self.machine:
                    self.replaced = LeaseHolder(row["machine"], row["until"] - timedelta(seconds=LEASE_SECONDS))
            connection.execute(update(leases).where(self._row).values(values))
        if not ours:
            self._number = values["number"]
        self._valid_until = begun + LEASE_SECONDS - MARGIN_SECONDS
        return None

    def require(self) -> None:
        """Raise `LeaseLost` unless nobody else can hold it now."""
        if clock() >= self._valid_until:
            raise LeaseLost("This hub's lease couldn't be renewed in time.")

    def lock(self, connection: Connection) -> None:
        """Begin a write transaction: lock the row, and check that it's still ours."""
        self.require()
        mine = (self._row, leases.c.holder == self._holder, leases.c.number == self._number)
        if not connection.execute(_count_write(*mine)).rowcount:
            raise LeaseLost("This hub's lease was taken over.")

    @contextmanager
    def kept(self, lost: Callable[[str], object]) -> Iterator[None]:
        """Renew it meanwhile, and give it back. `lost` is called in a thread, with the reason, once it's lost."""
        self._over.clear()
        threading.Thread(target=self._renew, args=(lost,), name="lease", daemon=True).start()
        threading.Thread(target=self._watch, args=(lost,), name="lease-watch", daemon=True).start()
        try:
            yield
        finally:
            self._over.set()
            with contextlib.suppress(DBAPIError):  # then it ends by itself
                self._give_back()

    def _renew(self, lost: Callable[[str], object]) -> None:
        problem = ""
        while not self._over.wait(RENEW_SECONDS if not problem else RENEW_SECONDS / 4):
            try:
                holder = self.take()
                problem = ""
            except LeaseLost as error:
                self._lose(lost, str(error))
                return
            except Exception as error:  # noqa: BLE001 (whatever it is, the watch ends the hub in time)
                if not problem:
                    log.warning("the lease of the hub can't be renewed: %s", describe(error))
                problem = describe(error)
            else:
                if holder is not None:
                    self._lose(lost, f"{holder.machine} has taken over.")
                    return

    def _watch(self, lost: Callable[[str], object]) -> None:
        """End the hub in time, even while the database doesn't answer."""
        while not self._over.wait(max(0.0, self._valid_until - clock())):
            if clock() >= self._valid_until:
                self._lose(lost, "The lease couldn't be renewed in time.")
                return

    def _lose(self, lost: Callable[[str], object], reason: str) -> None:
        self._valid_until = 0.0
        if not self._over.is_set():
            self._over.set()
            lost(reason)

    def _give_back(self) -> None:
        mine = (self._row, leases.c.holder == self._holder, leases.c.number == self._number)
        with self._engine.begin() as connection:
            connection.execute(update(leases).where(*mine).values(holder="", until=None))
        self._valid_until = 0.0


def add_row(connection: Connection, supervisor_id: str) -> None:
    """Have the row of this supervisor; several programs may do so at the same time."""
    if connection.execute(select(leases.c.number).where(leases.c.supervisor_id == supervisor_id)).first():
        return
    row = {"supervisor_id": supervisor_id, "holder": "", "machine": "", "number": 0, "writes": 0}
    with contextlib.suppress(IntegrityError):
        connection.execute(insert(leases), row)
        connection.commit()


def lock_row(connection: Connection, supervisor_id: str) -> None:
    """Begin a write transaction of a program that isn't the hub, such as a shell's."""
    connection.execute(_count_write(leases.c.supervisor_id == supervisor_id))


def count_writes(connection: Connection, supervisor_id: str) -> int | None:
    """The number of write transactions so far."""
    return connection.execute(select(leases.c.writes).where(leases.c.supervisor_id == supervisor_id)).scalar()


def find_holder(connection: Connection, supervisor_id: str) -> LeaseHolder | None:
    """The machine that is the hub now; None if none is."""
    row = connection.execute(select(leases).where(leases.c.supervisor_id == supervisor_id)).mappings().first()
    if row is None or not row["holder"] or row["until"] <= database_time(connection):
        return None
    return LeaseHolder(row["machine"], row["since"])


def database_time(connection: Connection) -> datetime:
    """The time by the clock of the database, at this moment and not at the beginning of the transaction."""
    words = "clock_timestamp()" if connection.dialect.name == "postgresql" else "UTC_TIMESTAMP(6)"
    moment: datetime = connection.execute(select(type_coerce(literal_column(words), UtcDateTime))).scalar_one()
    return moment


def _count_write(*mine: ColumnElement[bool]) -> Update:
    return update(leases).where(*mine).values(writes=leases.c.writes + 1)
