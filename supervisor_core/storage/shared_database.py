"""Sends audit rows and heartbeats to the user's shared database, from the outbox, in order, each row once.

An outbox row names an audit row or a worker; what is sent is read from the ledger. It goes to `audit_log_t` or
`workers_t` in the columns that these tables have there. Nothing else in that database is read or changed.

A program can be killed between the commit there and the note of it here, so a row may be sent again. It is recognized:
1. In a table whose primary key is (`supervisor_id`, `audit_id`), as `supervisor db upgrade` creates it, by that key.
2. In any other, a row is marked in the ledger before it is sent first, with the highest number that the table had then.
   A marked row is compared with the rows after that number: by `hash`, else by the `supervisor_id` and `audit_id` that
   are added to its details, else by its texts. A commit of ours that is still under way there is waited for.

One program sends at a time. A row that the database refuses while it takes others is set aside: it is reported and
retried at growing intervals, and never dropped.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import (
    JSON,
    Column,
    Connection,
    DateTime,
    Integer,
    MetaData,
    Numeric,
    Table,
    event,
    func,
    insert,
    inspect,
    make_url,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.exc import DBAPIError, NoSuchTableError, StatementError

from supervisor_core.common import crashpoints
from supervisor_core.common.errors import SupervisorError, TemporaryError, describe
from supervisor_core.common.log_events import LogEvent
from supervisor_core.common.text import canonical_json, flatten, one_line, sentence, storable
from supervisor_core.common.times import to_text
from supervisor_core.config.fields import mask_url
from supervisor_core.host.locks import FileLock, LockedError
from supervisor_core.storage import outbox
from supervisor_core.storage.engine import CONNECT_SECONDS, cut_connections, shared_engine
from supervisor_core.storage.ledger_file import SHARED_DATABASE
from supervisor_core.storage.outbox import PendingMessage
from supervisor_core.storage.steps import PENDING
from supervisor_core.storage.store import Ledger
from supervisor_core.storage.tables import audit_log, workers
from supervisor_core.storage.tables import outbox as outbox_table

BATCH_ROWS = 200
"""The rows of one transaction. After an error it takes half as many, because the connection may be too slow."""

IDLE_SECONDS = 60
"""The server ends a session of ours that says nothing for so long: its host may be gone, and its locks with it."""

SET_ASIDE_SECONDS, LONGEST_SET_ASIDE_SECONDS = 60.0, 3600.0

SKEW = timedelta(minutes=1)
"""A heartbeat that is further in the future comes from a wrong clock, and any other replaces it."""

MARIADB_OPTIONS = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}
"""Ids that differ only in case are different ids."""

MYSQL_BYTES = {"TINYTEXT": 255, "TEXT": 65_535, "MEDIUMTEXT": 16_777_215}

ERROR_CHARACTERS = 300

ROW_ERRORS = (StatementError, ArithmeticError, LookupError, TypeError, ValueError)
"""The errors of a row: the database refuses it, or it can't be made into what a column holds."""

LOCK_FILE = "shared_database.lock"

TEXTS = ("actor", "action", "target_type", "target_id", "label", "task_id")
"""The columns by which a row is recognized in a table that has neither `hash` nor `details_json`."""

Row = dict[str, Any]

log = logging.getLogger(__name__)


class DatabaseUnavailable(TemporaryError):
    """The shared database can't be used right now."""


class TableMissing(SupervisorError):
    """The shared database lacks a table."""

    def __init__(self, name: str) -> None:
        super().__init__(f"The shared database has no table {name}.", remedy="Run: supervisor db upgrade")


@dataclass(frozen=True, slots=True)
class SendResult:
    """The rows that were sent, those that still wait, and why."""

    sent: int = 0
    waiting: int = 0
    problem: str = ""
    """The reason why nothing could be sent; empty on success."""
    refused: str = ""
    """The rows that were set aside, with the newest reason; empty without any."""


