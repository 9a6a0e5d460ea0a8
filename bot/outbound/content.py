"""The content of messages, composed from the rows that they are about at the moment when they are sent."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import PurePath
from typing import Any

from sqlalchemy import Connection

from bot.views.answers.schedules import schedule_card, schedule_refused
from bot.views.blocks import Content
from bot.views.cards import notices as views
from bot.views.cards import thread
from bot.views.cards.alert import (
    NAMED_MEMBERS,
    AlertDetails,
    LastConfigChange,
    alert_card,
    alert_reply,
    condition_words,
    restart_line,
    target_name,
)
from bot.views.cards.approval import ApprovalDetails, approval_card
from bot.views.cards.card import command_card
from bot.views.cards.next_steps import UNDOABLE, CardContext, UndoState
from bot.views.cards.outcome import rests_paused
from bot.views.files import Attachment
from bot.views.home import OpenAlert
from bot.views.text import escape, in_span
from supervisor_core.alerts import flips
from supervisor_core.alerts import rows as alerts
from supervisor_core.alerts.grouping import parents
from supervisor_core.alerts.grouping.rules import STORM, AlertMembers
from supervisor_core.alerts.incoming import subject_of, worker_of
from supervisor_core.alerts.messages import CALL, CONFIG, MORNING, PAUSE_FLAG, TAKEOVER, WEEK
from supervisor_core.alerts.monitor import REMEDIES
from supervisor_core.alerts.rows import ALERT, LINE, REPLY
from supervisor_core.alerts.rules import SHOWN, Alert, AlertState
from supervisor_core.alerts.suppression import rows as suppressions
from supervisor_core.alerts.suppression.rows import ALERT as OF_ALERT
from supervisor_core.alerts.suppression.rows import Hush
from supervisor_core.code.watch import service as bakes
from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.command import Issuer
from supervisor_core.commands.definitions import Risk
from supervisor_core.common.times import from_text
from supervisor_core.intake.approvals import rows as approvals
from supervisor_core.intake.approvals.rows import ASKED
from supervisor_core.intake.approvals.rules import FINAL, OPEN, Approval, ApprovalState
from supervisor_core.intake.rolling import service as rolling
from supervisor_core.intake.schedules import service as schedules
from supervisor_core.intake.schedules.service import TOLD, schedule_status
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import Job
from supervisor_core.storage import outbox
from supervisor_core.storage.audit.chain import AFFECTED, CONFIG_APPLIED, details_of, newest_row
from supervisor_core.storage.audit.search import AuditFilter, cause_of, search
from supervisor_core.storage.outbox import DETAILS, PREVIEW, PendingMessage
from supervisor_core.workers.conditions import Severity, Target

UNDO = "undo_code"
TRIES = 50
"""Commands and configuration changes that are looked through for the cause of an alert."""

LATELY = timedelta(days=7)
"""An older change of shared code isn't the cause of an alert."""

LONGEST_PATH = 400  # characters

OFFERED = ("undo", "resume", "restart")
"""Commands that a card's buttons give, beside its own."""


def alert_details(connection: Connection, alert_id: str, now: datetime, *, new: bool = False) -> AlertDetails | None:
    """The alert and everything its message shows; `new`: it has no message yet."""
    alert = alerts.find(connection, alert_id)
    if alert is None:
        return None
    ended = ""
    if alert.state is AlertState.CLOSED and alert.closed_flip is not None:
        flip = flips.find(connection, alert.supervisor_id, alert.closed_flip)
        ended = flip.reason if flip else ""
    own = Target(OF_ALERT, alert.alert_id)
    found = suppressions.about(connection, [alert.target, own], now)
    snoozed = alert.state is AlertState.SNOOZED
    hushes = [
        each
        for each in {id(each): each for each in (*found[alert.target], *found[own])}.values()
        if each.holds(now) and (snoozed or each.kind is not Hush.SNOOZE)
        if each.kind is not Hush.QUIET or alert.severity is Severity.WARNING
    ]
    names = worker_of(connection, alert.supervisor_id, alert.target)
    past = _commands(connection, alert, names or alert.target.worker)
    before = next((job for job in past if job.finished_at and job.finished_at <= alert.opened_at), None)
    until = alert.closed_at or now
    since = next((job for job in past if job.finished_at and alert.opened_at < job.finished_at <= until), None)
    above = alerts.find(connection, alert.parent_id) if alert.parent_id else None
    return AlertDetails(
        alert,
        names=names,
        ended=ended,
        before=before,
        settings=_settings(connection, alert, before, alert.opened_at),
        since=since,
        settings_since=_settings(connection, alert, since, until, alert.opened_at),
        tries=sum(
            1 for job in past if job.handler in REMEDIES and job.finished_at and job.finished_at > alert.opened_at
        ),
        undone=before is not None and any(_undoes(job, before) for job in past),
        hushes=hushes,
        new=new,
        members=AlertMembers() if alert.target.worker else parents.members_of(connection, alert, NAMED_MEMBERS),
        parent=above,
    )


