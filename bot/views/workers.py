"""Workers as people see them: a line for each, the overview with its buttons, `status` and `teams`. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from bot.views.blocks import Color, Content, Json, actions, button, card, context, join_lines, section, text_message
from bot.views.buttons import ACTION, command_button, list_page, page_buttons
from bot.views.forms import OPEN
from bot.views.text import ago, escape, in_code, inert, mention, minute, shorten
from supervisor_core.code.change_plan import count, short
from supervisor_core.commands.addresses import SEPARATOR, SILENT, fold_silent, is_address
from supervisor_core.commands.command import Command, Issuer
from supervisor_core.common.text import one_line
from supervisor_core.workers.teams import MemberRole, TeamMember, TeamPicture

TEAMS_PAGE = 8
"""Teams at once."""

OBJECTIVE, NAME = 250, 120  # characters
MEMBERS, LEFT = 8, 3
"""With a name; the others are counted."""


def teams(
    command: Command,
    pictures: Sequence[TeamPicture],
    workers: Mapping[str, Worker],
    nonce: str,
    page: int = 0,
) -> Content:
    """One page of all teams; `workers`: how each is."""
    if not pictures:
        return text_message("*No teams yet.* Add them to the configuration under `teams`, and set `workers.ID.team`.")
    part = list_page(pictures, TEAMS_PAGE, page)
    blocks = [section(_team(each, workers)) for each in part.items]
    blocks += page_buttons(part, command, nonce)
    parts = [f"Page {part.number + 1} of {part.pages}"] if part.pages > 1 else []
    blocks.append(context(" · ".join([*parts, "`/supervisor status team:NAME` lists a team's workers"])))
    unhealthy = any(not _fine(member, workers) for team in pictures for member in team.members)
    color = Color.CRITICAL if unhealthy else Color.GOOD
    return card(f":busts_in_silhouette: *{count(len(pictures), 'team')}*", color, blocks)


def team_heading(team: TeamPicture, workers: Mapping[str, Worker]) -> list[str]:
    """A team with its objective; and its members by state. Those that aren't on this host are unknown."""
    sign = ":large_green_circle:" if all(_fine(member, workers) for member in team.members) else ":red_circle:"
    objective = f": {inert(' '.join(team.objective.split()), OBJECTIVE)}" if team.objective else ""
    members = "no members"
    if team.members:
        ids = [member.agent_id for member in team.members]
        states = Counter(_how(workers[each]) if each in workers else "on another host" for each in ids)
        members = f"{count(len(ids), 'member')}: {', '.join(f'{number} {how}' for how, number in states.most_common())}"
    left = [f"{inert(each.agent_id, NAME)} {minute(each.left_at)}" for each in team.left if each.left_at]
    gone = f" · left recently: {shorten(left, LEFT)}" if team.left else ""
    title = f"{sign if team.members else ':white_circle:'} *{inert(team.name, NAME)}*{objective}"
    return [title, f"{members}{gone}"]


def role_of(team: TeamPicture | None, agent_id: str) -> str:
    role = next((each.role for each in team.members if each.agent_id == agent_id), "") if team else ""
    return f" · {inert(role.lower(), NAME)}" if role and role != MemberRole.MEMBER else ""


def _team(team: TeamPicture, workers: Mapping[str, Worker]) -> str:
    lines, members = team_heading(team, workers), []
    for member in sorted(team.members, key=lambda member: _fine(member, workers)):
        role = f" ({inert(member.role.lower(), NAME)})" if member.role != MemberRole.MEMBER else ""
        trouble = "" if _fine(member, workers) else f" :red_circle: {_how(workers[member.agent_id])}"
        members.append(f"{inert(member.agent_id, NAME)}{role}{trouble}")
    return "\n".join([*lines, *([shorten(members, MEMBERS)] if members else [])])


def _how(worker: Worker) -> str:
    if worker["paused"]:
        return "paused"
    return str(worker["health"] if worker["state"] == "running" else worker["state"])


def _fine(member: TeamMember, workers: Mapping[str, Worker]) -> bool:
    worker = workers.get(member.agent_id)
    return worker is None or bool(worker["fine"])


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
    text = f":hourglass_flowing_sand: *{escape(worker_id)}*: {command} requested. The result is posted in the channel."
    again = button(f"{ACTION}{AGAIN}", "Show workers", nonce)
    return {"text": text, "blocks": [section(text), actions("again", [again])]}


def monitoring_paused(reason: str) -> str:
    why = f": {inert(reason, WHY)}" if reason else ""
    return (
        f":double_vertical_bar: *Monitoring is paused*{why}. No worker is started, stopped or restarted "
        "automatically until `/supervisor monitoring resume`."
    )


def monitoring_changed(done: str, by: Issuer, *, rests: bool) -> Content:
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
    workers: Sequence[Worker],
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
    heads += [
        *([monitoring_paused(rests)] if rests else []),
        *(team_heading(team, {worker["id"]: worker for worker in workers}) if team else []),
    ]
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


Worker = Mapping[str, Any]
"""A worker as a live look describes it."""