class Sending(NamedTuple):
    """An outbox row and the row of the ledger that it names."""

    message: PendingMessage
    row: Row


class SharedDatabase:
    """The shared database of one ledger. Its errors show no password."""

    def __init__(self, url: str, query_timeout_seconds: float) -> None:
        self.address = mask_url(url)
        self._url = url
        self._seconds = query_timeout_seconds
        self._password = make_url(url).password

    def create_tables(self) -> list[str]:
        """Create `audit_log_t` and `workers_t` where they are missing; the names of those that were."""
        for table in (audit_log, workers):
            table.kwargs.update(MARIADB_OPTIONS)  # at their definition, they would import the dialect
        with self.transactions(create_file=True) as transaction, transaction() as shared:
            names = set(inspect(shared).get_table_names())
            missing = [table for table in (audit_log, workers) if table.name not in names]
            for table in missing:
                table.create(shared)
        return [table.name for table in missing]

    def missing_tables(self) -> list[str]:
        with self.transactions() as transaction, transaction() as shared:
            names = set(inspect(shared).get_table_names())
        return [table.name for table in (audit_log, workers) if table.name not in names]

    @contextmanager
    def transactions(self, *, create_file: bool = False) -> Iterator[Callable[[], Any]]:
        """Yield a function that begins a transaction, each with a time limit. The connection is closed at the end: one
        that is kept may freeze."""
        parsed = make_url(self._url)
        if parsed.get_backend_name() == "sqlite" and not create_file:
            path = Path((parsed.database or "").removeprefix("file:"))
            if not path.exists():
                raise DatabaseUnavailable(
                    f"The shared database {self.address} can't be used: the file doesn't exist.",
                    remedy="Create it: supervisor db upgrade",
                )
        engine = shared_engine(self._url, self._seconds, wal=False)
        drivers: list[Any] = []
        event.listen(engine, "connect", lambda driver, _: drivers.append(driver), insert=True)

        @contextmanager
        def transaction() -> Iterator[Connection]:
            timer = threading.Timer(self._seconds + CONNECT_SECONDS, cut_connections, [drivers])
            timer.daemon = True
            timer.start()
            try:
                with self._errors(connecting=True):
                    connection = engine.connect()
                with self._errors(), connection, connection.begin():
                    self._prepare(connection)
                    yield connection
            finally:
                timer.cancel()

        try:
            yield transaction
        finally:
            engine.dispose()

    def _prepare(self, connection: Connection) -> None:
        """Bound the life of a session whose program is gone."""
        if connection.dialect.name in ("mysql", "mariadb"):
            seconds = max(1, int(self._seconds))
            connection.execute(
                text(f"SET SESSION wait_timeout = {IDLE_SECONDS}, SESSION innodb_lock_wait_timeout = {seconds}")
            )
        elif connection.dialect.name == "postgresql":
            connection.execute(text(f"SET LOCAL idle_in_transaction_session_timeout = {IDLE_SECONDS * 1000}"))

    @contextmanager
    def _errors(self, *, connecting: bool = False) -> Iterator[None]:
        """Turn the errors of a lost connection into ours. One that concerns a statement stays what it is."""
        try:
            yield
        except (DBAPIError, sqlite3.Error) as error:
            if connecting or not isinstance(error, DBAPIError) or error.connection_invalidated:
                message = f"The shared database {self.address} can't be used: {self.describe(error)}"
                raise DatabaseUnavailable(message) from error
            raise

    def describe(self, error: Exception) -> str:
        """A driver's error as one sentence, without the password."""
        message = str(getattr(error, "orig", None) or error)
        if self._password:
            message = message.replace(str(self._password), "…")
        return sentence(one_line(flatten(message), ERROR_CHARACTERS))


