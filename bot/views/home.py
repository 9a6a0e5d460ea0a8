"""App Home: approvals and alerts first, then the hosts of a fleet, or all workers by team, page by page. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from bot.views.blocks import Json, actions, button, context, option, plain_text, section
from bot.views.buttons import DO
from bot.views.cards.approval import ApprovalDetails, command_text
from bot.views.forms import OPEN, submit_text
from bot.views.text import UNSTYLED, ago, escape, fit, inert, mention, minute, requester, shorten
from bot.views.workers import Worker, counts, monitoring_paused, summary, unhealthy_first, worker_line
from supervisor_core.commands.addresses import SEPARATOR, SILENT, fold_silent
from supervisor_core.commands.catalog import CATALOG, by_handler
from supervisor_core.commands.targets import HOST
from supervisor_core.common.text import capitalize
from supervisor_core.intake.approvals.observed_state import effect
from supervisor_core.jobs.model import CommandSummary

SHOW, PAGE, REFRESH = "home:show", "home:page", "home:refresh"
"""The `action_id` of the filter menu, of the buttons between pages, and of the refresh button."""

DECIDE = "home:decide"
"""The `action_id` of the button that opens the form of an approval; its value is the approval's id."""

EVERYTHING, TROUBLE, OF_TEAM = "all", "trouble", "team:"
"""The values of the filter menu; the last is followed by a team's name."""

EVERY_WORKER = "workers"
"""The value of the filter menu for all workers of a fleet, which begins with its hosts."""

WORKER_BLOCKS = 60
"""Blocks of workers and teams on a page. With everything else there are fewer than a hundred, which is what Slack
takes; and nobody reads more at once."""

ON_TOP = 5
"""Approvals and alerts that are shown in full; more are counted."""

MOST_HOSTS = 15
"""Hosts with a line each; more are counted."""

HOSTS, TEAMS = 40, 50
"""Hosts and teams in the filter menu, which holds a hundred options; others are found by `status`."""

COMMANDS = ("restart", "pause", "update", "rollback", "status", "alerts", "teams")
MOST_COMMANDS = 4
"""The buttons for commands about no worker in particular: the first few that the reader has a right to."""

MENU = 5  # commands of one worker: what an overflow menu holds, and as many buttons as stand in a row
NAME, TEXT, TEAM, OBJECTIVE, LABEL, REASON = 60, 200, 80, 150, 60, 100  # characters

FOR_HEALTHY = ("restart", "pause", "update", "rollback", "logs", "why", "mute", "status")
FOR_PAUSED = ("resume", "why", "update", "rollback", "logs", "status")
FOR_UNHEALTHY = ("why", "restart", "resume", "logs", "rollback", "mute", "diagnostics", "pause", "status")
"""The commands of a worker's menu, the likely ones first; only those that the reader has a right to are shown."""

TRY_FIRST = """*Five things to try*
• `/supervisor status`: every worker at a glance
• `/supervisor why NAME`: what's wrong with a worker, and what to do about it
• `/supervisor pause NAME`, then press *Resume*
• `/supervisor update NAME`: preview, approve, watch, undo
• `/supervisor schedule add nightly "daily 03:00" restart all`"""
"""For a page on which nothing has happened yet."""


@dataclass(frozen=True, slots=True)
class HomePosition:
    page: int = 0
    only: str = EVERYTHING


@dataclass(frozen=True, slots=True)
class OpenAlert:
    subject: str
    condition: str
    """In words: `stale`, `missing`."""
    since: datetime
    link: str = ""
    """The address of its message."""


@dataclass(frozen=True, slots=True)
class HomeReader:
    forms: Sequence[str] = ()
    """The commands that they may give to some worker at least."""
    may: Callable[[str, str], bool] = lambda _name, _worker: False
    """The reader's right to a command on a worker."""


@dataclass(frozen=True, slots=True)
class HomeData:
    host: str
    workers: Sequence[Worker]
    at: datetime
    teams: Mapping[str, str] = field(default_factory=dict)
    """Each team's objective."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """The commit that each worker's checkout stands at."""
    approvals: Sequence[ApprovalDetails] = ()
    """Those that wait for its reader."""
    alerts: Sequence[OpenAlert] = ()
    recent: Sequence[tuple[CommandSummary, str]] = ()
    """The newest commands, with the addresses of their cards."""
    rests: str = ""
    """The reason for a pause of monitoring; empty where there is none."""


