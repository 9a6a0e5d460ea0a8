"""What a message says, made from the rows that it is about at the moment when it is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import PurePath
from typing import Any

from sqlalchemy import Connection

from bot.alert_rows import came_back, said_below, told_of
from bot.alert_tidings import tidings
from bot.attached import Attached
from bot.views import thread
from bot.views.alert import WORDS, alert_card
from bot.views.approval import Asking, approval_card, question
from bot.views.card import UNDOABLE, About, Undone, card
from bot.views.config_card import config_card
from bot.views.home_values import OpenAlert, Told
from bot.views.preview import code
from bot.views.schedules import refused_run, schedule_card
from bot.views.text import escape
from bot.views.tidings import pause_flag
from bot.views.told import Content
from supervisor_core.desk.schedules import standing
from supervisor_core.domain.alerts import SHOWN, Alert
from supervisor_core.domain.approvals import FINAL, OPEN, Approval, ApprovalState
from supervisor_core.domain.jobs import Job
from supervisor_core.domain.storms import STORM
from supervisor_core.ledger import alerts, approvals, bakes, jobs, outbox, schedules
from supervisor_core.ledger.alerts import ALERT, LINE, REPLY
from supervisor_core.ledger.approvals import ASKED
from supervisor_core.ledger.outbox import Waiting
from supervisor_core.ledger.recent import recent
from supervisor_core.ledger.replies import DETAILS, PREVIEW
from supervisor_core.ledger.schedules import TOLD
from supervisor_core.ledger.tidings import CALL, CONFIG, MORNING, PAUSE_FLAG, WEEK

OF_PAYLOAD: Mapping[str, Callable[[Mapping[str, Any]], Content]] = {CONFIG: config_card, PAUSE_FLAG: pause_flag}
"""Kinds of messages that say what their row says, whenever they are told."""

CARRIED_OUT = (ApprovalState.DONE, ApprovalState.FAILED)

LINKED = 20
"""So many alerts on a page lead to their messages."""

UNDOS = 50
"""So many tries to take something back are looked through, the newest first."""


class Composing:
    """`needs_approval`: which commands do, when they are given in Slack; `address`: the workspace's own, under which
    each message has one."""

    def __init__(self, needs_approval: Callable[[str], bool] = lambda _: False, address: str = "") -> None:
        self._needs_approval = needs_approval
        self._address = address.rstrip("/")

    def content(self, connection: Connection, message: Waiting, now: datetime) -> Content | None:
        """What it says now; None where nothing is left that it is about."""
        if message.kind == jobs.CARD:
            return self._card(connection, message.subject, now)
        if message.kind == ASKED:
            asking = self._asking(connection, message.subject, jobs.CARD)
            return question(asking) if asking else None
        if message.kind == DETAILS:
            return self._reply(connection, message)
        if message.kind == TOLD:
            return self._schedule(connection, message, now)
        if message.kind == ALERT:
            return self._alert(connection, message, now)
        if message.kind == REPLY:
            return said_below(connection, message.payload)
        if message.kind == LINE:
            return came_back(connection, message.payload)
        if message.kind in OF_PAYLOAD:
            return OF_PAYLOAD[message.kind](message.payload)
        if message.kind in (MORNING, CALL, WEEK):
            return tidings(connection, message, self._link)
        content: Content = message.payload["content"]
        return content

    def report(self, connection: Connection, message: Waiting) -> Attached:
        """The report that a row tells of, without its bytes: they are read elsewhere."""
        payload, path = message.payload, str(message.payload["report"])
        job = jobs.find(connection, str(payload["task_id"]), str(payload["worker_id"]))
        return Attached(
            name=PurePath(path).name,
            content="",
            rest=code(path) + (f" on {escape(job.supervisor_id)}" if job else ""),
            comment=thread.of_report(job) if job else "",
        )

    def _alert(self, connection: Connection, message: Waiting, now: datetime) -> Content | None:
        """The message of an alert; none where another one tells of it and nothing was said of it yet."""
        told = told_of(connection, message.subject, now, new=not message.address.get("ts"))
        if told is None or (told.parent is not None and not message.address):
            return None
        if told.parent is not None:
            place = outbox.place_of(connection, ALERT, told.parent.alert_id)
            told = replace(told, link=self._link(place or {}))
        return alert_card(told, now)

    def _schedule(self, connection: Connection, message: Waiting, now: datetime) -> Content | None:
        if "note" in message.payload:
            return refused_run(message.payload["note"])
        found = schedules.find(connection, message.subject)
        return schedule_card(standing(found, now)) if found else None

    def waiting(self, connection: Connection) -> list[Asking]:
        """All approvals that wait, with the places of their cards."""
        found = approvals.in_states(connection, OPEN)
        asked = [self._asking(connection, each.task_id, jobs.CARD) for each in found]
        return [each for each in asked if each is not None]

    def recent(self, connection: Connection, most: int) -> list[Told]:
        """The newest commands, with the addresses of their cards."""
        found = recent(connection, most)
        return [Told(each, self.link(connection, each.task_id)) for each in found]

    def open_alerts(self, connection: Connection) -> list[OpenAlert]:
        """The alerts that are open and stand for themselves, the first of them with the places of their messages."""
        found = [alert for alert in alerts.in_states(connection, SHOWN) if alert.parent_id is None]
        shown = []
        for number, alert in enumerate(found):
            place = outbox.place_of(connection, ALERT, alert.alert_id) if number < LINKED else None
            link = self._link(place or {})
            shown.append(OpenAlert(alert.alert_id, *_in_words(alert), alert.opened_at, link))
        return shown

    def link(self, connection: Connection, task_id: str) -> str:
        """The address of the message of a command; empty where it has none."""
        places = (outbox.place_of(connection, kind, task_id) for kind in (jobs.CARD, ASKED))
        return next(filter(None, (self._link(place or {}) for place in places)), "")

    def _card(self, connection: Connection, task_id: str, now: datetime) -> Content | None:
        asking = self._asking(connection, task_id, ASKED)
        found = _own(jobs.of_task(connection, task_id), asking)
        if found:
            undone = self._undone(connection, found)
            watched = bakes.of_task(connection, task_id)
            return card(found, now, About(asking, undone, watched, self._needs_approval("undo")))
        return approval_card(asking) if asking else None

    def _reply(self, connection: Connection, message: Waiting) -> Content | None:
        payload = message.payload
        asking = self._asking(connection, str(payload["task_id"]), ASKED)
        if payload["about"] == PREVIEW:
            return thread.preview(asking)
        found = _own(jobs.of_task(connection, str(payload["task_id"])), asking)
        asked_here = payload["below"]["kind"] == ASKED
        return thread.outcome(found, asking, str(payload["by"]), asked_here=asked_here)

    def _asking(self, connection: Connection, task_id: str, other: str) -> Asking | None:
        """The approval of this command, with the place of its other message."""
        approval = approvals.of_task(connection, task_id)
        if approval is None:
            return None
        place = outbox.place_of(connection, other, task_id)
        votes = approvals.votes_of(connection, approval.approval_id)
        elsewhere = str((place or {}).get("channel") or "") if other == ASKED else ""
        return Asking(approval, votes, elsewhere, self._link(place or {}))

    def _link(self, place: Mapping[str, Any]) -> str:
        if not (self._address and place.get("ts")):
            return ""
        return f"{self._address}/archives/{place['channel']}/p{str(place['ts']).replace('.', '')}"

    def _undone(self, connection: Connection, found: Sequence[Job]) -> dict[str, Undone]:
        """What became of the tries to take these jobs of one command back, by worker."""
        task_id = found[0].task_id
        tries = jobs.undoing(connection, task_id, UNDOS)
        asked = approvals.about(connection, "undo", "task_id", task_id, UNDOS)
        refused = [each for each in asked if each.state in FINAL and each.state not in CARRIED_OUT]
        return {job.worker_id: _of_worker(job, tries, refused) for job in found if job.handler in UNDOABLE}


def _own(found: Sequence[Job], asking: Asking | None) -> Sequence[Job]:
    """The jobs of a command, without those that another door filed under the id of its approval."""
    return found if asking is None else [job for job in found if job.door == asking.approval.door]


def _in_words(alert: Alert) -> tuple[str, str]:
    """Whose trouble it is, and what is so."""
    if alert.target.kind == STORM:  # its reason begins with how many they are
        many, what, so = alert.reason.partition(" workers ")
        return f"{many}{what.rstrip()}", so
    whose = alert.target.worker or f"The {alert.target.kind} of {alert.target.id}"
    return whose, WORDS[alert.condition]


def _of_worker(job: Job, tries: Sequence[Job], refused: Sequence[Approval]) -> Undone:
    mine = [each for each in tries if each.worker_id == job.worker_id or _place(each) == _place(job) != ""]
    not_begun = sum(1 for each in refused if job.worker_id in each.command.workers)
    ended = [each for each in mine if each.outcome is not None]
    by = next((each for each in ended if each.outcome and each.outcome.success), None)
    return Undone(len(ended) + not_begun, by, len(ended) < len(mine))


def _place(job: Job) -> str:
    """The checkout that it worked on; several workers may share one."""
    return str(job.outcome.details.get("checkout") or "") if job.outcome else ""
