"""The hosts of a fleet on App Home: a line for each, those with trouble first. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bot.views.blocks import Json, option, section
from bot.views.home.sections import EVERYTHING, OF_TEAM, TROUBLE
from bot.views.text import escape, fit, inert
from bot.views.workers import Worker, counts, summary
from supervisor_core.commands.addresses import SEPARATOR, SILENT
from supervisor_core.commands.targets import HOST

EVERY_WORKER = "workers"
"""The value of the filter menu for all workers of a fleet, which begins with its hosts."""

MOST_HOSTS = 15
"""Hosts with a line each; more are counted."""

HOSTS, TEAMS = 40, 50
"""Hosts and teams in the filter menu, which holds a hundred options; others are found by `status`."""

OPTION, NAME, REASON = 75, 60, 100  # characters


def by_host(workers: Sequence[Worker]) -> dict[str, list[Worker]]:
    """The workers of each host, those with trouble first; the bot's own host has an empty name."""
    found: dict[str, list[Worker]] = {}
    for worker in workers:
        host, separator, _ = str(worker["id"]).partition(SEPARATOR)
        found.setdefault(host if separator else "", []).append(worker)
    ordered = sorted(found, key=lambda host: (all(each["fine"] for each in found[host]), host))
    return {host: found[host] for host in ordered}


def is_fleet(workers: Sequence[Worker]) -> bool:
    """True if some of the workers are on other hosts."""
    return any(SEPARATOR in str(each["id"]) for each in workers)


def hosts_block(workers: Sequence[Worker], own: str) -> Json:
    """The hosts, each with the state of its workers."""
    hosts = by_host(workers)
    shown = list(hosts.items())[:MOST_HOSTS]
    lines = [f"*Hosts* ({len(hosts):,})", *(_line(name or own, there) for name, there in shown)]
    rest = [worker for name in list(hosts)[MOST_HOSTS:] for worker in hosts[name]]
    if rest:
        lines.append(f"… and {len(hosts) - MOST_HOSTS:,} more with {counts(rest)}")
    return section("\n".join(lines)) | {"block_id": "hosts"}


def _line(name: str, workers: Sequence[Worker]) -> str:
    title = f"*{inert(name, NAME)}*"
    if workers[0].get(SILENT):
        number = "1 worker" if len(workers) == 1 else f"{len(workers):,} workers"
        return f":red_circle: {title} unresponsive, {inert(str(workers[0][SILENT]), REASON)} · {number}"
    sign, _, words = summary(workers)[0].partition(" ")
    return f"{sign} {title} · {words}"


def filter_options(workers: Sequence[Worker], only: str) -> list[Json]:
    """The options of the filter menu; the chosen one is among them."""
    fleet = is_fleet(workers)
    trouble = sum(1 for worker in workers if not worker["fine"])
    options = [option("All hosts" if fleet else "All workers", EVERYTHING)]
    options += [option(f"Needs attention ({trouble})", TROUBLE)]
    if fleet:
        options += [option("All workers", EVERY_WORKER)]
        names = [name for name in by_host(workers) if 0 < len(name) <= NAME]
        options += [option(f"Host {name}", f"{HOST}{name}") for name in names[:HOSTS]]
    teams = sorted({worker["team"] for worker in workers if 0 < len(worker["team"]) <= NAME})
    options += [option(f"Team {name}", f"{OF_TEAM}{name}") for name in teams[:TEAMS]]
    if only not in [each["value"] for each in options]:
        kind = "Host" if only.startswith(HOST) else "Team"
        options.append(option(fit(f"{kind} {only.partition(':')[2]}", OPTION), only[:150]))
    return options


def wanted(workers: Sequence[Worker], only: str) -> list[Mapping[str, object]]:
    """The workers that are listed under a choice of the filter menu. A fleet's overview lists those in trouble."""
    if only == TROUBLE or (only == EVERYTHING and is_fleet(workers)):
        return [worker for worker in workers if not worker["fine"]]
    if only.startswith(OF_TEAM):
        return [worker for worker in workers if worker["team"] == only.removeprefix(OF_TEAM)]
    if only.startswith(HOST):
        return [worker for worker in workers if str(worker["id"]).startswith(only.removeprefix(HOST) + SEPARATOR)]
    return list(workers)


def nobody(host: str, only: str, workers: Sequence[Worker]) -> str:
    """The sentence for a choice without workers."""
    if only == TROUBLE or (only == EVERYTHING and workers):
        return ":white_check_mark: No worker needs attention."
    if only.startswith((OF_TEAM, HOST)):
        kind, _, name = only.partition(":")
        return f"The {kind} {inert(name, NAME)} has no workers."
    return f"{escape(host)} has no workers yet."