def home(data: HomeData, reader: HomeReader, position: HomePosition = HomePosition()) -> Json:
    shown = _filtered(data.workers, position.only)
    pages = _pages(fold_silent(shown))
    page = max(0, min(position.page, len(pages) - 1))
    blocks: list[Json] = [_title(data.host), _summary(data, position.only)]
    blocks += [section(monitoring_paused(data.rests))] if data.rests else []
    if reader.forms:
        names = [name for name in COMMANDS if name in reader.forms][:MOST_COMMANDS]
        blocks.append(actions("commands", [*map(form_button, names), button(OPEN, "More…", "home")]))
    blocks += _on_top("Needs your approval", [approval_block(details) for details in data.approvals], "approvals")
    alerts = [
        section(f":rotating_light: {_linked(alert.link, f'{escape(alert.subject)} {words}')} · {ago(alert.since)}")
        for alert in data.alerts
        for words in [plain_words(fit(alert.condition, TEXT))]
    ]
    blocks += _on_top("Open alerts", alerts, "alerts")
    if not data.recent and reader.forms:
        blocks += [{"type": "divider"}, section(TRY_FIRST)]
    blocks.append({"type": "divider"})
    overview = position.only == EVERYTHING and is_fleet(data.workers)
    if overview and page == 0:
        blocks.append(_hosts_block(data.workers, data.host))
    if not shown:
        blocks.append(section(_empty_text(data.host, position.only, data.workers)))
    in_teams = not overview and any(worker["team"] for worker in data.workers)
    for team, workers, continued in pages[page]:
        if in_teams:
            title = f"*{plain_words(fit(team, TEAM))}*" if team else "*No team*"
            title += " (continued)" if continued else ""
            heading = f"{title} · {counts([worker for worker in data.workers if worker['team'] == team])}"
            objective = "" if continued else data.teams.get(team, "")
            blocks.append(section(f"{heading}\n{plain_words(fit(objective, OBJECTIVE))}" if objective else heading))
        for worker in workers:
            blocks += worker_blocks(worker, data, reader)
    if data.recent and page == 0:
        lines = ["*Recent commands*", *(recent_line(command, link) for command, link in data.recent)]
        blocks += [{"type": "divider"}, section("\n".join(lines))]
    return {"type": "home", "blocks": [*blocks, _page_row(page, len(pages)), footer(data)]}


def refused_home(words: str, data: HomeData) -> Json:
    return {
        "type": "home",
        "blocks": [_title(data.host), section(f":no_entry: {words}"), _page_row(0, 1), footer(data)],
    }


def plain_home(data: HomeData) -> Json:
    """The least there is to say, where the whole can't be shown."""
    said = f"{counts(data.workers).capitalize()}. Slack can't show the whole page; try `/supervisor` in a channel."
    return {"type": "home", "blocks": [_title(data.host), section(said), footer(data)]}


def footer(data: HomeData) -> Json:
    return context(f"As of {minute(data.at)}. Press Refresh for the current state.")


def _title(host: str) -> Json:
    return {"type": "header", "text": plain_text(fit(host, 150) or "Supervisor")}


def _summary(data: HomeData, only: str) -> Json:
    """The state of all workers, with the filter menu; the chosen option is always in it."""
    workers = data.workers
    sign, _, words = summary(workers, monitoring_paused=bool(data.rests))[0].partition(" ")
    text = f"{sign} *{capitalize(words)}*"
    if not workers:
        return section(f"{text}\nAdd the first one to the configuration, under `workers`.")
    fleet = is_fleet(workers)
    options = [option("All hosts" if fleet else "All workers", EVERYTHING)]
    options += [option(f"Needs attention ({sum(not worker['fine'] for worker in workers)})", TROUBLE)]
    if fleet:
        options += [option("All workers", EVERY_WORKER)]
        names = [name for name in by_host(workers) if 0 < len(name) <= NAME]
        options += [option(f"Host {name}", f"{HOST}{name}") for name in names[:HOSTS]]
    teams = sorted({worker["team"] for worker in workers if 0 < len(worker["team"]) <= NAME})
    options += [option(f"Team {name}", f"{OF_TEAM}{name}") for name in teams[:TEAMS]]
    chosen = next((each for each in options if each["value"] == only), None)
    if chosen is None:
        kind = "Host" if only.startswith(HOST) else "Team"
        chosen = option(f"{kind} {only.partition(':')[2]}", only[:150])
        options.append(chosen)
    menu: Json = {"type": "static_select", "action_id": SHOW, "options": options, "initial_option": chosen}
    menu["placeholder"] = plain_text("What to show")
    return section(text) | {"block_id": "summary", "accessory": menu}