def _undoes(job: Job, before: Job) -> bool:
    if job.handler != UNDO or job.outcome is None or not job.outcome.success:
        return False
    return before.task_id in (job.params.get("task_id"), job.outcome.details.get("undone_task_id"))


def _settings(
    connection: Connection, alert: Alert, command: Job | None, until: datetime, since: datetime | None = None
) -> LastConfigChange | None:
    """The last configuration change that affected its worker until this moment, and after the command."""
    if not alert.target.worker:
        return None
    earliest = since or alert.opened_at - LATELY
    wanted = AuditFilter(targets=(alert.target.id,), action=AFFECTED, since=earliest, limit=TRIES)
    for row in search(connection, wanted):
        if details_of(row).get("action") != CONFIG_APPLIED:
            continue
        try:
            said = json.loads(cause_of(connection, row)["details_json"])
            begun = from_text(said["begun_at"])
            found = LastConfigChange(Issuer(row["actor"], row["label"] or ""), begun, tuple(map(str, said["changes"])))
        except (KeyError, TypeError, ValueError):  # an altered row says nothing
            continue
        if earliest < begun <= until:
            newer = command is None or command.finished_at is None or command.finished_at < begun
            return found if newer else None
    return None


def _commands(connection: Connection, alert: Alert, worker: str) -> list[Job]:
    if not worker:
        return []
    handlers = [each.handler for each in CATALOG.values() if each.handler and each.risk is not Risk.READS]
    own = jobs.ended(connection, [worker], handlers, TRIES)
    known = {job.job_id for job in own}
    recent = jobs.affecting(connection, worker, alert.opened_at - LATELY, TRIES)
    shared = [job for job in recent if job.job_id not in known and job.handler in handlers]
    return sorted([*own, *shared], key=lambda job: (job.finished_at or job.filed_at, job.job_id), reverse=True)


def _week(connection: Connection, payload: Mapping[str, Any]) -> Content:
    host, since, until = str(payload["host"]), from_text(str(payload["since"])), from_text(str(payload["until"]))
    opened = alerts.begun_within(connection, host, since, until)
    workers = [str(worker) for worker in payload["workers"]]
    uptimes = flips.uptimes_of_workers(connection, host, workers, until, [until - since])
    week = {worker: spans[0] for worker, spans in uptimes.items()}
    return views.weekly_summary(host, since, until, opened, week, newest_row(connection, host))


PAYLOAD_CONTENT: Mapping[str, Callable[[Mapping[str, Any]], Content]]
PAYLOAD_CONTENT = {CONFIG: views.config_card, PAUSE_FLAG: views.pause_flag, TAKEOVER: views.hub_taken_over}
"""Kinds of messages that are composed from their payload alone."""

CARRIED_OUT = (ApprovalState.DONE, ApprovalState.FAILED)

LINKED = 20
"""Alerts on a page that link to their messages."""

UNDOS = 50
"""Undo commands that are looked through, newest first."""


