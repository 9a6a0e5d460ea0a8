"""`supervisor status`: the live state, from the daemon or a look of our own. It imports nothing that it doesn't use."""

from __future__ import annotations

from supervisor_core.cli.table import (
    AMBER,
    BOLD,
    DIM,
    GREEN,
    MAX_WIDTH,
    RED,
    folded,
    folded_table,
    paint,
    printable,
    terminal_width,
    wants_colour,
)
from supervisor_core.commands.conditions import count_healthy, state_word
from supervisor_core.common.errors import ConfigError
from supervisor_core.common.text import times
from supervisor_core.common.times import COUNTDOWN, clock_time, format_span, from_text
from supervisor_core.config.raw import read_raw, state_dir_of
from supervisor_core.daemon.control.client import NotRunningError, UnresponsiveError, ask

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from datetime import datetime
    from typing import Any

    from supervisor_core.config.raw import RawConfig
    from supervisor_core.storage.ledger_file import StoredTeam

ANSWER_SECONDS = 2.0
EVERYBODY = "all"


def run(options: argparse.Namespace) -> int:
    """Show the status; the exit code says whether everything is healthy."""
    form = "json" if options.json else "plain" if options.plain else ""
    target = options.worker or (options.target if options.target != EVERYBODY else None)
    return show(options.config, target, form, services=options.services)


def show(config: str | None, target: str | None, form: str = "", *, services: bool = False) -> int:
    """Show the status of everything or of a target, as tables, `plain` lines or `json`."""
    raw = read_quickly(config)
    status = ask_status(state_dir_of(raw), config)
    if target:
        narrow(status, target, raw)
    if form == "json":
        import json

        print(json.dumps(status, indent=2))
    elif form == "plain":
        print("\n".join(plain_lines(status)))
    else:
        from datetime import UTC, datetime

        text = StatusText(terminal_width(), datetime.now(UTC), coloured=wants_colour())
        print(text.status(status, services=True if services else False if target else None))
    return 0 if status["healthy"] else 1


def read_quickly(config: str | None) -> RawConfig:
    """The raw configuration; only for a broken file is more imported, to use the last good one."""
    try:
        raw = read_raw(config)
        state_dir_of(raw)
    except ConfigError:
        from supervisor_core.cli.host import read_config

        return read_config(config)
    return raw


def ask_status(state_dir: str, config: str | None) -> dict[str, Any]:
    """The daemon's answer; without one, a look of our own."""
    try:
        return ask(state_dir, {"do": "status"}, ANSWER_SECONDS)
    except NotRunningError:
        state = ""
    except UnresponsiveError:
        state = "unresponsive"
    from supervisor_core.cli.status_without_daemon import status_without_daemon

    return status_without_daemon(config, state)


def narrow(status: dict[str, Any], target: str, raw: RawConfig) -> None:
    """Reduce the document to the target; `UsageError` with the nearest one if there is no such target."""
    from pathlib import Path

    from supervisor_core.commands.addresses import hosts_of
    from supervisor_core.commands.conditions import facts_of
    from supervisor_core.commands.grammar_errors import GrammarError
    from supervisor_core.commands.targets import TEAM, GrammarContext, resolve, unknown_target
    from supervisor_core.common.errors import UsageError
    from supervisor_core.storage.ledger_file import LEDGER_FILE, read_teams

    configured = _section(raw, "workers")
    ids = list(dict.fromkeys([*(worker["id"] for worker in status["workers"]), *configured]))
    supervisor_id = status["supervisor"]["id"]
    seen = {team.name: team for team in read_teams(Path(state_dir_of(raw)) / LEDGER_FILE, supervisor_id)}
    names = list(dict.fromkeys([*seen, *_section(raw, "teams")]))
    members = {name: _members(seen.get(name), configured, name) for name in names}
    active = {name: tuple(each["agent_id"] for each in found if each["active"]) for name, found in members.items()}
    facts = facts_of(status["workers"], {each["id"]: each.get("commit") or "" for each in status["workers"]})
    context = GrammarContext(tuple(ids), active, hosts=hosts_of(ids, supervisor_id), facts=facts)
    name = target.removeprefix(TEAM) if target.startswith(TEAM) else ""
    if name in active:
        chosen = active[name]
        status["team"] = _team_document(name, seen.get(name), _section(raw, "teams").get(name), members[name])
    else:
        try:
            found = resolve(target, context)
            if found is None:
                raise unknown_target(target, context)
        except GrammarError as error:
            hint = f"Did you mean {error.instead}?" if error.instead else ""
            raise UsageError(error.message, remedy=hint) from None
        chosen = found
    there = {worker["id"] for worker in status["workers"]}
    new = [worker_id for worker_id in chosen if worker_id in configured and worker_id not in there]
    if new:
        status["supervisor"]["reason"] = (
            f"The daemon hasn't read {', '.join(new)} yet. It reads a changed configuration within seconds; "
            "`supervisor config check` says what it does with this one."
        )
    status["workers"] = [worker for worker in status["workers"] if worker["id"] in chosen]
    status["healthy"] = not new and all(worker["fine"] for worker in status["workers"])


