"""App Home: approvals and alerts first, then a fleet's hosts, or all workers by team, page by page. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bot.views.answers.overview import monitoring_paused
from bot.views.blocks import Json, actions, button, context, plain_text, section
from bot.views.forms import OPEN
from bot.views.home.hosts import filter_options, hosts_block, is_fleet, nobody, wanted
from bot.views.home.sections import (
    EVERYTHING,
    HomeData,
    HomePosition,
    HomeReader,
    alert_block,
    approval_block,
    command_button,
    recent_line,
    team_line,
    worker_blocks,
)
from bot.views.text import fit, minute
from bot.views.workers import counts, summary, unhealthy_first
from supervisor_core.commands.addresses import fold_silent
from supervisor_core.common.text import capitalize

SHOW, PAGE, REFRESH = "home:show", "home:page", "home:refresh"
"""The `action_id` of the filter menu, of the buttons between pages, and of the refresh button."""

WORKER_BLOCKS = 60
"""Blocks of workers and teams on a page. With everything else there are fewer than a hundred, which is what Slack
takes; and nobody reads more at once."""

ON_TOP = 5
"""Approvals and alerts that are shown in full; more are counted."""

COMMANDS = ("restart", "pause", "update", "rollback", "status", "alerts", "teams")
MOST_COMMANDS = 4
"""The buttons for commands about no worker in particular: the first few that the reader has a right to."""

TRY_FIRST = """*Five things to try*
• `/supervisor status`: every worker at a glance
• `/supervisor why NAME`: what's wrong with a worker, and what to do about it
• `/supervisor pause NAME`, then press *Resume*
• `/supervisor update NAME`: preview, approve, watch, undo
• `/supervisor schedule add nightly "daily 03:00" restart all`"""
"""For a page on which nothing has happened yet."""


@dataclass(frozen=True, slots=True)
class _TeamPart:
    """Some of a team's workers, on one page."""

    team: str
    workers: tuple[Mapping[str, Any], ...]
    goes_on: bool


def home(picture: HomeData, reader: HomeReader, place: HomePosition = HomePosition()) -> Json:  # noqa: B008 (frozen)
    """The view."""
    shown = wanted(picture.workers, place.only)
    pages = _pages(fold_silent(shown))
    page = max(0, min(place.page, len(pages) - 1))
    blocks: list[Json] = [_title(picture.host), _summary(picture, place.only)]
    blocks += [section(monitoring_paused(picture.rests))] if picture.rests else []
    if buttons := _commands(reader):
        blocks.append(actions("commands", buttons))
    blocks += _on_top("Needs your approval", [approval_block(each) for each in picture.approvals], "approvals")
    blocks += _on_top("Open alerts", [alert_block(each) for each in picture.alerts], "alerts")
    if not picture.recent and reader.forms:
        blocks += [{"type": "divider"}, section(TRY_FIRST)]
    blocks.append({"type": "divider"})
    overview = place.only == EVERYTHING and is_fleet(picture.workers)
    if overview and page == 0:
        blocks.append(hosts_block(picture.workers, picture.host))
    if not shown:
        blocks.append(section(nobody(picture.host, place.only, picture.workers)))
    in_teams = not overview and any(worker["team"] for worker in picture.workers)
    for part in pages[page]:
        if in_teams:
            team = _of_team(picture.workers, part.team)
            objective = picture.teams.get(part.team, "")
            blocks.append(section(team_line(part.team, team, objective, goes_on=part.goes_on)))
        for worker in part.workers:
            blocks += worker_blocks(worker, picture, reader)
    if picture.recent and page == 0:
        lines = "\n".join(["*Recent commands*", *(recent_line(command) for command in picture.recent)])
        blocks += [{"type": "divider"}, section(lines)]
    blocks.append(_turning(page, len(pages)))
    return {"type": "home", "blocks": [*blocks, footer(picture)]}