class MessageComposer:
    """Composes messages. `needs_approval`: the approval rule for a command from Slack; `address`: the workspace's URL,
    which begins the link to each message; `approvers`: the ids of those who may approve a command."""

    def __init__(
        self,
        needs_approval: Callable[[str], bool] = lambda _: False,
        address: str = "",
        approvers: Callable[[Approval], Sequence[str]] = lambda _: (),
    ) -> None:
        self._needs_approval = needs_approval
        self._approvers = approvers
        self._address = address.rstrip("/")

    def content(self, connection: Connection, message: PendingMessage, now: datetime) -> Content | None:
        """The current content; None where nothing is left that it is about."""
        payload, kind = message.payload, message.kind
        if kind == jobs.CARD:
            return self._card(connection, message.subject, now)
        if kind == ASKED:
            details = self._details(connection, message.subject, jobs.CARD)
            return approval_card(details, asks=True) if details else None
        if kind == DETAILS:
            return self._reply(connection, message)
        if kind == TOLD:
            if "note" in payload:
                return schedule_refused(payload["note"])
            schedule = schedules.find(connection, message.subject)
            return schedule_card(schedule_status(schedule)) if schedule else None
        if kind == ALERT:
            return self._alert(connection, message, now)
        if kind in (REPLY, LINE, CALL):
            alert = alerts.find(connection, str(payload["alert_id"]))
            return self._alert_reply(connection, kind, alert, payload) if alert else None
        if kind == MORNING:
            kept = [alert for each in payload["alerts"] if (alert := alerts.find(connection, str(each)))]
            since, until = from_text(str(payload["since"])), from_text(str(payload["until"]))
            return views.quiet_hours_summary(kept, since, until) if kept else None
        if kind == WEEK:
            return _week(connection, payload)
        if kind in PAYLOAD_CONTENT:
            return PAYLOAD_CONTENT[kind](payload)
        content: Content = payload["content"]
        return content

    def report(self, connection: Connection, message: PendingMessage) -> Attachment:
        """The report of a row without its bytes, which are read elsewhere."""
        payload, path = message.payload, str(message.payload["report"])
        job = jobs.find(connection, str(payload["task_id"]), str(payload["worker_id"]))
        return Attachment(
            name=PurePath(path).name,
            content="",
            rest=in_span(path, LONGEST_PATH) + (f" on {escape(job.supervisor_id)}" if job else ""),
            comment=thread.report_text(job) if job else "",
        )

    def _alert(self, connection: Connection, message: PendingMessage, now: datetime) -> Content | None:
        """The message of an alert; None where its parent's message covers it and it has none of its own."""
        details = alert_details(connection, message.subject, now, new=not message.address.get("ts"))
        if details is None or (details.parent is not None and not message.address):
            return None
        details = replace(details, undo_asks=self._needs_approval("undo"))
        if details.parent is not None:
            place = outbox.message_place(connection, ALERT, details.parent.alert_id)
            details = replace(details, link=self._link(place or {}))
        return alert_card(details, now)

    def _alert_reply(
        self, connection: Connection, kind: str, alert: Alert, payload: Mapping[str, Any]
    ) -> Content | None:
        """What is posted beside the alert's message; None once that is out of date."""
        if kind == LINE:
            day = datetime.fromisoformat(str(payload["day"])).replace(tzinfo=UTC)
            return restart_line(alert, alerts.count_healed(connection, alert.target, day, day + timedelta(days=1)))
        if kind == REPLY:  # once the alert has recovered, its message says so
            return alert_reply(payload, target_name(alert)) if alert.state is not AlertState.CLOSED else None
        if alert.state not in (AlertState.PENDING, AlertState.OPEN):  # nobody is called for an acknowledged alert
            return None
        if "people" in payload:
            return views.escalation(alert, [str(each) for each in payload["people"]])
        place = outbox.message_place(connection, ALERT, alert.alert_id) or {}
        return views.escalation_elsewhere(alert, str(place.get("channel") or ""), self._link(place))

    def pending_approvals(self, connection: Connection) -> list[ApprovalDetails]:
        found = approvals.in_states(connection, OPEN)
        asked = [self._details(connection, each.task_id, jobs.CARD) for each in found]
        return [each for each in asked if each is not None]

    def open_alerts(self, connection: Connection) -> list[OpenAlert]:
        found = [alert for alert in alerts.in_states(connection, SHOWN) if alert.parent_id is None]
        shown = []
        for number, alert in enumerate(found):
            place = outbox.message_place(connection, ALERT, alert.alert_id) if number < LINKED else None
            link = self._link(place or {})
            if alert.target.kind == STORM:  # its reason begins with how many they are
                many, what, words = alert.reason.partition(" workers ")
                shown.append(OpenAlert(f"{many}{what.rstrip()}", words, alert.opened_at, link))
            else:
                subject = subject_of(alert.target, alert.reason)
                shown.append(OpenAlert(subject, condition_words(alert), alert.opened_at, link))
        return shown

    def link(self, connection: Connection, task_id: str) -> str:
        """The link to a command's message; empty where it has none."""
        places = (outbox.message_place(connection, kind, task_id) for kind in (jobs.CARD, ASKED))
        return next(filter(None, (self._link(place or {}) for place in places)), "")

    def _card(self, connection: Connection, task_id: str, now: datetime) -> Content | None:
        details = self._details(connection, task_id, ASKED)
        found = _own_jobs(jobs.of_task(connection, task_id), details)
        if found:
            undone = self._undone(connection, found)
            watched = bakes.of_task(connection, task_id)
            asks = {name for name in (*OFFERED, found[0].command) if self._needs_approval(name)}
            paused = [job for job in found if rests_paused(job)]
            resumed = {job.worker_id: by for job in paused if (by := jobs.resumed_by(connection, job))}
            return command_card(
                found,
                now,
                CardContext(details, undone, watched, asks, resumed, rolling.find(connection, task_id)),
            )
        return approval_card(details) if details else None

    def _reply(self, connection: Connection, message: PendingMessage) -> Content | None:
        payload = message.payload
        details = self._details(connection, str(payload["task_id"]), ASKED)
        if payload["about"] == PREVIEW:
            return thread.preview_reply(details)
        found = _own_jobs(jobs.of_task(connection, str(payload["task_id"])), details)
        asked_here = payload["below"]["kind"] == ASKED
        return thread.outcome_reply(found, details, str(payload["by"]), asked_here=asked_here)

    def _details(self, connection: Connection, task_id: str, other: str) -> ApprovalDetails | None:
        """The approval of this command, with the place of its other message."""
        approval = approvals.of_task(connection, task_id)
        if approval is None:
            return None
        place = outbox.message_place(connection, other, task_id)
        votes = approvals.votes_of(connection, approval.approval_id)
        elsewhere = str((place or {}).get("channel") or "") if other == ASKED else ""
        return ApprovalDetails(approval, votes, elsewhere, self._link(place or {}), self._approvers(approval))

    def _link(self, place: Mapping[str, Any]) -> str:
        if not (self._address and place.get("ts")):
            return ""
        return f"{self._address}/archives/{place['channel']}/p{str(place['ts']).replace('.', '')}"

    def _undone(self, connection: Connection, found: Sequence[Job]) -> dict[str, UndoState]:
        task_id = found[0].task_id
        tries = jobs.undoing(connection, task_id, max(UNDOS, 2 * len(found)))
        asked = approvals.by_param(connection, "undo", "task_id", task_id, UNDOS)
        refused = [each for each in asked if each.state in FINAL and each.state not in CARRIED_OUT]
        by_place: dict[str, list[Job]] = {}
        for each in tries:
            for place in _places(each):
                by_place.setdefault(place, []).append(each)
        return {job.worker_id: _undo_state(job, by_place, refused) for job in found if job.handler in UNDOABLE}


def _own_jobs(found: Sequence[Job], details: ApprovalDetails | None) -> Sequence[Job]:
    """The jobs of a command, without those that another door filed under the id of its approval."""
    return found if details is None else [job for job in found if job.door == details.approval.door]


def _undo_state(job: Job, tries: Mapping[str, Sequence[Job]], refused: Sequence[Approval]) -> UndoState:
    found = {each.job_id: each for place in _places(job) for each in tries.get(place, ())}
    mine = [found[job_id] for job_id in sorted(found, reverse=True)]
    not_begun = sum(1 for each in refused if job.worker_id in each.command.workers)
    ended = [each for each in mine if each.outcome is not None]
    by = next((each for each in ended if each.outcome and each.outcome.success), None)
    return UndoState(len(ended) + not_begun, by, len(ended) < len(mine))


def _places(job: Job) -> list[str]:
    """The worker, and the checkout that the job changed on its host; several workers may share one."""
    checkout = str(job.outcome.details.get("checkout") or "") if job.outcome else ""
    host = job.worker_id.rpartition("/")[0]
    return [job.worker_id, *([f"{host}:{checkout}"] if checkout else [])]
