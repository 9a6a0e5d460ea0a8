"""Workers as people see them everywhere: a line for each, and a headline for all. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from bot.views.blocks import Color
from bot.views.text import ago, escape, in_code, inert, minute
from supervisor_core.code.change_plan import count, short
from supervisor_core.commands.addresses import SEPARATOR, SILENT, is_address
from supervisor_core.common.text import one_line

Worker = Mapping[str, Any]
"""A worker as a live look describes it."""

REASON = 200  # characters

IN_MOTION = ("starting", "stopping")


def worker_line(worker: Worker, version: str = "") -> str:
    """The state of one worker: a sign, words, since when, its commit, a mute, and its problem on a second line."""
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
    """The sign beside the words."""
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
    """The workers that need attention before the others."""
    return sorted(workers, key=lambda worker: bool(worker["fine"]))


def counts(workers: Sequence[Worker]) -> str:
    """The number of workers, and how many need attention, are paused, starting or muted."""
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
    """The state of all workers of a host in a line, and its color."""
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