class SharedDatabaseSender:
    """Sends what waits in one ledger. One thread at a time; nothing here is called on the event loop."""

    def __init__(self, ledger: Ledger, database: SharedDatabase, state_dir: Path, query_timeout_seconds: float) -> None:
        self.halt = threading.Event()
        """Set from outside: end after the batch in hand."""
        self._ledger = ledger
        self._database = database
        self._lock_file = state_dir / LOCK_FILE
        self._seconds = query_timeout_seconds
        self._batch_rows = BATCH_ROWS
        self._unexpected = ""
        self.responded_at = 0.0
        """The monotonic time at which the database last took rows."""

    def send(self) -> SendResult:
        """Send all that is due. Never raises; the result has the problem."""
        sent, problems, refuses = 0, [], False
        try:
            with (
                FileLock(self._lock_file, "sending rows to the shared database").acquire(),
                self._database.transactions() as transaction,
            ):
                for table, write in (("workers_t", _write_heartbeats), ("audit_log_t", self._write_audit_rows)):
                    try:
                        for count in self._send_table(transaction, table, write):
                            sent += count
                    except (TableMissing, _AllRefused) as error:  # the other table may be well
                        problems.append(str(error))
                        refuses = True
        except LockedError:
            pass  # another program sends these rows right now
        except SupervisorError as error:
            problems.append(str(error))
        except Exception as error:  # the edge: a mistake here must not stop what works without it
            problems.append(f"Sending to the shared database failed: {describe(error)}")
            if problems[-1] != self._unexpected and not self.halt.is_set():
                log.exception("sending to the shared database failed")
            self._unexpected = problems[-1]
        if refuses:  # many rows then tell whether the database refuses all of them, or only the first
            self._batch_rows = BATCH_ROWS
        elif problems:
            self._batch_rows = max(1, self._batch_rows // 2)
        return self.result(sent, " ".join(problems))

    def result(self, sent: int = 0, problem: str = "") -> SendResult:
        """The result, with the number of rows that wait now."""
        try:
            waiting, refused, error = self._ledger.read(_count_waiting)
        except Exception:
            if not self.halt.is_set():
                log.exception("the rows that wait for the shared database can't be counted")
            return SendResult(sent, 0, problem)
        rows = "1 row was" if refused == 1 else f"{refused} rows were"
        return SendResult(sent, waiting, problem, f"{rows} refused and set aside: {error}" if refused else "")

    def _send_table(
        self,
        transaction: Callable[[], Any],
        name: str,
        write: Callable[[Connection, Table, Sequence[Sending]], None],
    ) -> Iterator[int]:
        """Send the rows for one table in batches; yields the number of rows after each."""
        table: Table | None = None
        while not self.halt.is_set():
            limit, now = self._batch_rows, datetime.now(UTC)
            waiting = partial(outbox.pending_of_kind, kind=SHARED_DATABASE, beginning=f"{name}/", now=now, limit=limit)
            messages = self._ledger.read(waiting)
            if not messages:
                return
            batch = self._ledger.read(partial(_ledger_rows, messages=messages))
            known = {sending.message.outbox_id for sending in batch}
            gone = [message for message in messages if message.outbox_id not in known]
            if gone:
                log.error("%d rows for the shared database are no longer in the ledger", len(gone))
                reason = "the row is no longer in the ledger"
                self._ledger.step_all([outbox.mark_dropped(message, reason, now) for message in gone])
            if not batch:
                continue
            try:
                with transaction() as shared:
                    table = _reflect(shared, name) if table is None else table
                    write(shared, table, batch)
                    crashpoints.reach("shared.commit:before")
                crashpoints.reach("shared.commit:after")
                self._mark_sent(batch)
                yield len(batch)
            except ROW_ERRORS as error:
                if table is None:
                    raise DatabaseUnavailable(f"{name} can't be read: {self._database.describe(error)}") from error
                yield self._send_one_by_one(transaction, table, write, batch, error)
            self._batch_rows = min(BATCH_ROWS, self._batch_rows * 2)
            if len(messages) < limit:
                return

    def _send_one_by_one(
        self,
        transaction: Callable[[], Any],
        table: Table,
        write: Callable[[Connection, Table, Sequence[Sending]], None],
        batch: Sequence[Sending],
        error: Exception,
    ) -> int:
        """Send each row of a refused batch alone, and set aside those that are refused while others are taken. If all
        are refused, the database is the cause, and they keep waiting in order."""
        refused: list[tuple[Sending, str]] = []
        sent = 0
        end = time.monotonic() + self._seconds
        for sending in batch:
            try:
                with transaction() as shared:
                    write(shared, table, [sending])
                self._mark_sent([sending])
                sent += 1
            except ROW_ERRORS as refusal:
                refused.append((sending, self._database.describe(refusal)))
            if not sent and time.monotonic() > end:
                break
        if not sent:
            reason = self._database.describe(error)
            raise _AllRefused(f"The shared database refuses every row of {table.name}: {reason}")
        now = datetime.now(UTC)
        for sending, reason in refused:
            message = sending.message
            log.error(
                "the shared database refuses %s, which is set aside and retried: %s",
                message.subject,
                reason,
                extra=LogEvent.SHARED_DATABASE_REFUSED.extra(row=message.subject, error=reason),
            )
            seconds = min(LONGEST_SET_ASIDE_SECONDS, SET_ASIDE_SECONDS * 2 ** min(message.attempts, 10))
            self._ledger.write(partial(outbox.postpone, message=message, error=reason, now=now, seconds=seconds))
        return sent

    def _mark_sent(self, batch: Sequence[Sending]) -> None:
        now, self.responded_at = datetime.now(UTC), time.monotonic()
        self._ledger.step_all([outbox.mark_sent(sending.message, now) for sending in batch])

    def _write_audit_rows(self, shared: Connection, table: Table, batch: Sequence[Sending]) -> None:
        """Insert those of these audit rows that aren't there."""
        if shared.dialect.name == "postgresql":  # a commit of ours that is under way ends first
            digest = hashlib.sha256(f"supervisor {self._ledger.supervisor_id}".encode()).digest()
            lock = int.from_bytes(digest[:8], signed=True)
            shared.execute(select(func.pg_advisory_xact_lock(lock)))
        rows = [_audit_values(table, sending.row) for sending in batch]
        if not rows[0]:
            raise _AllRefused(f"The table {table.name} of the shared database has no column of an audit row.")
        if _has_our_key(table):
            stored = _find_by_key(shared, table, batch)
        else:
            stored = self._find_marked(shared, table, batch, rows)
        new = [row for position, row in enumerate(rows) if position not in stored]
        if new:
            shared.execute(insert(table), new)

    def _find_marked(self, shared: Connection, table: Table, batch: Sequence[Sending], rows: Sequence[Row]) -> set[int]:
        """Those of these rows, by position, that an earlier attempt has inserted. Marks the others before the first."""
        number = _row_number(table)
        unmarked = [sending.message for sending in batch if not sending.message.address]
        if unmarked:
            after = shared.execute(select(func.max(number))).scalar() if number is not None else None

            def mark(local: Connection) -> None:
                for message in unmarked:
                    outbox.store_address(local, message, {"after": after or 0})

            self._ledger.write(mark)
        marked = {position: sending for position, sending in enumerate(batch) if sending.message.address}
        if not marked:
            return set()
        names = [name for name in ("hash", "details_json") if name in table.c][:1] or [n for n in TEXTS if n in table.c]
        query = select(*(table.c[name] for name in names))
        if number is not None:
            query = query.where(number > min(int(sending.message.address["after"]) for sending in marked.values()))
        if shared.dialect.name in ("mysql", "mariadb"):
            query = query.with_for_update(read=True)  # waits for a commit of ours that is under way
        stored = Counter(_identity(names, dict(row)) for row in shared.execute(query).mappings())
        positions = set()
        for position in marked:
            identity = _identity(names, rows[position])
            if stored[identity]:
                stored[identity] -= 1
                positions.add(position)
        return positions


class _AllRefused(TemporaryError):
    """The shared database refuses every row of a table."""


def _count_waiting(local: Connection) -> tuple[int, int, str]:
    """The number of waiting rows, of those that were set aside, and the newest reason."""
    columns = outbox_table.c
    waits = (columns.kind == SHARED_DATABASE) & (columns.state == PENDING)
    refused = waits & (columns.attempts > 0)
    waiting = local.execute(select(func.count()).where(waits)).scalar_one()
    count = local.execute(select(func.count()).where(refused)).scalar_one()
    newest = select(columns.last_error).where(refused).order_by(columns.outbox_id.desc()).limit(1)
    return waiting, count, (local.execute(newest).scalar() or "") if count else ""


def first_waiting_audit_row(local: Connection, supervisor_id: str) -> int | None:
    """The number of the oldest audit row of this chain that isn't in the shared database yet; None if all are."""
    columns = outbox_table.c
    query = (
        select(columns.payload_json)
        .where(columns.kind == SHARED_DATABASE, columns.state == PENDING)
        .where(columns.subject.startswith(f"audit_log_t/{supervisor_id}/", autoescape=True))
        .order_by(columns.outbox_id)
        .limit(1)
    )
    payload = local.execute(query).scalar()
    return int(json.loads(payload)["audit_id"]) if payload else None


def _ledger_rows(local: Connection, messages: Sequence[PendingMessage]) -> list[Sending]:
    """The rows of the ledger that these messages name, as far as they are there."""
    sendings = []
    for message in messages:
        if message.subject.startswith("workers_t/"):
            query = select(workers).where(workers.c.worker_id == message.subject.partition("/")[2])
        else:
            chain, number = message.payload["supervisor_id"], message.payload["audit_id"]
            query = select(audit_log).where(audit_log.c.supervisor_id == chain, audit_log.c.audit_id == number)
        row = local.execute(query).mappings().first()
        if row is not None:
            sendings.append(Sending(message, dict(row)))
    return sendings


def _reflect(shared: Connection, name: str) -> Table:
    try:
        return Table(name, MetaData(), autoload_with=shared, resolve_fks=False, implicit_returning=False)
    except NoSuchTableError:
        raise TableMissing(name) from None


def _write_heartbeats(shared: Connection, table: Table, batch: Sequence[Sending]) -> None:
    """Insert or update the rows of these workers, unless there is a newer heartbeat."""
    if "worker_id" not in table.c:
        raise _AllRefused(f"The table {table.name} of the shared database has no column worker_id.")
    for sending in batch:
        row = {name: _fit(table.c[name], value) for name, value in sending.row.items() if name in table.c}
        this = table.c.worker_id == row["worker_id"]
        change = update(table).where(this)
        if "last_heartbeat_at" in row:
            column = table.c.last_heartbeat_at
            if row["last_heartbeat_at"] is None and not column.nullable:
                continue  # the worker has never sent one
            future = _fit(column, datetime.now(UTC) + SKEW)
            if row["last_heartbeat_at"] is None:
                change = change.where(column.is_(None))
            else:
                change = change.where(or_(column.is_(None), column <= row["last_heartbeat_at"], column > future))
        values = {name: value for name, value in row.items() if name != "worker_id"}
        changed = shared.execute(change.values(values)).rowcount if values else 0
        if not changed and shared.execute(select(table.c.worker_id).where(this)).first() is None:
            shared.execute(insert(table), row)


def _has_our_key(table: Table) -> bool:
    return {column.name for column in table.primary_key} == {"supervisor_id", "audit_id"}


def _row_number(table: Table) -> Column[Any] | None:
    """The column that numbers the rows of a table; None without one."""
    key = list(table.primary_key)
    return key[0] if len(key) == 1 and isinstance(key[0].type, Integer) else None


def _find_by_key(shared: Connection, table: Table, batch: Sequence[Sending]) -> set[int]:
    """Those of these rows, by position, that are there. Another row of the same number isn't: inserting is refused."""
    names = [name for name in ("supervisor_id", "audit_id", "hash") if name in table.c]
    query = select(*(table.c[name] for name in names)).where(
        table.c.supervisor_id.in_({sending.row["supervisor_id"] for sending in batch}),
        table.c.audit_id.in_([sending.row["audit_id"] for sending in batch]),
    )
    known = {tuple(row) for row in shared.execute(query)}
    return {n for n, sending in enumerate(batch) if tuple(sending.row[name] for name in names) in known}


def _identity(names: Sequence[str], row: Mapping[str, Any]) -> tuple[Any, ...]:
    """The value by which a row is recognized, from these columns."""
    if names != ["details_json"]:
        return tuple(row.get(name) for name in names)
    details = row["details_json"]
    if isinstance(details, str):
        try:
            details = json.loads(details)
        except ValueError:
            return ()
    return (details.get("supervisor_id"), details.get("audit_id")) if isinstance(details, dict) else ()


def _audit_values(table: Table, row: Row) -> Row:
    """An audit row in the columns of this table. The label is as it was given. In a table without `hash`, the details
    also name what it has no column for."""
    number = _row_number(table)
    columns = [name for name in row if name in table.c and not (number is not None and number.name == name)]
    try:
        details = json.loads(row["details_json"])
    except (TypeError, ValueError, RecursionError):
        details = None
    if not isinstance(details, dict):  # somebody altered the ledger
        details = {"unreadable": str(row["details_json"])}
    values = {**row, "label": details.get("label")}
    if not isinstance(row["created_at"], datetime):
        values["created_at"] = datetime.now(UTC)
    if "details_json" in table.c:
        if "hash" not in table.c:
            missing = {name: row[name] for name in ("outcome", "task_id") if name not in columns}
            details = {**missing, **details, "supervisor_id": row["supervisor_id"], "audit_id": row["audit_id"]}
            values["details_json"] = canonical_json(details)
        limit = _most_bytes(table.c.details_json)
        if limit is not None and len(str(values["details_json"]).encode()) > limit:
            kept = ("label", "outcome", "task_id", "supervisor_id", "audit_id")
            short = {name: details[name] for name in kept if name in details}
            values["details_json"] = canonical_json({**short, "truncated": True})
    return {name: _fit(table.c[name], values[name]) for name in columns}


def _most_bytes(column: Column[Any]) -> int | None:
    """The most bytes that a column of text surely holds; None where that is no limit."""
    length = getattr(column.type, "length", None)
    return length or (MYSQL_BYTES.get(type(column.type).__name__) if _is_mysql(column) else None)


def _is_mysql(column: Column[Any]) -> bool:
    return type(column.type).__module__.startswith("sqlalchemy.dialects.mysql")


def _fit(column: Column[Any], value: Any) -> Any:  # noqa: ANN401 (whatever a column holds)
    """A value of the ledger as this column of the user's table takes it."""
    kind = column.type
    if value is None:
        return None
    if isinstance(kind, DateTime) and isinstance(value, datetime):
        return value if kind.timezone else value.astimezone(UTC).replace(tzinfo=None)
    if isinstance(kind, JSON):
        return json.loads(storable(value))
    if isinstance(kind, Integer | Numeric) and isinstance(value, int | float):
        if not math.isfinite(value):
            return None
        return round(value) if isinstance(kind, Integer) else value
    cell = storable(to_text(value) if isinstance(value, datetime) else str(value))
    length = getattr(kind, "length", None)
    if _is_mysql(column) and length is None and (most := MYSQL_BYTES.get(type(kind).__name__)):
        return cell.encode()[:most].decode(errors="ignore")
    return cell[:length]