REASON = 200  # characters

IN_MOTION = ("starting", "stopping")


def worker_line(worker: Worker, version: str = "") -> str:
    facts = [f"{status_sign(worker)} *{escape(worker['id'])}* {_state(worker)}"]
    if worker["fine"] and worker["pid"] and not worker["paused"] and worker.get("started_at"):
        facts[0] += f", started {ago(datetime.fromisoformat(worker['started_at']))}"
    if version:
        facts.append(f"`{short(version)}`")
    if worker.get("muted_until"):
        how = "in maintenance" if worker.get("muted_for") == "maintenance" else "muted"
        facts.append(f":no_bell: {how} until {minute(datetime.fromisoformat(worker['muted_until']))}")
    problem = _problem(worker)
    return " · ".join(facts) + (f"\n{problem}" if problem else "")


def status_sign(worker: Worker) -> str:
    if not worker["fine"]:
        return ":large_yellow_circle:" if worker["health"] == "degraded" else ":red_circle:"
    if worker["paused"]:
        return ":double_vertical_bar:"
    if worker["state"] in IN_MOTION:
        return ":hourglass_flowing_sand:"
    return ":large_green_circle:" if worker["pid"] else ":white_circle:"


def by_host(workers: Sequence[Worker]) -> list[Worker]:
    """The workers of each host together, those that need attention first among the hosts and on each."""
    hosts: dict[str, list[Worker]] = {}
    for worker in unhealthy_first(workers):
        hosts.setdefault(host_of(worker), []).append(worker)
    return [worker for there in hosts.values() for worker in there]


def host_of(worker: Worker) -> str:
    """The name of the worker's host; empty for the bot's own."""
    name = str(worker["id"])
    return name if worker.get(SILENT) else name.partition(SEPARATOR)[0] if is_address(name) else ""


def unhealthy_first(workers: Iterable[Worker]) -> list[Worker]:
    return sorted(workers, key=lambda worker: bool(worker["fine"]))


def counts(workers: Sequence[Worker]) -> str:
    number = len(workers)
    if not number:
        return "no workers"
    unhealthy = sum(1 for each in workers if not each["fine"])
    others = [
        (sum(1 for each in workers if each["paused"]), "paused"),
        (sum(1 for each in workers if each["fine"] and each["state"] in IN_MOTION), "starting or stopping"),
        (sum(1 for each in workers if each.get("muted_until")), "muted"),
    ]
    rest = "".join(f", {many} {what}" for many, what in others if many)
    if unhealthy:
        verb = "needs" if unhealthy == 1 else "need"
        return f"{unhealthy} of {count(number, 'worker')} {verb} attention{rest}"
    if rest:
        return f"{count(number, 'worker')}{rest}"
    if all(each["pid"] for each in workers):
        return "1 worker running" if number == 1 else f"all {number} workers running"
    return f"{count(number, 'worker')}, none needs attention"


def headline(host: str, workers: Sequence[Worker], *, monitoring_paused: bool = False) -> tuple[str, Color]:
    words, color = summary(workers, monitoring_paused=monitoring_paused)
    sign, _, rest = words.partition(" ")
    hosts = {str(each["id"]).partition(SEPARATOR)[0] if is_address(each["id"]) else "" for each in workers}
    across = f" · {len(hosts)} hosts" if len(hosts) > 1 else ""
    return f"{sign} *{escape(host)}*: {rest}{across}", color


def summary(workers: Sequence[Worker], *, monitoring_paused: bool = False) -> tuple[str, Color]:
    """The same without the host. Only where nothing is paused or muted is all well."""
    color, sign = Color.GOOD, ":white_check_mark:"
    if any(not each["fine"] for each in workers):
        color, sign = Color.CRITICAL, ":red_circle:"
    elif monitoring_paused or any(each["paused"] or each.get("muted_until") for each in workers):
        color, sign = Color.QUIET, ":double_vertical_bar:"
    elif any(each["state"] in IN_MOTION for each in workers):
        color, sign = Color.ACTIVE, ":hourglass_flowing_sand:"
    elif not workers:
        color, sign = Color.QUIET, ":white_circle:"
    return f"{sign} {counts(workers)}{', monitoring paused' if monitoring_paused else ''}", color


def _state(worker: Worker) -> str:
    state = str(worker["state"]).replace("_", " ")
    if worker["fine"] and state == "stopped":  # paused, not enabled, ended on purpose: the reason says it all
        return inert(worker["reason"].removeprefix("stopped, "), REASON)
    if worker["state"] in IN_MOTION or worker["state"] != "running":
        return state
    return "running" if worker["health"] in ("healthy", "unknown") else f"running, {worker['health']}"


def _problem(worker: Worker) -> str:
    if worker["fine"] and not (worker["paused"] and worker["pid"]):
        return ""
    error = worker.get("start_error", worker["last_error"])  # the reason tells of a crash
    if error:
        return f"`{in_code(one_line(error, REASON), REASON)}`"
    return inert(worker["reason"], REASON)