def _on_top(title: str, found: Sequence[Json], command: str) -> list[Json]:
    if not found:
        return []
    more = len(found) - ON_TOP
    rest = [context(f"… and {more} more: `/supervisor {command}`")] if more > 0 else []
    return [{"type": "divider"}, section(f"*{title}* ({len(found)})"), *found[:ON_TOP], *rest]


def by_host(workers: Sequence[Worker]) -> dict[str, list[Worker]]:
    """The workers of each host, those with trouble first; the bot's own host has an empty name."""
    found: dict[str, list[Worker]] = {}
    for worker in workers:
        host, separator, _ = str(worker["id"]).partition(SEPARATOR)
        found.setdefault(host if separator else "", []).append(worker)
    ordered = sorted(found, key=lambda host: (all(worker["fine"] for worker in found[host]), host))
    return {host: found[host] for host in ordered}


def is_fleet(workers: Sequence[Worker]) -> bool:
    return any(SEPARATOR in str(worker["id"]) for worker in workers)


def _hosts_block(workers: Sequence[Worker], own_host: str) -> Json:
    hosts = by_host(workers)
    lines = [f"*Hosts* ({len(hosts):,})"]
    for name, there in list(hosts.items())[:MOST_HOSTS]:
        title = f"*{inert(name or own_host, NAME)}*"
        if there[0].get(SILENT):
            number = "1 worker" if len(there) == 1 else f"{len(there):,} workers"
            lines.append(f":red_circle: {title} unresponsive, {inert(str(there[0][SILENT]), REASON)} · {number}")
        else:
            sign, _, words = summary(there)[0].partition(" ")
            lines.append(f"{sign} {title} · {words}")
    if rest := [worker for name in list(hosts)[MOST_HOSTS:] for worker in hosts[name]]:
        lines.append(f"… and {len(hosts) - MOST_HOSTS:,} more with {counts(rest)}")
    return section("\n".join(lines)) | {"block_id": "hosts"}


def _filtered(workers: Sequence[Worker], only: str) -> list[Worker]:
    """The workers that are listed under a choice of the filter menu. A fleet's overview lists those in trouble."""
    if only == TROUBLE or (only == EVERYTHING and is_fleet(workers)):
        return [worker for worker in workers if not worker["fine"]]
    if only.startswith(OF_TEAM):
        return [worker for worker in workers if worker["team"] == only.removeprefix(OF_TEAM)]
    if only.startswith(HOST):
        return [worker for worker in workers if str(worker["id"]).startswith(only.removeprefix(HOST) + SEPARATOR)]
    return list(workers)


def _empty_text(host: str, only: str, workers: Sequence[Worker]) -> str:
    if only == TROUBLE or (only == EVERYTHING and workers):
        return ":white_check_mark: No worker needs attention."
    if only.startswith((OF_TEAM, HOST)):
        kind, _, name = only.partition(":")
        return f"The {kind} {inert(name, NAME)} has no workers."
    return f"{escape(host)} has no workers yet."


def worker_blocks(worker: Worker, data: HomeData, reader: HomeReader) -> list[Json]:
    """A line with a menu; for one in trouble a line with buttons below it."""
    line = section(worker_line(worker, data.versions.get(worker["id"], "")))
    line["block_id"] = f"worker:{worker['id']}"
    fitting: tuple[str, ...] = FOR_PAUSED if worker["paused"] else FOR_HEALTHY
    if not worker["paused"] and not worker["fine"]:
        unfit = "resume" if worker["pid"] else "restart"
        fitting = tuple(name for name in FOR_UNHEALTHY if name != unfit)
    muted = ("unmute",) if worker.get("muted_until") else ()
    names = [name for name in (*muted, *fitting) if reader.may(name, worker["id"])][:MENU]
    if not names or worker.get(SILENT):
        return [line]
    if worker["fine"]:
        options = [option(f"{submit_text(CATALOG[name])}…", f"{name}:{worker['id']}") for name in names]
        return [{**line, "accessory": {"type": "overflow", "action_id": DO, "options": options}}]
    return [line, actions(f"about:{worker['id']}", [form_button(name, worker["id"]) for name in names])]