def refused_home(words: str, picture: HomeData) -> Json:
    """For whom nothing may be shown: what right is missing, and who can give it."""
    return {
        "type": "home",
        "blocks": [_title(picture.host), section(f":no_entry: {words}"), _turning(0, 1), footer(picture)],
    }


def plain_home(picture: HomeData) -> Json:
    """The least there is to say, where the whole can't be shown."""
    said = f"{counts(picture.workers).capitalize()}. Slack can't show the whole page; try `/supervisor` in a channel."
    return {"type": "home", "blocks": [_title(picture.host), section(said), footer(picture)]}


def footer(picture: HomeData) -> Json:
    """The time of the page."""
    return context(f"As of {minute(picture.at)}. Press Refresh for the current state.")


def _title(host: str) -> Json:
    return {"type": "header", "text": plain_text(fit(host, 150) or "Supervisor")}


def _summary(picture: HomeData, only: str) -> Json:
    workers = picture.workers
    text, _ = summary(workers, monitoring_paused=bool(picture.rests))
    sign, _, words = text.partition(" ")
    text = f"{sign} *{capitalize(words)}*"
    if not workers:
        return section(f"{text}\nAdd the first one to the configuration, under `workers`.")
    options = filter_options(workers, only)
    chosen = next(each for each in options if each["value"] == only[:150])
    menu: Json = {"type": "static_select", "action_id": SHOW, "options": options, "initial_option": chosen}
    menu["placeholder"] = plain_text("What to show")
    return section(text) | {"block_id": "summary", "accessory": menu}


def _commands(reader: HomeReader) -> list[Json]:
    """Forms that are about no worker in particular, and the one in which a command is chosen."""
    names = [name for name in COMMANDS if name in reader.forms][:MOST_COMMANDS]
    more = button(OPEN, "More…", "home")
    return [command_button(name) for name in names] + ([more] if reader.forms else [])


def _on_top(title: str, found: Sequence[Json], command: str) -> list[Json]:
    """A section at the top of the page; nothing where it would be empty."""
    if not found:
        return []
    more = len(found) - ON_TOP
    rest = [context(f"… and {more} more: `/supervisor {command}`")] if more > 0 else []
    return [{"type": "divider"}, section(f"*{title}* ({len(found)})"), *found[:ON_TOP], *rest]


def _of_team(workers: Sequence[Mapping[str, Any]], team: str) -> list[Mapping[str, Any]]:
    return [worker for worker in workers if worker["team"] == team]


def _pages(workers: Sequence[Mapping[str, Any]]) -> list[list[_TeamPart]]:
    """The teams, those with trouble first and those without a name last, on as many pages as they need; one at least.

    A team goes on over the end of a page, under a heading of its own there."""
    teams: dict[str, list[Mapping[str, Any]]] = {}
    for worker in workers:
        teams.setdefault(worker["team"], []).append(worker)
    ordered = sorted(teams, key=lambda name: (all(each["fine"] for each in teams[name]), not name, name))
    pages: list[list[_TeamPart]] = [[]]
    room = WORKER_BLOCKS
    for name in ordered:
        begun: list[Mapping[str, Any]] = []
        goes_on = False
        for worker in unhealthy_first(teams[name]):
            cost = (1 if worker["fine"] else 2) + (0 if begun else 1)
            if cost > room:
                if begun:
                    pages[-1].append(_TeamPart(name, tuple(begun), goes_on))
                    goes_on = True
                begun, room, cost = [], WORKER_BLOCKS, (1 if worker["fine"] else 2) + 1
                pages.append([])
            begun.append(worker)
            room -= cost
        pages[-1].append(_TeamPart(name, tuple(begun), goes_on))
    return pages


def _turning(page: int, count: int) -> Json:
    row = []
    if page > 0:
        row.append(button(f"{PAGE}:back", f"◀ Page {page} of {count}", str(page - 1)))
    if page < count - 1:
        row.append(button(f"{PAGE}:on", f"Page {page + 2} of {count} ▶", str(page + 1)))
    return actions("pages", [*row, button(REFRESH, "Refresh", "now")])
