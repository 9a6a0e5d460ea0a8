"""The values that App Home shows, and its sections. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from bot.views.blocks import Json, actions, button, option, section
from bot.views.buttons import DO
from bot.views.cards.approval import ApprovalDetails, command_text
from bot.views.forms import submit_text
from bot.views.text import UNSTYLED, ago, escape, fit, mention, requester, shorten
from bot.views.workers import counts, worker_line
from supervisor_core.commands.addresses import SILENT
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


DECIDE = "home:decide"
"""The `action_id` of the button that opens the form of an approval; its value is the approval's id."""

MENU = 5  # commands of one worker: what an overflow menu holds, and as many buttons as stand in a row
WHY, EFFECT, TEAM, OBJECTIVE, LABEL = 200, 200, 80, 150, 60  # characters

FOR_HEALTHY = ("restart", "pause", "update", "rollback", "logs", "why", "mute", "status")
FOR_PAUSED = ("resume", "why", "update", "rollback", "logs", "status")
FOR_UNHEALTHY = ("why", "restart", "resume", "logs", "rollback", "mute", "diagnostics", "pause", "status")
"""The commands of a worker's menu, the likely ones first; only those that the reader has a right to are shown."""


def worker_blocks(worker: Mapping[str, Any], picture: HomeData, reader: HomeReader) -> list[Json]:
    """A line with a menu; for one in trouble a line with buttons below it."""
    line = section(worker_line(worker, picture.versions.get(worker["id"], "")))
    names = [name for name in _fitting(worker) if reader.may(name, worker["id"])][:MENU]
    line["block_id"] = f"worker:{worker['id']}"
    if not names or worker.get(SILENT):
        return [line]
    if worker["fine"]:
        options = [option(f"{submit_text(CATALOG[name])}…", f"{name}:{worker['id']}") for name in names]
        return [{**line, "accessory": {"type": "overflow", "action_id": DO, "options": options}}]
    row = [command_button(name, worker["id"]) for name in names]
    return [line, actions(f"about:{worker['id']}", row)]


def team_line(name: str, workers: Sequence[Mapping[str, Any]], objective: str, *, goes_on: bool) -> str:
    """The heading of a team: all of its workers count, whichever of them are on this page."""
    title = f"*{plain_words(fit(name, TEAM))}*" if name else "*No team*"
    title += " (continued)" if goes_on else ""
    said = f"{title} · {counts(workers)}"
    return f"{said}\n{plain_words(fit(objective, OBJECTIVE))}" if objective and not goes_on else said


def approval_block(details: ApprovalDetails) -> Json:
    """A pending approval that its reader may decide."""
    approval = details.approval
    names = shorten([escape(name) for name in approval.command.workers], 3)
    title = _titled(details.link, f"{names}: {escape(fit(command_text(approval.command), WHY))}")
    facts = [f"requested by {requester(approval.requester)}"]
    if approval.command.label:
        facts.append(f"label: {escape(approval.command.label)}")
    facts.append(f"expires {ago(approval.expires_at)}")
    does = escape(fit(effect(approval.previews), EFFECT))
    decide = button(
        DECIDE,
        "Decide…",
        approval.approval_id,
        label=f"Decide about {command_text(approval.command)}",
        style="primary",
    )
    return section(f":raised_hand: {title}\n{does}\n{' · '.join(facts)}") | {"accessory": decide}


def alert_block(alert: OpenAlert) -> Json:
    """An open alert."""
    words = f"{escape(alert.worker_id)} {plain_words(fit(alert.word, WHY))}"
    return section(f":rotating_light: {_titled(alert.link, words)} · {ago(alert.since)}")


def _titled(link: str, words: str) -> str:
    """Words in bold, which lead to a message where there is one."""
    return f"*<{link}|{words.replace('|', '/')}>*" if link else f"*{words}*"


def recent_line(told: RecentCommand) -> str:
    """A recent command and its outcome."""
    one = told.recent
    definition = by_handler(one.handler)
    name = definition.name if definition else one.handler
    names = ", ".join(escape(each) for each in one.workers)
    more = one.count - len(one.workers)
    about = f"{names}{f' and {more} more' if more > 0 else ''}"
    mark, outcome = _outcome(one)
    label = f" · {escape(fit(one.label, LABEL))}" if one.label else ""
    title = _titled(told.link, f"{escape(name)} {about}")
    return f"{mark} {title}: {outcome}{label} · {mention(one.issuer)}, {ago(one.filed_at)}"


def command_button(name: str, worker_id: str = "") -> Json:
    """A button that opens the form of this command, for this worker where one is named."""
    text = f"{submit_text(CATALOG[name])}…"
    return button(f"{DO}:{name}", text, f"{name}:{worker_id}", label=f"{text} {worker_id}".rstrip())


def plain_words(text: str) -> str:
    """Data in which nothing is markup."""
    return escape(" ".join(text.translate(UNSTYLED).split()))


def _fitting(worker: Mapping[str, Any]) -> Sequence[str]:
    muted = ("unmute",) if worker.get("muted_until") else ()
    if worker["paused"]:
        return (*muted, *FOR_PAUSED)
    if worker["fine"]:
        return (*muted, *FOR_HEALTHY)
    unfit = "resume" if worker["pid"] else "restart"
    return [*muted, *(name for name in FOR_UNHEALTHY if name != unfit)]


def _outcome(one: CommandSummary) -> tuple[str, str]:
    """In a sign and in words."""
    if one.ended < one.count:
        return ":hourglass_flowing_sand:", f"running, {one.ended} of {one.count} done" if one.ended else "running"
    if not one.failed:
        return ":white_check_mark:", "done"
    word = "interrupted" if one.interrupted else "failed"
    return ":x:", f"{word} on {one.failed} of {one.count}" if one.count > 1 else word
