"""The values that App Home shows, and its sections. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from bot.views.blocks import Json, actions, button, option, section
from bot.views.cards.approval import ApprovalDetails, command_text
from bot.views.forms import submit_text
from bot.views.text import UNSTYLED, ago, escape, fit, mention, moment, requester, shorten
from supervisor_core.code.change_plan import count, short
from supervisor_core.commands.catalog import CATALOG, by_handler
from supervisor_core.intake.approvals.observed_state import effect
from supervisor_core.jobs.model import CommandSummary

EVERYTHING, TROUBLE, OF_TEAM = "all", "trouble", "team:"
"""The values of the filter menu; the last is followed by a team's name."""


@dataclass(frozen=True, slots=True)
class HomePosition:
    """The reader's position on their page."""

    page: int = 0
    only: str = EVERYTHING


@dataclass(frozen=True, slots=True)
class OpenAlert:
    """An alert that is open."""

    alert_id: str
    worker_id: str
    word: str
    """The condition of the worker: `stale`, `missing`."""
    since: datetime
    link: str = ""
    """The address of its message."""


@dataclass(frozen=True, slots=True)
class RecentCommand:
    """One of the newest commands, with the address of its card."""

    recent: CommandSummary
    link: str = ""


@dataclass(frozen=True, slots=True)
class HomeReader:
    """The rights of the reader."""

    forms: Sequence[str] = ()
    """The commands that they may give to some worker at least."""
    may: Callable[[str, str], bool] = lambda _name, _worker: False
    """The reader's right to a command on a worker."""


@dataclass(frozen=True, slots=True)
class HomeData:
    """All that there is to show."""

    host: str
    workers: Sequence[Mapping[str, Any]]
    """As a live look describes them."""
    at: datetime
    until: datetime
    """The moment until which the page follows changes."""
    teams: Mapping[str, str] = field(default_factory=dict)
    """Each team's objective."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """The commit that each worker's checkout stands at."""
    approvals: Sequence[ApprovalDetails] = ()
    """Those that wait for its reader."""
    alerts: Sequence[OpenAlert] = ()
    recent: Sequence[RecentCommand] = ()
    rests: str = ""
    """The reason for a pause of monitoring; empty where there is none."""


DO, DECIDE = "home:do", "home:decide"
"""The `action_id` of what opens the form of a command, its value `COMMAND:WORKER`, and of an approval, its value the
approval's id. Of several in a row each has its command's name added."""

MENU = 5  # commands of one worker: what an overflow menu holds, and as many buttons as stand in a row
WHY, EFFECT, TEAM, OBJECTIVE, LABEL = 200, 200, 80, 150, 60  # characters

FOR_THE_WELL = ("restart", "pause", "update", "rollback", "logs", "why", "mute", "status")
FOR_THE_PAUSED = ("resume", "why", "update", "rollback", "logs", "status")
FOR_THE_UNWELL = ("why", "restart", "resume", "logs", "rollback", "mute", "diagnostics", "pause", "status")
"""The commands of a worker's menu, the likely ones first; only those that the reader has a right to are shown."""


def worker_blocks(worker: Mapping[str, Any], picture: HomeData, reader: HomeReader) -> list[Json]:
    """A line with a menu; for one in trouble a line with buttons below it."""
    line = section(worker_line(worker, picture.versions.get(worker["id"], "")))
    names = [name for name in _fitting(worker) if reader.may(name, worker["id"])][:MENU]
    line["block_id"] = f"worker:{worker['id']}"
    if not names:
        return [line]
    if worker["fine"]:
        options = [option(f"{submit_text(CATALOG[name])}…", f"{name}:{worker['id']}") for name in names]
        return [{**line, "accessory": {"type": "overflow", "action_id": DO, "options": options}}]
    row = [command_button(name, worker["id"]) for name in names]
    return [line, actions(f"about:{worker['id']}", row)]


def worker_line(worker: Mapping[str, Any], version: str) -> str:
    """The state of one worker: a sign, words, its start, its commit, and what is wrong."""
    why = fit(escape(worker["last_error"] if worker["last_error"] and not worker["fine"] else worker["reason"]), WHY)
    rests = worker["fine"] and worker["state"] == "stopped" and not worker["pid"]
    words = why.removeprefix("stopped, ") if rests else f"{worker['state'].replace('_', ' ')}, {worker['health']}"
    facts = [f"{status_sign(worker)} *{escape(worker['id'])}* {words}"]
    if worker["pid"] and worker.get("started_at"):
        facts.append(f"started {ago(datetime.fromisoformat(worker['started_at']))}")
    if version:
        facts.append(f"`{short(version)}`")
    said = " · ".join(facts)
    return said if rests or (worker["fine"] and not worker["paused"]) else f"{said}\n{why}"


