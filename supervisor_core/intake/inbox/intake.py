"""Files each flag of the drive as a row of the ledger, or rejects it, exactly once.

A crash anywhere leaves either the flag in the inbox, or the claimed file in `processing` (taken up by the next
sweep under the same task id), or the row. Only whoever holds the lock of a worker sweeps its flags.

A sweep is bounded, and takes what can be followed before it clears junk.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from sqlalchemy import Connection

from supervisor_core.commands.command import Issuer
from supervisor_core.commands.flags import (
    FlagClaims,
    FlagCommand,
    FlagIncomplete,
    FlagRejected,
    Trust,
    claims_of,
    find_misspelled,
    parse_name,
    worker_of,
)
from supervisor_core.common import crashpoints
from supervisor_core.host.descriptors import UnreadableFileError
from supervisor_core.host.inbox import LISTED, ClaimedFlag, FlagContent, UnclaimedFlag
from supervisor_core.intake.filing import log_received
from supervisor_core.intake.inbox import triage as sightings
from supervisor_core.intake.inbox.rejections import FlagRejections, Rejection
from supervisor_core.intake.inbox.rules import DOOR, FlagRules
from supervisor_core.intake.inbox.triage import BATCH, FlagTriage
from supervisor_core.jobs import queries as command_ids
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import FINAL, Job, new_task_id
from supervisor_core.storage.steps import record
from supervisor_core.storage.store import Ledger
from supervisor_core.workers.context import HostContext
from supervisor_core.workers.heartbeats.files import known_workers

T = TypeVar("T")

log = logging.getLogger(__name__)

TAKEN = 500
"""Flags that one sweep takes, and as many that an earlier one left behind."""

CLEARED = 700
"""Junk flags that one sweep clears."""

FEW = 100
"""With more junk flags than this, a sweep that files commands leaves them to the next one."""

WAITING = 1000
"""Commands from flags that may wait for one worker; more of them are rejected."""


@dataclass(frozen=True, slots=True)
class SweepResult:
    filed: tuple[Job, ...] = ()
    rejected: int = 0
    unripe: int = 0
    more: bool = False
    """True if there are more flags than one sweep takes."""


class FlagIntake:
    def __init__(
        self,
        host: HostContext,
        ledger: Ledger,
        worker_ids: Collection[str],
        trust: Trust | None,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        self._host = host
        self._ledger = ledger
        self._workers = tuple(worker_ids)
        self._now = now or host.now
        self._rules = FlagRules(host.config, self._workers, trust, self._now)
        self._triage = FlagTriage(host, ledger, self._rules)
        self._rejections = FlagRejections(host, ledger, self._now)
        self._immovable: set[str] = set()
        self._ours_of_old: dict[str, bool] = {}
        """The names of our flags at the last sweep, and whether each is in another case."""

    def sweep(self, prepared: Callable[[], object] = lambda: None) -> SweepResult:
        """File the ready flags, then clear junk. `DriveUnavailable` if the drive is away.

        `prepared` is called in the drive's thread, once the inbox exists and before it is read.
        """
        self._rejections.begin()
        left, lying = self._host.drive.call(self._look, prepared)
        found = self._triage.sort(lying, self._now())
        ready, junk = self._movable(found.ready), self._movable(found.junk)
        filed, rejected = self._take([*left[:TAKEN], *self._claim(ready[:TAKEN])])
        if filed and len(junk) > FEW:  # they are carried out first
            return SweepResult(tuple(filed), rejected, found.unripe, more=True)
        more_filed, more_rejected = self._take(self._claim(junk[:CLEARED]))
        filed, rejected = [*filed, *more_filed], rejected + more_rejected
        left_over = max(len(left), len(ready)) > TAKEN or len(junk) > CLEARED or len(lying) >= LISTED
        more = found.more or (left_over and bool(filed or rejected))  # else the next sweep would bring nothing either
        return SweepResult(tuple(filed), rejected, found.unripe, more)

    def _look(self, prepared: Callable[[], object]) -> tuple[list[ClaimedFlag], list[UnclaimedFlag]]:
        """Our flags in the inbox, in one call to the drive: those left behind and those that lie there."""
        self._host.drive.confirm()
        self._host.inbox.prepare()
        prepared()
        return self._left_behind(), self._lying()

    def _left_behind(self) -> list[ClaimedFlag]:
        """Our flags that an earlier sweep claimed and didn't finish."""
        inbox = self._host.inbox
        for name in self._ours(inbox.strays())[:TAKEN]:
            inbox.adopt(name, new_task_id(self._now()))
        left = inbox.leftovers()
        ours = set(self._ours([flag.name for flag in left]))
        inbox.bound_processing(ours)
        return [flag for flag in left if flag.name in ours]

    def _ours(self, names: Sequence[str]) -> list[str]:
        ours = [name for name in names if worker_of(name, self._workers) is not None]
        not_ours = self._of_others([name for name in ours if find_misspelled(name, self._workers) is not None])
        return [name for name in ours if name not in not_ours]

    def _lying(self) -> list[UnclaimedFlag]:
        known, fresh = self._ours_of_old, dict[str, bool]()

        def wanted(name: str) -> bool:
            ours = name in fresh or name in known or worker_of(name, self._workers) is not None
            if ours and name not in fresh:
                fresh[name] = known[name] if name in known else find_misspelled(name, self._workers) is not None
            return ours

        found = self._host.inbox.unclaimed(wanted)
        self._ours_of_old = fresh
        self._immovable &= fresh.keys()
        not_ours = self._of_others([flag.name for flag in found if fresh[flag.name]])
        return [flag for flag in found if flag.name not in not_ours]

    def _of_others(self, in_another_case: Sequence[str]) -> set[str]:
        """The flags for workers of other hosts with exactly this name."""
        if not in_another_case:
            return set()
        folder = self._host.config.folder("state")
        elsewhere = known_workers(self._host.drive.root, folder)
        named = ((name, parse_name(name)) for name in in_another_case)
        return {name for name, flag in named if flag is not None and flag.worker_id in elsewhere}

    def _movable(self, names: list[str]) -> list[str]:
        return [name for name in names if name not in self._immovable]

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

    def _take(self, claimed: Sequence[ClaimedFlag]) -> tuple[list[Job], int]:
        """File the rows in as few transactions as possible, then delete the files."""
        filed: list[Job] = []
        rejections: list[Rejection] = []
        for batch in _batches(claimed):
            under_way: list[tuple[FlagContent, Future[Job | Rejection | None]]] = []
            for opened in self._host.drive.call(self._host.inbox.read_all, batch):
                order = self._understand(opened)
                if isinstance(order, Rejection):
                    rejections.append(order)
                    continue
                crashpoints.reach("flag.row:before")
                under_way.append((opened, self._file(opened, order)))
            for opened, future in under_way:
                answer = future.result()
                crashpoints.reach("flag.row:after")
                if isinstance(answer, Rejection):
                    rejections.append(answer)
                    continue
                self._host.drive.call(self._host.inbox.remove, opened.flag)
                if answer is not None:
                    log_received(answer)
                    filed.append(answer)
        self._rejections.reject(rejections)
        return filed, len(rejections)

    def _understand(self, opened: FlagContent) -> FlagCommand | Rejection:
        flag, content = opened.flag, opened.content
        data = content if isinstance(content, bytes) else b""
        try:
            if not isinstance(content, bytes):
                raise content
            try:
                return self._rules.understand(flag.name, flag.token, data)
            except FlagIncomplete:
                if data.strip():
                    raise
                return self._rules.understand(flag.name, flag.token, b"{}")
        except (FlagIncomplete, FlagRejected, UnreadableFileError) as error:
            reason = str(error)
        except PermissionError as error:
            reason = f"The file can't be read: {error.strerror}."
        return Rejection(flag, reason, claims_of(flag.name, data, self._workers), _owner(opened))

    def _file(self, opened: FlagContent, order: FlagCommand) -> Future[Job | Rejection | None]:
        now = self._now()
        if order.ignored:
            log.warning("flag %s: unknown keys ignored: %s", opened.flag.name, ", ".join(order.ignored))
        new = jobs.NewJob(
            task_id=order.task_id,
            worker_id=order.worker_id,
            handler=order.handler,
            params=order.params,
            label=order.label,
            issuer=order.issuer or _owner(opened),
            door=DOOR,
            filed_at=opened.facts.filed_at,
            approvals=order.approvals,
            card=self._host.config.announcement(),
        )
        return self._ledger.submit(lambda connection: self._file_once(connection, opened, new, now))

    def _file_once(
        self, connection: Connection, opened: FlagContent, new: jobs.NewJob, now: datetime
    ) -> Job | Rejection | None:
        """The job of a flag; for a command id that has already run, its outcome."""
        sightings.forget(connection, opened.flag.name)
        if holder := command_ids.id_holder(connection, new.task_id, DOOR):
            return _refused(opened, new, f"The command id {new.task_id} belongs to {holder}. Use a new one.")
        earlier = jobs.find(connection, new.task_id, new.worker_id)
        if earlier is None:
            if jobs.count_waiting(connection, new.worker_id, DOOR) >= WAITING:
                why = f"{WAITING} commands from flags already wait for {new.worker_id}. Try again later."
                return _refused(opened, new, why)
            return jobs.file(connection, self._ledger.supervisor_id, new, now)
        if not _same(earlier, new):
            why = f"The command id {new.task_id} belongs to another command ({earlier.command}). Use a new one."
            return _refused(opened, new, why)
        log.info("flag %s: %s ran before and isn't run again", opened.flag.name, new.task_id)
        if earlier.state not in FINAL:
            return earlier  # filed by a sweep that then lost the drive, and told nobody
        message = jobs.result_message(new.task_id, new.worker_id)
        record(connection, self._ledger.supervisor_id, None, (message,), now)
        return None


def _batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[start : start + BATCH] for start in range(0, len(items), BATCH))


def _owner(opened: FlagContent) -> Issuer:
    return Issuer(f"file:{opened.facts.owner}", opened.facts.owner)


def _refused(opened: FlagContent, new: jobs.NewJob, reason: str) -> Rejection:
    claims = FlagClaims(new.handler, new.worker_id, new.task_id, new.label)
    return Rejection(opened.flag, reason, claims, new.issuer)


def _same(earlier: Job, new: jobs.NewJob) -> bool:
    """True if it's the same command again, by either name of its handler."""
    return (earlier.handler, dict(earlier.params)) == (new.handler, dict(new.params))
