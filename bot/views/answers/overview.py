"""The overview of all workers with buttons, and the answer to `status`; workers that need attention first. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from bot.views.answers.teams import role_of, team_heading
from bot.views.blocks import Color, Content, Json, actions, button, card, context, join_lines, section, text_message
from bot.views.buttons import ACTION, command_button, list_page, page_buttons
from bot.views.forms import OPEN
from bot.views.text import escape, inert, mention
from bot.views.workers import Worker, by_host, counts, headline, host_of, unhealthy_first, worker_line
from supervisor_core.commands.addresses import SILENT, fold_silent
from supervisor_core.commands.command import Command, Issuer
from supervisor_core.workers.teams import TeamPicture

SHOWN = 15
"""Workers that are shown: with more, all texts together could be longer than a message."""

FEW = 5
"""Up to this many workers, each has its buttons; of more, only those that need attention."""

WHY, PROBLEM = 200, 600  # characters

AGAIN = "overview"
"""The command of the button that replaces the others once one of them is pressed."""

BUTTONS = ("why", "pause", "resume", "restart", "unmute")
"""The commands of a worker's buttons."""

TEXTS = {"why": "Why?"}

TOGETHER = 2800  # characters of one block


def overview(
    host: str,
    workers: Sequence[Worker],
    allowed: Mapping[str, Collection[str]],
    nonce: str,
    asking: Collection[str] = (),
    *,
    more: bool = False,
    rests: str = "",
) -> Content:
    """The message. `allowed`: for each worker the commands that its reader may give; `nonce`: this very message;
    `asking`: the commands that need an approval; `more`: a form is open to its reader; `rests`: the reason for a
    pause of monitoring."""
    text, color = headline(host, workers, monitoring_paused=bool(rests))
    blocks = [section(monitoring_paused(rests))] if rests else []
    if not workers:
        blocks.append(section("Add the first one to the configuration, under `workers`."))
    entries = fold_silent(workers)
    ordered = unhealthy_first(entries)[:SHOWN]
    for worker in ordered:
        fitting = [name for name in _fitting(worker) if name in allowed.get(worker["id"], ())]
        if len(entries) > FEW and worker["fine"]:
            fitting = []
        commands = [Command.for_worker(name, worker["id"]) for name in fitting]
        buttons = [command_button(each, nonce, TEXTS.get(each.name, ""), asks=each.name in asking) for each in commands]
        _add_line(blocks, worker_line(worker))
        if buttons:
            blocks.append(actions(f"worker:{worker['id']}", buttons))
    hints = [f"… and {len(entries) - SHOWN} more: `/supervisor status`"] if len(entries) > SHOWN else []
    if more:
        blocks.append(actions("more", [button(OPEN, "More…", nonce)]))
    blocks.append(context(" · ".join([*hints, "`/supervisor help` lists all commands"])))
    return card(text, color, blocks)


def _add_line(blocks: list[Json], line: str) -> None:
    """Lines without buttons between them share a block."""
    last = blocks[-1]["text"]["text"] if blocks and blocks[-1]["type"] == "section" else ""
    if last and len(last) + len(line) < TOGETHER:
        blocks[-1] = section(f"{last}\n{line}")
    else:
        blocks.append(section(line))


def pressed_button(command: str, worker_id: str, nonce: str) -> Content:
    """The message in the place of an overview after one of its buttons was pressed: its state is out of date."""
    text = f":hourglass_flowing_sand: *{escape(worker_id)}*: {command} requested. The result is posted in the channel."
    again = button(f"{ACTION}{AGAIN}", "Show workers", nonce)
    return {"text": text, "blocks": [section(text), actions("again", [again])]}


def monitoring_paused(reason: str) -> str:
    """The warning that monitoring is paused: nothing is restarted automatically."""
    why = f": {inert(reason, WHY)}" if reason else ""
    return (
        f":double_vertical_bar: *Monitoring is paused*{why}. No worker is started, stopped or restarted "
        "automatically until `/supervisor monitoring resume`."
    )


def monitoring_changed(done: str, by: Issuer, *, rests: bool) -> Content:
    """The result of pausing or resuming monitoring, for everybody."""
    sign = ":double_vertical_bar:" if rests else ":arrow_forward:"
    end = " Resume it with `/supervisor monitoring resume`." if rests else ""
    return text_message(f"{sign} {escape(done)} Requested by {mention(by)}.{end}")


def _fitting(worker: Worker) -> tuple[str, ...]:
    muted = ("unmute",) if worker.get("muted_until") else ()
    if worker["paused"]:
        return ("resume", *muted)
    if not worker["fine"]:
        return ("why", "restart" if worker["pid"] else "resume", "pause", *muted)
    return (*(("pause", "restart") if worker["pid"] else ("pause", "resume")), *muted)


PAGE = 25
"""Workers at once: with the longest reasons still less than a message holds."""


def status(
    command: Command,
    workers: Sequence[Mapping[str, Any]],
    nonce: str,
    page: int = 0,
    team: TeamPicture | None = None,
    *,
    rests: str = "",
    host: str,
    problem: str = "",
) -> Content:
    """One page of workers. `rests`: the reason for a pause of monitoring; `problem`: of the link to Slack."""
    entries = by_host(fold_silent(workers))
    part = list_page(entries, PAGE, page)
    heads = [f":warning: *Slack*: {inert(problem, PROBLEM)}"] if problem else []
    heads += [*([monitoring_paused(rests)] if rests else []), *(team_heading(team, workers) if team else [])]
    text, color = headline(host, workers, monitoring_paused=bool(rests))
    groups = _groups(part.items, workers, team)
    groups[0] = [*heads, *groups[0]]
    blocks = [section(each) for group in groups for each in join_lines(group, TOGETHER)]
    blocks += page_buttons(part, command, nonce)
    if part.pages > 1:
        last = part.first + len(part.items) - 1
        blocks.append(context(f"{part.first} to {last} of {len(entries)} · page {part.number + 1} of {part.pages}"))
    return card(text, color if workers else Color.QUIET, blocks)


def _groups(shown: Sequence[Worker], workers: Sequence[Worker], team: TeamPicture | None) -> list[list[str]]:
    """A line for each worker. With several hosts, one that has several workers is a group with a heading."""
    hosts = Counter(host_of(worker) for worker in workers)
    groups: list[list[str]] = [[]]
    last = ""
    for worker in shown:
        host = host_of(worker)
        title = host if len(hosts) > 1 and hosts[host] > 1 and not worker.get(SILENT) else ""
        if title != last:
            there = [each for each in workers if host_of(each) == host]
            groups.append([f"*{escape(host)}* · {counts(there)}"] if title else [])
        last = title
        groups[-1].append(f"{worker_line(worker)}{role_of(team, worker['id'])}")
    return [group for group in groups if group] or [[]]
