"""From a flag on the drive to a row in the ledger: claimed, understood or rejected, each exactly once.

A crash anywhere leaves either the flag in the inbox, or the claimed file in `processing` (taken up by the next
sweep under the same task id), or the row. Only whoever holds the lock of a worker sweeps its flags.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from sqlalchemy import Connection

from supervisor_core.adapters.files import UnreadableError
from supervisor_core.adapters.inbox import Claimed
from supervisor_core.domain import crashpoints
from supervisor_core.domain.audit import AuditEntry
from supervisor_core.domain.catalog import by_handler
from supervisor_core.domain.code import count
from supervisor_core.domain.command import Issuer, person_of
from supervisor_core.domain.flags import (
    FlagIncomplete,
    FlagName,
    FlagOrder,
    FlagRejected,
    Trust,
    parse_body,
    parse_name,
    parse_unknown_name,
)
from supervisor_core.domain.jobs import FINAL, Job, new_task_id
from supervisor_core.domain.labels import audit_label
from supervisor_core.domain.texts import storable
from supervisor_core.domain.times import to_text
from supervisor_core.handlers import HANDLERS, Host
from supervisor_core.ledger import jobs, sightings
from supervisor_core.ledger.steps import Message, record
from supervisor_core.ledger.store import Ledger

log = logging.getLogger(__name__)

SETTLE_SECONDS = 5.0
"""How long a file that can't be understood must have stayed as it is before it is judged."""


@dataclass(frozen=True, slots=True)
class Swept:
    """What a look into the inbox brought."""

    filed: tuple[Job, ...] = ()
    rejected: int = 0
    unripe: int = 0


@dataclass(frozen=True, slots=True)
class _Rejection:
    reason: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", storable(self.reason))


def _same(earlier: Job, new: jobs.NewJob) -> bool:
    """Whether this is the same command again, whatever it is called."""
    return (earlier.handler, dict(earlier.params)) == (new.handler, dict(new.params))


