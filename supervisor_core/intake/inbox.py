"""Files each flag of the drive as a row of the ledger, or rejects it, exactly once.

A crash anywhere leaves the flag in the inbox, or the claimed file in `processing` (taken up by the next sweep under the
same task id), or the row. Only whoever holds the lock of a worker sweeps its flags.

A sweep is bounded. It follows genuine flags before it clears junk, and looks at each file once while that is unchanged.
A file that may still be being written has a moment from when this program first saw it: clocks of hosts differ.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime
from enum import Enum
from functools import partial
from typing import NamedTuple, TypeVar

from sqlalchemy import Connection, select

from supervisor_core.code.change_plan import count
from supervisor_core.commands.catalog import HANDLERS, by_handler
from supervisor_core.commands.command import Issuer, person_of
from supervisor_core.commands.definitions import Right
from supervisor_core.commands.flags import (
    FlagClaims,
    FlagCommand,
    FlagIncomplete,
    FlagRejected,
    Trust,
    claims_of,
    find_misspelled,
    parse_body,
    parse_name,
    suggest_name,
    worker_of,
)
from supervisor_core.commands.labels import audit_label
from supervisor_core.common import crashpoints
from supervisor_core.common.log_events import LogEvent
from supervisor_core.common.text import storable
from supervisor_core.common.times import to_text
from supervisor_core.config.load import denial_reason
from supervisor_core.host.descriptors import UnreadableFileError
from supervisor_core.host.inbox import LISTED, REJECTED, ClaimedFlag, FlagContent, UnclaimedFlag
from supervisor_core.intake.filing import log_received
from supervisor_core.jobs import rows
from supervisor_core.jobs.model import FINAL, Job, is_reserved, new_task_id
from supervisor_core.storage.audit.chain import AuditEntry
from supervisor_core.storage.steps import Message, record
from supervisor_core.storage.store import Ledger
from supervisor_core.storage.tables import outbox
from supervisor_core.workers.context import HostContext
from supervisor_core.workers.heartbeats.files import known_workers

T = TypeVar("T")

SOURCE = "flag"

SETTLE_SECONDS = 5.0
"""The time for which a file that can't be parsed must stay unchanged before it's judged."""

TAKEN = 500
"""The most flags that one sweep takes of those left behind, of the genuine ones, and of junk."""

FEW = 100
"""The junk that is cleared by a sweep that files commands."""

LOOK_SECONDS = 0.5
"""The time in which one sweep reads new files. The next one reads the others."""

BATCH = 200
"""Flags of one call to the drive."""

SMALL = 4096
"""Bytes. A genuine flag is smaller, so these are read first."""

WAITING = 1000
"""Commands from flags that may wait for one worker; more of them are rejected."""

EACH = 20
"""Rejections of one sweep with an audit row each. The others share one, and a report has their reasons."""

log = logging.getLogger(__name__)


class SweepResult(NamedTuple):
    filed: tuple[Job, ...] = ()
    rejected: int = 0
    unripe: int = 0
    """Files that may still be being written."""
    more: bool = False
    """True if there are more flags than one sweep takes."""


class _Kind(Enum):
    GENUINE = "genuine"
    JUNK = "junk"
    BLANK = "blank"
    """Without content: a command without parameters once it has stayed so."""
    PARTIAL = "partial"


class _Sighting(NamedTuple):
    fingerprint: str
    kind: _Kind
    since: float


class _Rejection(NamedTuple):
    opened: FlagContent
    reason: str
    claims: FlagClaims
    owner: Issuer


class FlagIntake:
    """Remembers for as long as it lives what it has read."""

    def __init__(
        self,
        host: HostContext,
        ledger: Ledger,
        worker_ids: Collection[str],
        trust: Trust | None,
        now: Callable[[], datetime] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host = host
        self._ledger = ledger
        self._workers = tuple(worker_ids)
        self._trust = trust
        self._now = now or host.now
        self._clock = clock
        self._sightings: dict[str, _Sighting] = {}
        self._immovable: set[str] = set()
        self._own_names: dict[str, bool] = {}
        """The names of our flags at the last sweep, and whether each has its worker's name in another case."""

    def sweep(self, prepare: Callable[[], object] = lambda: None) -> SweepResult:
        """File the ready flags, then clear junk. `DriveUnavailable` if the drive is away.

        `prepare` is called in the drive's thread, once the inbox exists and before it is read.
        """
        left, unclaimed = self._host.drive.call(self._list, prepare)
        unread = self._read_new(unclaimed)
        ready, junk, unripe = list[str](), list[str](), 0
        for flag in unclaimed:
            sighting = self._sightings.get(flag.name)
            if sighting is None or flag.name in self._immovable:
                continue
            ripe = self._clock() - sighting.since >= SETTLE_SECONDS
            if sighting.kind is _Kind.GENUINE or (sighting.kind is _Kind.BLANK and ripe):
                ready.append(flag.name)
            elif sighting.kind is _Kind.JUNK or ripe:
                junk.append(flag.name)
            else:
                unripe += 1
        filed, rejections = self._take([*left[:TAKEN], *self._claim(ready[:TAKEN])])
        cleared = FEW if filed else TAKEN  # commands run first
        more_filed, more_rejections = self._take(self._claim(junk[:cleared]))
        filed, rejections = [*filed, *more_filed], [*rejections, *more_rejections]
        self._record_rejections(rejections)
        left_over = max(len(left), len(ready)) > TAKEN or len(junk) > cleared or len(unclaimed) >= LISTED
        more = unread or (left_over and bool(filed or rejections))  # else the next sweep would bring nothing either
        return SweepResult(tuple(filed), len(rejections), unripe, more)

    def _list(self, prepare: Callable[[], object]) -> tuple[list[ClaimedFlag], list[UnclaimedFlag]]:
        """Our flags: those that an earlier sweep claimed and didn't finish, and those in the inbox."""
        inbox = self._host.inbox
        self._host.drive.confirm()
        inbox.prepare()
        prepare()
        known, self._own_names = self._own_names, {}

        def is_own(name: str) -> bool:
            if name not in self._own_names:
                if name in known:
                    self._own_names[name] = known[name]
                elif worker_of(name, self._workers) is not None:
                    self._own_names[name] = find_misspelled(name, self._workers) is not None
            return name in self._own_names

        strays = list(filter(is_own, inbox.strays()))
        others = self._of_other_hosts(strays)
        for name in [name for name in strays if name not in others][:TAKEN]:
            inbox.adopt(name, new_task_id(self._now()))
        left = [flag for flag in inbox.leftovers() if is_own(flag.name)]
        others = self._of_other_hosts([flag.name for flag in left])
        left = [flag for flag in left if flag.name not in others]
        inbox.bound_processing({flag.name for flag in left})
        unclaimed = inbox.unclaimed(is_own)
        self._immovable &= self._own_names.keys()
        others = self._of_other_hosts([flag.name for flag in unclaimed])
        return left, [flag for flag in unclaimed if flag.name not in others]

    def _of_other_hosts(self, names: Sequence[str]) -> set[str]:
        """The flags for workers of other hosts whose names differ from ours in case only."""
        misspelled = [name for name in names if self._own_names[name]]
        if not misspelled:
            return set()
        elsewhere = known_workers(self._host.drive.root, self._host.config.folder("state"))
        parsed = ((name, parse_name(name)) for name in misspelled)
        return {name for name, flag in parsed if flag is not None and flag.worker_id in elsewhere}

    def _read_new(self, unclaimed: Sequence[UnclaimedFlag]) -> bool:
        """Read the new and changed files: small ones first, and of these the newest. True if some weren't read."""
        known = self._sightings
        self._sightings = {
            flag.name: sighting
            for flag in unclaimed
            if (sighting := known.get(flag.name)) is not None
            and sighting.fingerprint == flag.fingerprint
            and sighting.kind is not _Kind.GENUINE  # else it couldn't be claimed
        }
        new = [flag for flag in unclaimed if flag.name not in self._sightings]
        new.sort(key=lambda flag: (not 0 < flag.size <= SMALL, -flag.moment))
        deadline, read = time.monotonic() + LOOK_SECONDS, 0
        for batch in _batches(new):
            contents = self._host.drive.call(self._host.inbox.peek_all, [flag.name for flag in batch])
            for flag in batch:
                content = contents[flag.name]
                if not isinstance(content, FileNotFoundError):
                    sighting = _Sighting(flag.fingerprint, self._kind_of(flag.name, content), self._clock())
                    self._sightings[flag.name] = sighting
            read += len(batch)
            if time.monotonic() > deadline:
                break
        return read < len(new)

    def _kind_of(self, name: str, content: bytes | Exception) -> _Kind:
        if isinstance(content, Exception):
            return _Kind.JUNK if isinstance(content, UnreadableFileError) else _Kind.PARTIAL
        try:
            self._parse(name, "peek", content)
        except FlagIncomplete:
            return _Kind.PARTIAL if content.strip() else _Kind.BLANK
        except FlagRejected:
            return _Kind.JUNK
        return _Kind.GENUINE

    def _claim(self, names: Sequence[str]) -> list[ClaimedFlag]:
        claimed: list[ClaimedFlag] = []
        for batch in _batches(names):
            tokens = [(name, new_task_id(self._now())) for name in batch]
            for name, answer in self._host.drive.call(self._host.inbox.claim_all, tokens):
                if isinstance(answer, ClaimedFlag):
                    claimed.append(answer)
                elif answer is not None:
                    self._immovable.add(name)
                    log.error("flag %s can't be moved, so it's ignored: %s", name, answer.strerror)
        if claimed:
            self._host.drive.call(self._host.inbox.settle)
        return claimed

    def _take(self, claimed: Sequence[ClaimedFlag]) -> tuple[list[Job], list[_Rejection]]:
        """File the rows in as few transactions as possible, then delete the files."""
        filed: list[Job] = []
        rejections: list[_Rejection] = []
        for batch in _batches(claimed):
            pending: list[tuple[FlagContent, Future[Job | _Rejection | None]]] = []
            for opened in self._host.drive.call(self._host.inbox.read_all, batch):
                command = self._parse_claimed(opened)
                if isinstance(command, _Rejection):
                    rejections.append(command)
                    continue
                crashpoints.reach("flag.row:before")
                file = partial(self._file, opened=opened, command=command, now=self._now())
                pending.append((opened, self._ledger.submit(file)))
            for opened, future in pending:
                job = future.result()
                crashpoints.reach("flag.row:after")
                if isinstance(job, _Rejection):
                    rejections.append(job)
                    continue
                self._host.drive.call(self._host.inbox.remove, opened.flag)
                if job is not None:
                    log_received(job)
                    filed.append(job)
        return filed, rejections

    def _parse_claimed(self, opened: FlagContent) -> FlagCommand | _Rejection:
        flag, content = opened.flag, opened.content
        data = content if isinstance(content, bytes) else b""
        try:
            if not isinstance(content, bytes):
                raise content
            return self._parse(flag.name, flag.token, data if data.strip() else b"{}")
        except (FlagIncomplete, FlagRejected, UnreadableFileError) as error:
            reason = str(error)
        except PermissionError as error:
            reason = f"The file can't be read: {error.strerror}."
        return _Rejection(opened, storable(reason), claims_of(flag.name, data, self._workers), _owner(opened))

    def _parse(self, name: str, token: str, data: bytes) -> FlagCommand:
        """The command in a flag; `FlagIncomplete` if the file may still be being written, else `FlagRejected`."""
        flag = parse_name(name)
        if flag is None:
            known, meant = ", ".join(HANDLERS), suggest_name(name, self._workers)
            raise FlagRejected(
                f"The file name must be supervisor_HANDLER_WORKER.flag or supervisor_HANDLER_WORKER_TASKID.flag. "
                f"Handlers: {known}. A task id is 1 to 128 letters, digits, hyphens or underscores.",
                remedy=f"Did you mean {meant}?" if meant else "",
            )
        if right := find_misspelled(name, self._workers):
            raise FlagRejected(
                f"There's no worker {flag.worker_id}, but {right}. Flags need the exact name.",
                remedy=f"Rename the file to supervisor_{flag.handler}_{right}.flag.",
            )
        command = parse_body(data, flag, token, self._now(), self._trust)
        if is_reserved(command.task_id):
            raise FlagRejected(
                f"Command ids such as {command.task_id} are reserved for commands from Slack and from schedules.",
                remedy="Use another id, or none.",
            )
        if (definition := by_handler(command.handler)) is not None:
            self._check_rights(command, definition.name)
        return command

    def _check_rights(self, command: FlagCommand, name: str) -> None:
        """Reject people without the right, as the holder of the secret could name anybody, and missing approvals."""
        config = self._host.config
        people = [(command.issuer.id, Right.OPERATOR)] if command.issuer is not None else []
        people += [(str(vote["id"]), Right.APPROVER) for vote in command.approvals]
        for who, right in people:
            if why := denial_reason(config, who, name, command.worker_id, right):
                raise FlagRejected(why, remedy="Groups and * don't count here.")
        if not config.needs_approval(name, SOURCE):
            return
        terms, aliases = config.slack.approvals, config.slack.access.people
        requester = "" if terms.self_approval or command.issuer is None else person_of(command.issuer.id, aliases)
        approvers = {person_of(str(vote.get("id")), aliases) for vote in command.approvals} - {requester, ""}
        if len(approvers) < terms.votes:
            raise FlagRejected(
                f"{name} needs an approval with {count(terms.votes, 'vote')}, and this flag has "
                f"{len(approvers)}. Send the command in Slack to request one."
            )

    def _file(
        self, connection: Connection, opened: FlagContent, command: FlagCommand, now: datetime
    ) -> Job | _Rejection | None:
        """The job of a flag; for a command id that has already run, None, and its result is written again."""
        name, task_id, worker_id = opened.flag.name, command.task_id, command.worker_id
        if command.ignored:
            log.warning("flag %s: unknown keys ignored: %s", name, ", ".join(command.ignored))
        new = rows.NewJob(
            task_id=task_id,
            worker_id=worker_id,
            handler=command.handler,
            params=command.params,
            label=command.label,
            issuer=command.issuer or _owner(opened),
            door=SOURCE,
            filed_at=opened.filed_at,
            approvals=command.approvals,
            card=self._host.config.announcement(),
        )
        earlier, why = None, ""
        if holder := rows.id_holder(connection, task_id, SOURCE):
            why = f"The command id {task_id} belongs to {holder}. Use a new one."
        elif (earlier := rows.find(connection, task_id, worker_id)) is None:
            if rows.count_waiting(connection, worker_id, SOURCE) < WAITING:
                return rows.file(connection, self._ledger.supervisor_id, new, now)
            why = f"{WAITING} commands from flags already wait for {worker_id}. Try again later."
        elif (earlier.handler, dict(earlier.params)) != (new.handler, dict(new.params)):
            why = f"The command id {task_id} belongs to another command ({earlier.command}). Use a new one."
        if earlier is None or why:
            claims = FlagClaims(new.handler, worker_id, task_id, new.label)
            return _Rejection(opened, storable(why), claims, new.issuer)
        log.info("flag %s: %s ran before and isn't run again", name, task_id)
        if earlier.state not in FINAL:
            return earlier  # filed by a sweep that then lost the drive, and woke nobody
        record(connection, self._ledger.supervisor_id, None, (rows.result_message(task_id, worker_id),), now)
        return None

    def _record_rejections(self, rejections: Sequence[_Rejection]) -> None:
        """Record rejections, then move the files to `rejected`: the first few with an audit row, a result and a reason
        each, the others with one audit row and a report."""
        if not rejections:
            return
        now, inbox = self._now(), self._host.inbox
        pending = [self._ledger.submit(partial(self._reject, rejection=each, now=now)) for each in rejections[:EACH]]
        for rejection, future in zip(rejections, pending, strict=False):
            future.result()
            name, reason = rejection.opened.flag.name, rejection.reason
            about = LogEvent.FLAG_REJECTED.extra(worker_id=rejection.claims.worker_id, flag=name, reason=reason)
            log.warning("flag %s rejected: %s", name, reason, extra=about)
            self._host.drive.call(inbox.reject, rejection.opened.flag, reason)
        if others := rejections[EACH:]:
            self._reject_rest(others, now)
        self._host.drive.call(inbox.bound_rejected)

    def _reject(self, connection: Connection, rejection: _Rejection, now: datetime) -> None:
        """Record a rejection in the audit trail and as a result, once: the result's row names the claimed file."""
        flag, claims = rejection.opened.flag, rejection.claims
        claimed = f"{flag.path.name} {rejection.opened.filed_at.isoformat()}"
        subject = f"rejected flag/{hashlib.sha256(storable(claimed).encode()).hexdigest()}"
        same = (outbox.c.kind == rows.RESULT_FILE, outbox.c.subject == subject)
        if connection.execute(select(outbox.c.outbox_id).where(*same)).first() is not None:
            return
        task_id = self._id_of_rejection(connection, rejection)
        document = {
            "timestamp": to_text(now),
            "supervisor_id": self._ledger.supervisor_id,
            "worker_id": claims.worker_id,
            "task_id": task_id,
            "handler": claims.handler,
            "label": claims.label,
            "state": "rejected",
            "success": False,
            "error": rejection.reason,
            "details": {"flag": flag.name},
        }
        about = {"flag": flag.name, "handler": claims.handler, "label": claims.label, "error": rejection.reason}
        entry = _refused(rejection.owner, "worker", claims.worker_id, claims.label, task_id, about)
        message = Message(rows.RESULT_FILE, subject, {"document": document})
        record(connection, self._ledger.supervisor_id, entry, (message,), now)

    def _id_of_rejection(self, connection: Connection, rejection: _Rejection) -> str:
        """The command id of a rejection's result: its own, unless another command has it."""
        for task_id in filter(None, (rejection.claims.task_id, rejection.opened.flag.token)):
            taken = is_reserved(task_id) or rows.submitted_jobs(connection, task_id)
            if not taken and not rows.id_holder(connection, task_id, SOURCE):
                return task_id
        return new_task_id(self._now())

    def _reject_rest(self, rejections: Sequence[_Rejection], now: datetime) -> None:
        task_id = new_task_id(now)
        name = f"report_{task_id}.json"
        flags = [{"name": each.opened.flag.name, "reason": each.reason} for each in rejections]
        report = {"timestamp": to_text(now), "supervisor_id": self._ledger.supervisor_id, "count": len(flags)}
        self._host.drive.call(self._host.inbox.report, name, {**report, "flags": flags})
        workers = sorted({each.claims.worker_id for each in rejections})
        owners = {each.owner for each in rejections}
        owner = owners.pop() if len(owners) == 1 else Issuer("file:unknown", "unknown")
        reasons = Counter(each.reason for each in rejections).most_common(5)
        error = f"{len(flags)} more flags were rejected in one sweep; {REJECTED}/{name} names them."
        about = {
            "count": len(flags),
            "examples": [flag["name"] for flag in flags[:5]],
            "reasons": [{"reason": reason, "count": times} for reason, times in reasons],
            "report": f"{REJECTED}/{name}",
            "error": error,
        }
        kind = "worker" if len(workers) == 1 else "workers"
        entry = _refused(owner, kind, ",".join(workers)[:64], None, task_id, about)
        log.warning("%s", error, extra=LogEvent.FLAGS_REJECTED.extra(count=len(flags), report=f"{REJECTED}/{name}"))
        self._ledger.audit(entry, now)
        self._host.drive.call(self._host.inbox.put_aside, [each.opened.flag for each in rejections])


def _batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[start : start + BATCH] for start in range(0, len(items), BATCH))


def _owner(opened: FlagContent) -> Issuer:
    return Issuer(f"file:{opened.owner}", opened.owner)


def _refused(
    owner: Issuer, target_type: str, target_id: str, label: str | None, task_id: str, about: Mapping[str, object]
) -> AuditEntry:
    return AuditEntry(
        actor=owner.id,
        action="REFUSED",
        target_type=target_type,
        target_id=target_id,
        outcome="failure",
        label=audit_label(owner.name, owner.id, label),
        task_id=task_id,
        details={**about, "door": SOURCE},
    )