def _team_document(
    name: str, seen: StoredTeam | None, configured: object, members: list[dict[str, Any]]
) -> dict[str, Any]:
    """The same keys as `TeamManager.get_team_status` has for a team, and its members."""
    objective = seen.objective if seen else configured.get("objective") if isinstance(configured, dict) else None
    return {
        "team_id": seen.team_id if seen else None,
        "team_name": name,
        "objective": str(objective) if objective else None,
        "member_count": len(members),
        "active_members": sum(member["active"] for member in members),
        "ended_at": seen.ended_at if seen else None,
        "recorded": seen is not None,
        "members": members,
    }


def _members(seen: StoredTeam | None, workers: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Each agent once, with its newest membership; active members first."""
    if seen is None:
        mine = [key for key, worker in workers.items() if isinstance(worker, dict) and worker.get("team") == name]
        return [
            {"agent_id": each, "role": "MEMBER", "active": True, "joined_at": None, "left_at": None} for each in mine
        ]
    newest = {member.agent_id: member for member in seen.members}  # in the order in which they came
    found = [
        {
            "agent_id": member.agent_id,
            "role": member.role,
            "active": member.left_at is None,
            "joined_at": member.joined_at,
            "left_at": member.left_at,
        }
        for member in newest.values()
    ]
    return sorted(found, key=lambda member: not member["active"])


def _section(raw: RawConfig, name: str) -> Mapping[str, Any]:
    """A section of a configuration that may be invalid."""
    found = raw.data.get(name)
    return {str(key): value for key, value in found.items()} if isinstance(found, dict) else {}


NAMED = 5  # of the unhealthy workers, in the line above the tables
NOTHING = "-"
COMMIT_CHARACTERS = 7
MARK = "! "
"""Begins a line above the tables that needs attention."""

_UNWELL = ("stuck", "unresponsive", "quarantined", "missing", "frozen", "down")
_NOTES = {
    "SPAWNING": ("Starting", ""),
    "PAUSED": (
        f"{MARK}Monitoring is paused",
        "Nothing is restarted automatically. `supervisor monitoring resume` ends that.",
    ),
    "FAILED": (f"{MARK}The supervisor has failed", "Try `supervisor daemon restart`."),
}
"""By the status of the daemon's life: a headline, and what else to know. The reason goes between."""


class StatusText:
    """The status for people: `width` columns at most (None: lines aren't folded), by the clock `now`."""

    __slots__ = ("_coloured", "_now", "_width")

    def __init__(self, width: int | None, now: datetime, *, coloured: bool = False) -> None:
        self._width, self._now, self._coloured = width and min(width, MAX_WIDTH), now, coloured

    def status(self, status: dict[str, Any], *, services: bool | None = None) -> str:
        """All of it; the services when one of them isn't well, or as `services` says."""
        blocks = [self._head(status)]
        if "team" in status:
            blocks.append(self._team(status))
        elif status["workers"]:
            blocks.append(
                self._table(("STATE", "WORKER"), [self._worker(each) for each in _folded_hosts(status["workers"])])
            )
        elif status["supervisor"]["state"] != "standby":
            blocks.append("No workers are configured. Add one under `workers` in the configuration.")
        if services is False and len(status["workers"]) == 1 and status["workers"][0].get("heartbeat_file"):
            from supervisor_core.workers.health import HEARTBEAT_EXAMPLE

            file = status["workers"][0]["heartbeat_file"]
            blocks.append(f"Heartbeat file: {file}\nIts content, for example: {HEARTBEAT_EXAMPLE}")
        running = status["supervisor"]["state"] == "running"
        unwell = running and any(_is_unwell(each) for each in status["services"])
        if services or (services is None and unwell):
            blocks += self._services(status["services"])
        return "\n\n".join(blocks)

    def _head(self, status: dict[str, Any]) -> str:
        supervisor, workers = status["supervisor"], status["workers"]
        state = supervisor["state"]
        first = f"{supervisor['id']}: {state}"
        if state == "running" and supervisor["started_at"]:
            first = f"{supervisor['id']}: daemon up {self._since(supervisor['started_at'])}"
        if workers:
            first += f"; {count_healthy(workers)}"
        notes = _notes(supervisor)
        unhealthy = [worker["id"] for worker in _folded_hosts(workers) if not worker["fine"]]
        if unhealthy and len(workers) > 1:  # by name: among hundreds a row is easily missed
            more = f" and {len(unhealthy) - NAMED} more" if len(unhealthy) > NAMED else ""
            notes.append(f"{MARK}Unhealthy: {', '.join(unhealthy[:NAMED])}{more}")
        for each in status["services"]:
            if (each["state"], each["health"]) == ("running", "healthy") and str(each["reason"]) != "running":
                notes.append(f"{MARK}{_words(each['reason'])}")  # it works, and has something to say
        lines = [self._paint(line, BOLD) for line in self._folded(first)]
        for note in notes:
            own = self._folded(note)
            lines += [self._paint(line, AMBER) for line in own] if note.startswith(MARK) else own
        return "\n".join(lines)

    def _folded(self, text: str) -> list[str]:
        return folded(printable(text), self._width, len(MARK)) if self._width else [printable(text)]

    def _worker(self, worker: dict[str, Any]) -> list[str]:
        started = worker.get("started_at") if worker["pid"] else None
        return [
            state_word(worker),
            worker["id"],
            self._since(started) if started else NOTHING,
            self._since(worker["last_health_at"]) if worker.get("last_health_at") else NOTHING,
            (worker.get("commit") or NOTHING)[:COMMIT_CHARACTERS],
            in_megabytes(worker.get("memory_bytes")),
            percent_of(worker, self._now),
            self._why(worker),
        ]

    def _table(self, head: tuple[str, ...], rows: list[list[str]]) -> str:
        heads = [*head, "UPTIME", "CHECKED", "COMMIT", "MEMORY", "CPU", "WHY"]
        for column in (-3, -2):  # numbers are read from their right end
            size = max(len(row[column]) for row in [heads, *rows])
            for row in [heads, *rows]:
                row[column] = row[column].rjust(size)
        colours = [colour_of(row[0]) for row in rows] if self._coloured else ()
        return folded_table(heads, rows, self._width, colours)

    def _team(self, status: dict[str, Any]) -> str:
        team, live = status["team"], {worker["id"]: worker for worker in status["workers"]}
        left = team["member_count"] - team["active_members"]
        head = f"Team {team['team_name']}: {_words(team['objective']) or 'no objective is set'}"
        size = f"{team['active_members']} active, {left} left" if left else f"{team['active_members']} active"
        if team["ended_at"]:
            size += f"; the team ended at {self._clock(team['ended_at'])}"
        if not team["recorded"]:
            size += "; from the configuration, not in the ledger yet"
        lines = [line for each in (head, size) for line in folded(each, self._width or len(each), 3)]
        rows = []
        for member in team["members"]:
            who, worker = [member["agent_id"], member["role"]], live.get(member["agent_id"])
            if not member["active"]:
                when = f"left at {self._clock(member['left_at'])}" if member["left_at"] else ""
                rows.append(["left", *who, *[NOTHING] * 5, when])
            elif worker is None:
                rows.append([NOTHING, *who, *[NOTHING] * 5, "not a worker of this supervisor"])
            else:
                state, _, *rest = self._worker(worker)
                rows.append([state, *who, *rest])
        table = ["", self._table(("STATE", "MEMBER", "ROLE"), rows)] if rows else []
        return "\n".join([*map(printable, lines), *table])

    def _services(self, services: list[dict[str, Any]]) -> list[str]:
        there = [service for service in services if service["state"] != "disabled"]
        rows = [
            [
                each["health" if each["state"] == "running" and _is_unwell(each) else "state"],
                each["name"],
                self._why(each),
            ]
            for each in there
        ]
        colours = [colour_of(row[0]) for row in rows] if self._coloured else ()
        blocks = [folded_table(("STATE", "SERVICE", "WHY"), rows, self._width, colours)] if rows else []
        off = [f"{each['name']} ({_words(each['reason'])})" for each in services if each["state"] == "disabled"]
        if off:
            blocks.append("\n".join(self._folded(f"Disabled: {', '.join(off)}")))
        return blocks

    def _why(self, entry: dict[str, Any]) -> str:
        """The reason, the next start, and the last error; nothing for a worker or service that simply runs."""
        today = f"{self._now:%Y-%m-%d} "  # a time of today needs no date
        is_plain = (  # it runs, or is just starting or stopping: its state says it all
            entry.get("fine") is not False
            and not entry.get("paused")
            and (entry["health"] == "healthy" or entry["state"] in ("starting", "stopping"))
        )
        parts = [] if is_plain else [_words(entry["reason"]).replace(today, "")]
        restarts = entry.get("restarts_last_hour")
        counted = entry["state"] == "quarantined" or "this hour)" in "".join(parts)  # the reason counts them
        if restarts and not counted:
            parts.append(f"restarted {times(restarts)} in the last hour")
        if entry.get("due_at"):
            seconds = (from_text(entry["due_at"]) - self._now).total_seconds()
            soon = f"restarting in {format_span(max(seconds, 0))}"
            if parts and COUNTDOWN.search(parts[0]):
                parts[0] = COUNTDOWN.sub(soon, parts[0])
            else:
                parts.append(soon)
        if entry.get("muted_until"):
            how = "in maintenance" if entry.get("muted_for") == "maintenance" else "muted"
            parts.append(f"{how} until {self._clock(entry['muted_until'])}")
        error = entry["last_error"] or ""
        lines = error.strip().splitlines()
        error = _words(lines[-1] if any(line.startswith("Traceback") for line in lines) else error)
        said = "; ".join(filter(None, parts))
        known = not error or error.partition("; ")[0] in said  # the rest is a countdown from then
        return said if known else ". ".join(filter(None, [said, error]))

    def _since(self, moment: str) -> str:
        return format_span(max((self._now - from_text(moment)).total_seconds(), 0))

    def _clock(self, moment: str) -> str:
        return clock_time(from_text(moment), self._now)

    def _paint(self, text: str, colour: str) -> str:
        return paint(text, colour) if self._coloured else text


def colour_of(word: str) -> str:
    """Green for what runs, amber for what is changing or limited, red for what needs somebody."""
    if word in ("running", "healthy"):
        return GREEN
    return RED if word in _UNWELL else DIM if word in ("stopped", "left", NOTHING) else AMBER


def in_megabytes(size: int | None) -> str:
    if size is None:
        return NOTHING
    megabytes = size / 1_000_000
    return f"{megabytes / 1000:.1f} GB" if megabytes >= 1000 else f"{megabytes:.0f} MB"


def percent_of(worker: dict[str, Any], now: datetime) -> str:
    """The share of one CPU that a worker has used since it started; one that samples may say `cpu_percent`."""
    share = worker.get("cpu_percent")
    if share is None and worker.get("cpu_seconds") is not None and worker.get("started_at"):
        share = 100 * worker["cpu_seconds"] / max((now - from_text(worker["started_at"])).total_seconds(), 1.0)
    return NOTHING if share is None else f"{share:.1f}%" if share < 10 else f"{share:.0f}%"


def _notes(supervisor: dict[str, Any]) -> list[str]:
    """What people should know about the supervisor itself: its life, why it is so, what was lost."""
    reason = _words(supervisor.get("reason"))
    words, more = _NOTES.get(supervisor.get("status") or "", ("", ""))
    headline = ": ".join(filter(None, [words, reason]))
    notes = [f"{headline}. {more}".rstrip() if words else reason] if headline else []
    unwell = supervisor["state"] == "standby" and supervisor["problem"]
    if supervisor["state"] in ("stale", "unresponsive") or unwell:
        notes = [f"{MARK}{reason}"]
    problem = (supervisor.get("ledger") or {}).get("problem")
    if not problem and supervisor["state"] == "running" and not (supervisor.get("configuration") or {}).get("problem"):
        problem = supervisor.get("problem")  # with one of the ledger or the configuration it repeats that
    if problem:
        notes.append(f"{MARK}{_words(problem)}")
    if lost := supervisor.get("lost_events"):
        notes.append(f"Events lost because a subscriber was slow: {lost}")
    configuration = supervisor.get("configuration") or {}
    if configuration.get("problem"):
        notes.append(f"{MARK}The configuration file isn't in use: {_words(configuration['problem'])}")
    if configuration.get("needs_restart"):
        keys = ", ".join(configuration["needs_restart"])
        notes.append(f"Changed, in force after `supervisor daemon restart`: {keys}")
    return notes


def _folded_hosts(workers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The workers, with those of an unresponsive host of a fleet as one row."""
    if not any(each.get("host_silent") for each in workers):
        return workers
    from supervisor_core.commands.addresses import fold_silent

    return [dict(each) for each in fold_silent(workers)]


def _is_unwell(service: dict[str, Any]) -> bool:
    return service["state"] not in ("disabled", "starting") and service["health"] != "healthy"


def _words(text: str | None) -> str:
    return " ".join((text or "").split())


ONE_OF = {"services": "service", "workers": "worker", "members": "member"}
"""What each entry of a list is called, before its own name."""

NAMES = ("id", "name", "agent_id")
"""Which of an entry's values is its name."""

EMPTY = "none"


def plain_lines(document: dict[str, Any], prefix: str = "") -> list[str]:
    """`worker.OrionMX.health=healthy`; every value in one line, `none` where there is none."""
    lines = []
    for key, value in document.items():
        if isinstance(value, dict):
            lines += plain_lines(value, f"{prefix}{key}.")
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for entry in value:
                named = next(name for name in NAMES if name in entry)
                rest = {name: each for name, each in entry.items() if name != named}
                lines += plain_lines(rest, f"{prefix}{ONE_OF.get(key, key)}.{_name(entry[named])}.")
        elif not (key in ONE_OF and value == []):
            lines.append(f"{prefix}{key}={_value(value)}")
    return lines


def _value(value: Any) -> str:  # noqa: ANN401 (JSON of any shape)
    if value is None or value in ("", []):
        return EMPTY
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(_value, value)) if isinstance(value, list) else _escaped(str(value))


def _name(value: object) -> str:
    """What stands before the first `=` of a line is the name, whatever somebody called an agent."""
    return _escaped(str(value)).replace("=", "\\x3d")


def _escaped(text: str) -> str:
    r"""As in a string of Python's: `\n`, `\t`, `\x1b`, and `\\` for a backslash."""
    if text.isprintable() and "\\" not in text:
        return text
    return "".join(
        each if each.isprintable() and each != "\\" else each.encode("unicode_escape").decode() for each in text
    )