class FlagIntake:
    """Sweeps the flags of these workers."""

    def __init__(
        self,
        host: Host,
        ledger: Ledger,
        worker_ids: Collection[str],
        trust: Trust | None,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        self._host = host
        self._ledger = ledger
        self._workers = tuple(worker_ids)
        self._trust = trust
        self._now = now or host.now
        self._immovable: set[str] = set()

    def sweep(self) -> Swept:
        """Take everything that is ready. `DriveUnavailable` where the drive is not."""
        call, inbox = self._host.drive.call, self._host.inbox
        self._host.drive.check()
        call(inbox.prepare)
        for name in call(inbox.strays):
            if self._is_ours(name):
                call(inbox.adopt, name, new_task_id(self._now()))
        claimed = [flag for flag in call(inbox.leftovers) if self._is_ours(flag.name)]
        unripe = 0
        for name in call(inbox.names):
            if not self._is_ours(name):
                continue
            if not self._is_ripe(name):
                unripe += 1
            elif flag := self._claim(name):
                claimed.append(flag)
        if not claimed:
            return Swept(unripe=unripe)
        call(inbox.settle)
        return self._take(claimed, unripe)

    def _claim(self, name: str) -> Claimed | None:
        """The flag, unless somebody was faster, or it may not be moved: that must not keep the others waiting."""
        try:
            return self._host.drive.call(self._host.inbox.claim, name, new_task_id(self._now()))
        except PermissionError as error:
            if name not in self._immovable:
                self._immovable.add(name)
                log.error("flag %s may not be moved, so it is not followed: %s", name, error.strerror)  # noqa: TRY400
            return None

    def _is_ours(self, name: str) -> bool:
        flag = parse_name(name)
        if flag is not None:
            return flag.worker_id in self._workers
        return parse_unknown_name(name, self._workers) is not None

    def _is_ripe(self, name: str) -> bool:
        """Whether the file is whole, or can't be waited for any longer."""
        try:
            self._understand(name, "peek", self._host.drive.call(self._host.inbox.peek, name))
        except FileNotFoundError:
            return False
        except (FlagIncomplete, PermissionError):
            return self._has_settled(name)
        except (FlagRejected, UnreadableError):
            return True
        return True

    def _has_settled(self, name: str) -> bool:
        try:
            fingerprint = self._host.drive.call(self._host.inbox.fingerprint, name)
        except FileNotFoundError:
            return False
        now = self._now()
        seen = self._ledger.write(lambda connection: sightings.first_seen(connection, name, fingerprint, now))
        return now - seen >= timedelta(seconds=SETTLE_SECONDS)

    def _understand(self, name: str, token: str, data: bytes) -> FlagOrder:
        flag = parse_name(name)
        if flag is None:
            known = ", ".join(HANDLERS)
            raise FlagRejected(
                f"It must be named supervisor_HANDLER_WORKER.flag or supervisor_HANDLER_WORKER_TASKID.flag. "
                f"Handlers are {known}; a task id is 1 to 128 letters, digits, hyphens or underscores."
            )
        order = parse_body(data, flag, token, self._now(), self._trust)
        if order.handler not in HANDLERS:
            raise FlagRejected(f"{order.handler} is known, but not built yet; nothing was done.")
        definition = by_handler(order.handler)
        if definition is not None and self._host.config.needs_approval(definition.name, "flag"):
            self._check_agreed(order, definition.name)
        return order

    def _check_agreed(self, order: FlagOrder, name: str) -> None:
        """What needs an approval brings it along: those in a signed flag are people's, not the writer's."""
        terms = self._host.config.slack.approvals
        asker = "" if terms.self_approval or order.issuer is None else person_of(order.issuer.id)
        agreed = {person_of(str(each.get("id"))) for each in order.approvals} - {asker, ""}
        if len(agreed) < terms.votes:
            raise FlagRejected(
                f"{name} needs an approval here, with {count(terms.votes, 'vote')}, and this flag brings "
                f"{len(agreed)}. Give the command in Slack: there people are asked."
            )

    def _take(self, claimed: list[Claimed], unripe: int) -> Swept:
        """Row by row, all in as few transactions as there can be; then the files."""
        under_way: list[tuple[Claimed, FlagOrder | _Rejection, Future[Any]]] = []
        for flag in claimed:
            try:
                order = self._read(flag)
            except FileNotFoundError:
                continue
            crashpoints.reach("flag.row:before")
            under_way.append((flag, order, self._file(flag, order)))
        filed, rejected = [], 0
        for flag, order, future in under_way:
            answer = future.result()
            crashpoints.reach("flag.row:after")
            rejection = order if isinstance(order, _Rejection) else answer
            if isinstance(rejection, _Rejection):
                rejected += 1
                log.warning("flag %s rejected: %s", flag.name, rejection.reason)
                self._host.drive.call(self._host.inbox.reject, flag, rejection.reason)
                self._ledger.write(partial(sightings.forget, name=flag.path.name))
                continue
            self._host.drive.call(self._host.inbox.remove, flag)
            if answer is not None:
                filed.append(answer)
        return Swept(tuple(filed), rejected, unripe)

    def _read(self, flag: Claimed) -> FlagOrder | _Rejection:
        try:
            data = self._host.drive.call(self._host.inbox.read, flag)
            try:
                return self._understand(flag.name, flag.token, data)
            except FlagIncomplete:
                if data.strip():
                    raise
                return self._understand(flag.name, flag.token, b"{}")
        except (FlagIncomplete, FlagRejected, UnreadableError) as error:
            return _Rejection(str(error))
        except PermissionError as error:
            return _Rejection(f"It may not be read: {error.strerror}.")

    def _file(self, flag: Claimed, order: FlagOrder | _Rejection) -> Future[Any]:
        now = self._now()
        facts = self._host.drive.call(self._host.inbox.facts, flag)
        owner = Issuer(f"file:{facts.owner}", facts.owner)
        if isinstance(order, _Rejection):
            return self._ledger.submit(lambda connection: self._refuse(connection, flag, order, owner, now))
        if order.ignored:
            log.warning("flag %s: ignored what nobody knows: %s", flag.name, ", ".join(order.ignored))
        new = jobs.NewJob(
            task_id=order.task_id,
            worker_id=order.worker_id,
            handler=order.handler,
            params=order.params,
            label=order.label,
            issuer=order.issuer or owner,
            door="flag",
            filed_at=facts.filed_at,
            approvals=order.approvals,
            card=self._host.config.announcement(),
        )
        return self._ledger.submit(lambda connection: self._file_once(connection, flag, new, now))

    def _file_once(
        self, connection: Connection, flag: Claimed, new: jobs.NewJob, now: datetime
    ) -> Job | _Rejection | None:
        """The job that must still be done; for a task id that has its outcome, that outcome once more."""
        sightings.forget(connection, flag.name)
        job = jobs.file(connection, self._ledger.supervisor_id, new, now)
        if job is None:
            earlier = jobs.find(connection, new.task_id, new.worker_id)
            if earlier is not None and not _same(earlier, new):
                reason = f"The task id {new.task_id} belongs to another command ({earlier.handler}); use a new one."
                rejection = _Rejection(reason)
                self._refuse(connection, flag, rejection, new.issuer, now)
                return rejection
            log.info("flag %s: task %s was here before; it is not run again", flag.name, new.task_id)
            if earlier is None or earlier.state not in FINAL:
                return earlier  # filed by a sweep that then lost the drive, and told nobody
            message = jobs.result_message(new.task_id, new.worker_id)
            record(connection, self._ledger.supervisor_id, None, (message,), now)
        return job

    def _refuse(
        self, connection: Connection, flag: Claimed, rejection: _Rejection, owner: Issuer, now: datetime
    ) -> None:
        """An outcome like any other: in the trail and as a result, once."""
        sightings.forget(connection, flag.name)
        if not sightings.mark(connection, flag.path.name, sightings.REJECTED, now):
            return
        name = parse_name(flag.name) or FlagName(
            "unknown", parse_unknown_name(flag.name, self._workers) or "unknown", None
        )
        used = name.task_id is not None and bool(jobs.of_task(connection, name.task_id))
        task_id = flag.token if used or name.task_id is None else name.task_id
        document = {
            "timestamp": to_text(now),
            "supervisor_id": self._ledger.supervisor_id,
            "worker_id": name.worker_id,
            "task_id": task_id,
            "handler": name.handler,
            "label": None,
            "state": "rejected",
            "success": False,
            "error": rejection.reason,
            "details": {"flag": flag.name},
        }
        entry = AuditEntry(
            actor=owner.id,
            action="REFUSED",
            target_id=name.worker_id,
            outcome="failure",
            label=audit_label(owner.name, owner.id, None),
            task_id=task_id,
            details={"flag": flag.name, "handler": name.handler, "error": rejection.reason, "door": "flag"},
        )
        message = Message(jobs.RESULT_FILE, f"{task_id}/{name.worker_id}", {"document": document})
        record(connection, self._ledger.supervisor_id, entry, (message,), now)