def form_button(name: str, worker_id: str = "") -> Json:
    text = f"{submit_text(CATALOG[name])}…"
    return button(f"{DO}:{name}", text, f"{name}:{worker_id}", label=f"{text} {worker_id}".rstrip())


def approval_block(details: ApprovalDetails) -> Json:
    approval = details.approval
    command = command_text(approval.command)
    names = shorten([escape(name) for name in approval.command.workers], 3)
    facts = [f"requested by {requester(approval.requester)}"]
    if approval.command.label:
        facts.append(f"label: {escape(approval.command.label)}")
    facts.append(f"expires {ago(approval.expires_at)}")
    title = _linked(details.link, f"{names}: {escape(fit(command, TEXT))}")
    text = f":raised_hand: {title}\n{escape(fit(effect(approval.previews), TEXT))}\n{' · '.join(facts)}"
    decide = button(DECIDE, "Decide…", approval.approval_id, label=f"Decide about {command}", style="primary")
    return section(text) | {"accessory": decide}


def _linked(link: str, words: str) -> str:
    return f"*<{link}|{words.replace('|', '/')}>*" if link else f"*{words}*"


def recent_line(command: CommandSummary, link: str) -> str:
    definition = by_handler(command.handler)
    name = definition.name if definition else command.handler
    names = ", ".join(map(escape, command.workers))
    more = command.count - len(command.workers)
    title = _linked(link, f"{escape(name)} {names}{f' and {more} more' if more > 0 else ''}")
    if command.ended < command.count:
        done = f", {command.ended} of {command.count} done" if command.ended else ""
        sign, outcome = ":hourglass_flowing_sand:", f"running{done}"
    elif command.failed:
        of = f" on {command.failed} of {command.count}" if command.count > 1 else ""
        sign, outcome = ":x:", f"{'interrupted' if command.interrupted else 'failed'}{of}"
    else:
        sign, outcome = ":white_check_mark:", "done"
    label = f" · {escape(fit(command.label, LABEL))}" if command.label else ""
    return f"{sign} {title}: {outcome}{label} · {mention(command.issuer)}, {ago(command.filed_at)}"


def plain_words(text: str) -> str:
    """Data in which nothing is markup."""
    return escape(" ".join(text.translate(UNSTYLED).split()))


def _pages(workers: Sequence[Worker]) -> list[list[tuple[str, list[Worker], bool]]]:
    """Parts of teams on as many pages as they need, one at least: the team, its workers, and whether it is continued.

    Teams with trouble come first and those without a name last. A team goes on over the end of a page, under a heading
    of its own there."""
    teams: dict[str, list[Worker]] = {}
    for worker in workers:
        teams.setdefault(worker["team"], []).append(worker)
    ordered = sorted(teams, key=lambda name: (all(worker["fine"] for worker in teams[name]), not name, name))
    pages: list[list[tuple[str, list[Worker], bool]]] = [[]]
    room = WORKER_BLOCKS
    for name in ordered:
        part: list[Worker] = []
        continued = False
        for worker in unhealthy_first(teams[name]):
            cost = (1 if worker["fine"] else 2) + (0 if part else 1)
            if cost > room:
                if part:
                    pages[-1].append((name, part, continued))
                    continued = True
                part, room, cost = [], WORKER_BLOCKS, (1 if worker["fine"] else 2) + 1
                pages.append([])
            part.append(worker)
            room -= cost
        pages[-1].append((name, part, continued))
    return pages


def _page_row(page: int, count: int) -> Json:
    row = []
    if page > 0:
        row.append(button(f"{PAGE}:back", f"◀ Page {page} of {count}", str(page - 1)))
    if page < count - 1:
        row.append(button(f"{PAGE}:on", f"Page {page + 2} of {count} ▶", str(page + 1)))
    return actions("pages", [*row, button(REFRESH, "Refresh", "now")])
