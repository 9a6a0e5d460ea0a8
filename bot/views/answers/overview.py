"""The overview of all workers with buttons, and the answer to `status`; those in trouble first. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from bot.views.answers.teams import role_of, team_heading
from bot.views.blocks import Content, actions, button, context, join_lines, section, text_message
from bot.views.buttons import ACTION, command_button, list_page, page_buttons
from bot.views.forms import OPEN
from bot.views.text import escape, fit, mention
from supervisor_core.code.change_plan import count
from supervisor_core.commands.command import Command, Issuer
from supervisor_core.common.text import one_line
from supervisor_core.workers.teams.manager import TeamPicture

SHOWN = 15
"""Workers with a line of their own: beyond it, all texts together could be more than a message holds."""

WHY, TEXT = 200, 3000  # characters: of a reason, and of all that a notification says

AGAIN = "overview"
"""The command of the button that replaces the others once one of them is pressed."""

BUTTONS = ("pause", "resume", "restart")
"""The commands of a worker's buttons."""


def overview(
    host: str,
    workers: Sequence[Mapping[str, Any]],
    allowed: Mapping[str, Collection[str]],
    nonce: str,
    asking: Collection[str] = (),
    *,
    more: bool = False,
    rests: str = "",
) -> Content:
    """The message. `allowed`: for each worker the commands that its reader may give; `nonce`: this very message;
    `asking`: the commands that need an approval; `more`: whether there is a form of theirs to open; `rests`: why
    monitoring is paused, where it is."""
    ordered = sorted(workers, key=lambda worker: bool(worker["fine"]))
    unwell = sum(1 for worker in workers if not worker["fine"])
    paused = sum(1 for worker in workers if worker["paused"])
    title = f"{escape(host)}: {count(len(workers), 'worker')}, {_well(unwell, len(workers))}"
    title += f", {paused} paused" if paused else ""
    heads = [monitoring_paused(rests)] if rests else []
    blocks = [section(f"*{title}*"), *map(section, heads)]
    for worker in ordered[:SHOWN]:
        blocks.append(section(line(worker)))
        worker_id = worker["id"]
        commands = [Command.for_worker(name, worker_id) for name in _fitting(worker) if name in allowed[worker_id]]
        buttons = [command_button(each, nonce, asks=each.name in asking) for each in commands]
        if buttons:
            blocks.append(actions(f"worker:{worker['id']}", buttons))
    if len(ordered) > SHOWN:
        blocks.append(context(f"… and {len(ordered) - SHOWN} more: `/supervisor status` shows them all."))
    if more:
        blocks.append(actions("more", [button(OPEN, "More…", nonce)]))
    blocks.append(context("`/supervisor help` shows what else I can do."))
    return {"text": fit("\n".join([title, *heads, *map(line, ordered[:SHOWN])]), TEXT), "blocks": blocks}


def pressed_button(command: str, worker_id: str, nonce: str) -> Content:
    """The message in the place of an overview after one of its buttons was pressed: its state is out of date."""
    text = f":hourglass_flowing_sand: *{escape(worker_id)}*: {command} is asked for. Its card stands in the channel."
    again = button(f"{ACTION}{AGAIN}", "Show the workers", nonce)
    return {"text": text, "blocks": [section(text), actions("again", [again])]}


def monitoring_paused(reason: str) -> str:
    """The warning that monitoring is paused: nothing is restarted automatically."""
    return (
        f":double_vertical_bar: *Monitoring is paused*: {fit(escape(one_line(reason, WHY)), WHY)}. Nothing is started, "
        "stopped or restarted by itself; `/supervisor monitoring resume` ends that."
    )


def monitoring_changed(done: str, by: Issuer, *, rests: bool) -> Content:
    """The result of pausing or resuming monitoring, for everybody."""
    sign = ":double_vertical_bar:" if rests else ":arrow_forward:"
    end = " To end it: `/supervisor monitoring resume`" if rests else ""
    return text_message(f"{sign} {escape(done)} Asked for by {mention(by)}.{end}")


def line(worker: Mapping[str, Any]) -> str:
    """The state of one worker, with a sign and in words."""
    sign = ":white_check_mark:" if worker["fine"] else ":x:"
    if worker["fine"] and worker["paused"]:
        sign = ":double_vertical_bar:"
    why = one_line(worker["last_error"] if worker["last_error"] and not worker["fine"] else worker["reason"], WHY)
    if worker["paused"] and worker["state"] == "stopped" and worker["fine"]:
        return f"{sign} *{escape(worker['id'])}* {fit(escape(why), WHY)}"
    why = why.removeprefix(f"{worker['state']}, ")
    return f"{sign} *{escape(worker['id'])}* {worker['state']}, {worker['health']}: {fit(escape(why), WHY)}"


def _fitting(worker: Mapping[str, Any]) -> tuple[str, ...]:
    if worker["paused"]:
        return ("resume",)
    return ("pause", "restart") if worker["pid"] else ("pause", "resume")


def _well(unwell: int, number: int) -> str:
    if not number:
        return "nothing to look after"
    if unwell:
        return f"{unwell} need{'s' if unwell == 1 else ''} a look"
    return "all is well"


PAGE = 25
"""Workers at once: with the longest reasons still less than a message holds."""

TOGETHER = 2800  # characters of one block
STATUS_TEXT = 2900


def status(
    command: Command,
    workers: Sequence[Mapping[str, Any]],
    nonce: str,
    page: int = 0,
    team: TeamPicture | None = None,
    *,
    rests: str = "",
) -> Content:
    """One page of them. `rests`: why monitoring is paused, where it is."""
    ordered = sorted(workers, key=lambda worker: bool(worker["fine"]))
    part = list_page(ordered, PAGE, page)
    lines = [f"{line(worker)}{role_of(team, worker['id'])}" for worker in part.items]
    heads = [*([monitoring_paused(rests)] if rests else []), *(team_heading(team, workers) if team else [])]
    if part.pages > 1:
        unwell = sum(1 for worker in workers if not worker["fine"])
        last = part.first + len(part.items) - 1
        heads = [
            *heads,
            f"*{len(ordered)} workers, {unwell} in trouble*: {part.first} to {last}, those in trouble first",
        ]
    if not lines:
        lines = ["There are no workers."]
    blocks = [section(text) for text in join_lines([*heads, *lines], TOGETHER)]
    blocks += page_buttons(part, command, nonce)
    if part.pages > 1:
        blocks.append(context(f"Page {part.number + 1} of {part.pages}. `/supervisor status WORKER` shows one alone."))
    return {"text": fit("\n".join([*heads, *lines]), STATUS_TEXT), "blocks": blocks}