def status_sign(worker: Mapping[str, Any]) -> str:
    """The sign beside the words."""
    if not worker["fine"]:
        return ":x:"
    if worker["paused"]:
        return ":double_vertical_bar:"
    return ":hourglass_flowing_sand:" if worker["state"] in ("starting", "stopping") else ":white_check_mark:"


def team_line(name: str, workers: Sequence[Mapping[str, Any]], objective: str, *, goes_on: bool) -> str:
    """The heading of a team: all of its workers count, whichever of them are on this page."""
    title = f"*{plain_words(fit(name, TEAM))}*" if name else "*No team*"
    title += " (continued)" if goes_on else ""
    said = f"{title} · {worker_counts(workers)}"
    return f"{said}\n{plain_words(fit(objective, OBJECTIVE))}" if objective and not goes_on else said


def worker_counts(workers: Sequence[Mapping[str, Any]]) -> str:
    """The number of workers, and their state."""
    unwell = sum(1 for worker in workers if not worker["fine"])
    paused = sum(1 for worker in workers if worker["paused"])
    said = f"{count(len(workers), 'worker')}, "
    said += f"{unwell} need{'s' if unwell == 1 else ''} a look" if unwell else "all is well"
    return said + (f", {paused} paused" if paused else "")


def approval_block(details: ApprovalDetails) -> Json:
    """One that waits for its reader."""
    approval = details.approval
    names = shorten([escape(name) for name in approval.command.workers], 3)
    about = f"*{names}: {escape(fit(command_text(approval.command), WHY))}*"
    does = escape(fit(effect(approval.previews), EFFECT))
    facts = f"asked by {requester(approval.requester)} · expires {moment(approval.expires_at)}"
    said = f":raised_hand: {about}: {does}\n{facts}"
    decide = button(
        DECIDE,
        "Decide…",
        approval.approval_id,
        label=f"Decide about {command_text(approval.command)}",
        style="primary",
    )
    return section(said + _linked(details.link)) | {"accessory": decide}


def alert_block(alert: OpenAlert) -> Json:
    """One that is open."""
    said = f":rotating_light: *{escape(alert.worker_id)}* {plain_words(fit(alert.word, WHY))} since {ago(alert.since)}"
    return section(said + _linked(alert.link, "its message"))


def recent_line(told: RecentCommand) -> str:
    """A recent command and its outcome."""
    one = told.recent
    definition = by_handler(one.handler)
    name = definition.name if definition else one.handler
    names = ", ".join(escape(each) for each in one.workers)
    more = one.count - len(one.workers)
    about = f"{names}{f' and {more} more' if more > 0 else ''}"
    mark, word = _outcome(one)
    label = f" · {escape(fit(one.label, LABEL))}" if one.label else ""
    said = f"{mark} *{escape(name)}* {about}: {word}{label} · {mention(one.issuer)}, {ago(one.filed_at)}"
    return said + _linked(told.link)


def command_button(name: str, worker_id: str = "") -> Json:
    """A button that opens the form of this command, for this worker where one is named."""
    text = f"{submit_text(CATALOG[name])}…"
    return button(f"{DO}:{name}", text, f"{name}:{worker_id}", label=f"{text} {worker_id}".rstrip())


def plain_words(text: str) -> str:
    """Data in which nothing is markup."""
    return escape(" ".join(text.translate(UNSTYLED).split()))


def in_trouble_first(workers: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The order within a team."""
    return sorted(workers, key=lambda worker: bool(worker["fine"]))


def _fitting(worker: Mapping[str, Any]) -> Sequence[str]:
    if worker["paused"]:
        return FOR_THE_PAUSED
    if worker["fine"]:
        return FOR_THE_WELL
    unfit = "resume" if worker["pid"] else "restart"
    return [name for name in FOR_THE_UNWELL if name != unfit]


def _outcome(one: CommandSummary) -> tuple[str, str]:
    """In a sign and in words."""
    if one.ended < one.count:
        return ":hourglass_flowing_sand:", f"under way, {one.ended} of {one.count} done" if one.ended else "under way"
    if not one.failed:
        return ":white_check_mark:", "done"
    word = "was interrupted" if one.interrupted else "failed"
    return ":x:", f"{word} on {one.failed} of {one.count}" if one.count > 1 else word


def _linked(link: str, words: str = "its card") -> str:
    return f" · <{link}|{words}>" if link else ""
