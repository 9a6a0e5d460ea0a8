"""`supervisor status`: the live state, from the daemon or by looking. It imports nothing that it doesn't use."""

from __future__ import annotations

from supervisor_core.cli.arguments import JSON, Subparsers, add_command
from supervisor_core.cli.host import read_config
from supervisor_core.cli.output import (
    AMBER,
    BOLD,
    DIM,
    GREEN,
    MAX_WIDTH,
    RED,
    format_table,
    paint,
    print_json,
    terminal_width,
    visible,
    wants_color,
    wrap,
)
from supervisor_core.commands.conditions import count_healthy, state_word
from supervisor_core.common.text import times
from supervisor_core.common.times import COUNTDOWN, clock_time, format_span, from_text
from supervisor_core.config.raw import state_dir_of
from supervisor_core.daemon.control.client import NotRunningError, UnresponsiveError, ask

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from typing import Any

    from supervisor_core.config.raw import RawConfig

ANSWER_SECONDS = 2.0


def add_parser(subparsers: Subparsers) -> None:
    description = "Show the workers and their health, verified now."
    parser = add_command(subparsers, "status", run, description, "status OrionMX")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help=JSON)
    form.add_argument("--plain", action="store_true", help="print key=value lines for scripts")
    parser.add_argument("--services", action="store_true", help="show the internal services even when all are well")
    which = parser.add_mutually_exclusive_group()
    target = "a worker, team:NAME, host:NAME, a pattern or all; the exit code is then the health of those workers alone"
    which.add_argument("target", nargs="?", metavar="TARGET", help=target)
    which.add_argument("--worker", metavar="ID", help="only this worker, also for the exit code")


def run(arguments: argparse.Namespace) -> int:
    """Show the status; the exit code says whether everything is healthy."""
    form = "json" if arguments.json else "plain" if arguments.plain else ""
    target = arguments.worker or (arguments.target if arguments.target != "all" else None)
    return show(arguments.config, target, form, services=arguments.services)


def show(config: str | None, target: str | None, form: str = "", *, services: bool = False) -> int:
    """Show the status of everything or of a target, as tables, `plain` lines or `json`."""
    raw = read_config(config)
    status = ask_status(state_dir_of(raw), config)
    if target:
        narrow(status, target, raw)
    if form == "json":
        print_json(status, indented=True)
    elif form == "plain":
        print("\n".join(plain_lines(status)))
    else:
        from datetime import UTC, datetime

        text = StatusText(terminal_width(), datetime.now(UTC), colored=wants_color())
        print(text.status(status, services=True if services else False if target else None))
    return 0 if status["healthy"] else 1


def ask_status(state_dir: str, config: str | None) -> dict[str, Any]:
    """The daemon's answer; without one, the workers as observed by this process."""
    try:
        return ask(state_dir, {"do": "status"}, ANSWER_SECONDS)
    except NotRunningError:
        state = ""
    except UnresponsiveError:
        state = "unresponsive"
    from supervisor_core.cli.observe import observe_status

    return observe_status(config, state)


def narrow(status: dict[str, Any], target: str, raw: RawConfig) -> None:
    """Reduce the document to the target; `UsageError` with the nearest one if there is no such target."""
    from pathlib import Path

    from supervisor_core.commands.addresses import hosts_of
    from supervisor_core.commands.conditions import facts_of
    from supervisor_core.commands.grammar_errors import GrammarError
    from supervisor_core.commands.targets import TEAM, GrammarContext, resolve, unknown_target
    from supervisor_core.common.errors import UsageError
    from supervisor_core.storage.ledger_file import LEDGER_FILE, read_teams

    workers, teams = (raw.data.get(name) for name in ("workers", "teams"))
    workers = {str(key): value for key, value in workers.items()} if isinstance(workers, dict) else {}
    teams = {str(key): value for key, value in teams.items()} if isinstance(teams, dict) else {}
    supervisor_id = status["supervisor"]["id"]
    documents = {worker["id"]: worker for worker in status["workers"]}
    recorded = {team.name: team for team in read_teams(Path(state_dir_of(raw)) / LEDGER_FILE, supervisor_id)}
    members = {name: _members(recorded.get(name), workers, name) for name in dict.fromkeys([*recorded, *teams])}
    active = {name: tuple(agent["agent_id"] for agent in team if agent["active"]) for name, team in members.items()}
    known = list(dict.fromkeys([*documents, *workers]))
    facts = facts_of(status["workers"], {worker_id: each.get("commit") or "" for worker_id, each in documents.items()})
    context = GrammarContext(tuple(known), active, hosts=hosts_of(known, supervisor_id), facts=facts)
    name = target.removeprefix(TEAM)
    if target.startswith(TEAM) and name in active:
        target_ids: Sequence[str] = active[name]
        team, configured = recorded.get(name), teams.get(name)
        objective = team.objective if team else configured.get("objective") if isinstance(configured, dict) else None
        status["team"] = {  # the same keys as in `TeamManager.get_team_status`, and the members
            "team_id": team.team_id if team else None,
            "team_name": name,
            "objective": str(objective) if objective else None,
            "member_count": len(members[name]),
            "active_members": len(active[name]),
            "ended_at": team.ended_at if team else None,
            "recorded": team is not None,
            "members": members[name],
        }
    else:
        try:
            ids = resolve(target, context)
            if ids is None:
                raise unknown_target(target, context)
            target_ids = ids
        except GrammarError as error:
            raise UsageError(error.message, remedy=f"Did you mean {error.instead}?" if error.instead else "") from None
    new = [worker_id for worker_id in target_ids if worker_id in workers and worker_id not in documents]
    if new:
        status["supervisor"]["reason"] = (
            f"The daemon hasn't read {', '.join(new)} yet. It reads a changed configuration within seconds; "
            "`supervisor config check` says what it does with this one."
        )
    status["workers"] = [worker for worker in status["workers"] if worker["id"] in target_ids]
    status["healthy"] = not new and all(worker["fine"] for worker in status["workers"])


def _members(team: Any, workers: Mapping[str, Any], name: str) -> list[dict[str, Any]]:  # noqa: ANN401 (a `StoredTeam`)
    """Each agent once, with its newest membership; active members first."""
    if team is None:
        ids = [key for key, worker in workers.items() if isinstance(worker, dict) and worker.get("team") == name]
        member = {"role": "MEMBER", "active": True, "joined_at": None, "left_at": None}
        return [{"agent_id": worker_id, **member} for worker_id in ids]
    newest = {member.agent_id: member for member in team.members}  # in the order in which they joined
    members = [{**member._asdict(), "active": member.left_at is None} for member in newest.values()]
    return sorted(members, key=lambda member: not member["active"])


MAX_UNHEALTHY = 5  # ids in the line above the tables
NO_VALUE = "-"
MARK = "! "
"""Begins a line above the tables that needs attention."""


class StatusText:
    """The status for people: `width` columns at most (None: lines aren't folded), at the time `now`."""

    def __init__(self, width: int | None, now: datetime, *, colored: bool = False) -> None:
        self._width, self._now, self._colored = width and min(width, MAX_WIDTH), now, colored

    def status(self, status: dict[str, Any], *, services: bool | None = None) -> str:
        """All of it; the services when one of them isn't well, or as `services` says."""
        supervisor, workers = status["supervisor"], status["workers"]
        if any(worker.get("host_silent") for worker in workers):  # such a host is one row
            from supervisor_core.commands.addresses import fold_silent

            workers = [dict(worker) for worker in fold_silent(workers)]
        blocks = [self._head(status, workers)]
        if "team" in status:
            blocks.append(self._team(status))
        elif workers:
            blocks.append(self._table(("STATE", "WORKER"), [self._worker(worker) for worker in workers]))
        elif supervisor["state"] != "standby":
            blocks.append("No workers are configured. Add one under `workers` in the configuration.")
        if services is False and len(workers) == 1 and workers[0].get("heartbeat_file"):
            from supervisor_core.workers.health import HEARTBEAT_EXAMPLE

            file = workers[0]["heartbeat_file"]
            blocks.append(f"Heartbeat file: {file}\nIts content, for example: {HEARTBEAT_EXAMPLE}")
        unhealthy = supervisor["state"] == "running" and any(map(_is_unhealthy, status["services"]))
        if services or (services is None and unhealthy):
            blocks += self._services(status["services"])
        return "\n\n".join(blocks)

    def _head(self, status: dict[str, Any], workers: list[dict[str, Any]]) -> str:
        supervisor = status["supervisor"]
        first = f"{supervisor['id']}: {supervisor['state']}"
        if supervisor["state"] == "running" and supervisor["started_at"]:
            first = f"{supervisor['id']}: daemon up {self._since(supervisor['started_at'])}"
        if status["workers"]:
            first += f"; {count_healthy(status['workers'])}"
        notes = _notes(supervisor)
        unhealthy = [worker["id"] for worker in workers if not worker["fine"]]
        if unhealthy and len(status["workers"]) > 1:  # by name: among hundreds a row is easily missed
            more = f" and {len(unhealthy) - MAX_UNHEALTHY} more" if len(unhealthy) > MAX_UNHEALTHY else ""
            notes.append(f"{MARK}Unhealthy: {', '.join(unhealthy[:MAX_UNHEALTHY])}{more}")
        for service in status["services"]:
            if (service["state"], service["health"]) == ("running", "healthy") and str(service["reason"]) != "running":
                notes.append(f"{MARK}{_one_line(service['reason'])}")  # it works, and reports something
        lines = [self._paint(line, BOLD) for line in self._wrap(first)]
        for note in notes:
            lines += [self._paint(line, AMBER if note.startswith(MARK) else "") for line in self._wrap(note)]
        return "\n".join(lines)

    def _worker(self, worker: dict[str, Any]) -> list[str]:
        started_at = worker.get("started_at") if worker["pid"] else None
        return [
            state_word(worker),
            worker["id"],
            self._since(started_at) if started_at else NO_VALUE,
            self._since(worker["last_health_at"]) if worker.get("last_health_at") else NO_VALUE,
            (worker.get("commit") or NO_VALUE)[:7],
            _format_memory(worker.get("memory_bytes")),
            _format_cpu(worker, self._now),
            self._why(worker),
        ]

    def _table(self, head: tuple[str, ...], rows: list[list[str]]) -> str:
        heads = [*head, "UPTIME", "CHECKED", "COMMIT", "MEMORY", "CPU", "WHY"]
        for column in (-3, -2):  # numbers are read from their right end
            size = max(len(row[column]) for row in [heads, *rows])
            for row in [heads, *rows]:
                row[column] = row[column].rjust(size)
        return self._format_table(heads, rows)

    def _format_table(self, head: Sequence[str], rows: list[list[str]]) -> str:
        return format_table(head, rows, self._width, [_color_of(row[0]) for row in rows] if self._colored else ())

    def _team(self, status: dict[str, Any]) -> str:
        team, workers = status["team"], {worker["id"]: worker for worker in status["workers"]}
        left = team["member_count"] - team["active_members"]
        head = f"Team {team['team_name']}: {_one_line(team['objective']) or 'no objective is set'}"
        size = f"{team['active_members']} active, {left} left" if left else f"{team['active_members']} active"
        if team["ended_at"]:
            size += f"; the team ended at {self._clock(team['ended_at'])}"
        if not team["recorded"]:
            size += "; from the configuration, not in the ledger yet"
        rows = []
        for member in team["members"]:
            names, worker = [member["agent_id"], member["role"]], workers.get(member["agent_id"])
            if not member["active"]:
                when = f"left at {self._clock(member['left_at'])}" if member["left_at"] else ""
                rows.append(["left", *names, *[NO_VALUE] * 5, when])
            elif worker is None:
                rows.append([NO_VALUE, *names, *[NO_VALUE] * 5, "not a worker of this supervisor"])
            else:
                state, _, *columns = self._worker(worker)
                rows.append([state, *names, *columns])
        lines = [line for text in (head, size) for line in wrap(visible(text), self._width or len(text), 3)]
        return "\n".join([*lines, *(["", self._table(("STATE", "MEMBER", "ROLE"), rows)] if rows else [])])

    def _services(self, services: list[dict[str, Any]]) -> list[str]:
        rows = [
            [
                service["health" if service["state"] == "running" and _is_unhealthy(service) else "state"],
                service["name"],
                self._why(service),
            ]
            for service in services
            if service["state"] != "disabled"
        ]
        blocks = [self._format_table(("STATE", "SERVICE", "WHY"), rows)] if rows else []
        disabled = [f"{each['name']} ({_one_line(each['reason'])})" for each in services if each["state"] == "disabled"]
        if disabled:
            blocks.append("\n".join(self._wrap(f"Disabled: {', '.join(disabled)}")))
        return blocks

    def _why(self, entry: dict[str, Any]) -> str:
        """The reason, the next start, and the last error; nothing for a worker or service that simply runs."""
        is_plain = (  # it runs, or is just starting or stopping: its state says it all
            entry.get("fine") is not False
            and not entry.get("paused")
            and (entry["health"] == "healthy" or entry["state"] in ("starting", "stopping"))
        )
        today = f"{self._now:%Y-%m-%d} "  # a time of today needs no date
        parts = [] if is_plain else [_one_line(entry["reason"]).replace(today, "")]
        restarts = entry.get("restarts_last_hour")
        is_counted = entry["state"] == "quarantined" or "this hour)" in "".join(parts)  # the reason counts them
        if restarts and not is_counted:
            parts.append(f"restarted {times(restarts)} in the last hour")
        if entry.get("due_at"):
            seconds = (from_text(entry["due_at"]) - self._now).total_seconds()
            countdown = f"restarting in {format_span(max(seconds, 0))}"
            if parts and COUNTDOWN.search(parts[0]):
                parts[0] = COUNTDOWN.sub(countdown, parts[0])
            else:
                parts.append(countdown)
        if entry.get("muted_until"):
            how = "in maintenance" if entry.get("muted_for") == "maintenance" else "muted"
            parts.append(f"{how} until {self._clock(entry['muted_until'])}")
        error = entry["last_error"] or ""
        lines = error.strip().splitlines()
        error = _one_line(lines[-1] if any(line.startswith("Traceback") for line in lines) else error)
        reason = "; ".join(filter(None, parts))
        if not error or error.partition("; ")[0] in reason:  # what follows in the error is a countdown from then
            return reason
        return f"{reason}. {error}" if reason else error

    def _clock(self, text: str) -> str:
        return clock_time(from_text(text), self._now)

    def _since(self, text: str) -> str:
        return format_span(max((self._now - from_text(text)).total_seconds(), 0))

    def _wrap(self, text: str) -> list[str]:
        return wrap(visible(text), self._width, len(MARK)) if self._width else [visible(text)]

    def _paint(self, text: str, color: str) -> str:
        return paint(text, color if self._colored else "")


def _color_of(state: str) -> str:
    """Green for what runs, amber for what is changing or limited, red for what needs somebody."""
    if state in ("running", "healthy"):
        return GREEN
    if state in ("stuck", "unresponsive", "quarantined", "missing", "frozen", "down"):
        return RED
    return DIM if state in ("stopped", "left", NO_VALUE) else AMBER


def _format_memory(size: int | None) -> str:
    if size is None:
        return NO_VALUE
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


def _format_cpu(worker: dict[str, Any], now: datetime) -> str:
    """The share of one CPU that a worker has used since it started; `top` measures it in `cpu_percent`."""
    share = worker.get("cpu_percent")
    if share is None and worker.get("cpu_seconds") is not None and worker.get("started_at"):
        share = 100 * worker["cpu_seconds"] / max((now - from_text(worker["started_at"])).total_seconds(), 1.0)
    return NO_VALUE if share is None else f"{share:.1f}%" if share < 10 else f"{share:.0f}%"


def _notes(supervisor: dict[str, Any]) -> list[str]:
    """What people should know about the supervisor itself: its life, the reason for it, what was lost."""
    reason, status = _one_line(supervisor.get("reason")), supervisor.get("status")
    cause = f": {reason}" if reason else ""
    notes = [reason] if reason else []
    if supervisor["state"] in ("stale", "unresponsive") or (supervisor["state"] == "standby" and supervisor["problem"]):
        notes = [f"{MARK}{reason}"]
    elif status == "SPAWNING":
        notes = [f"Starting{cause}."]
    elif status == "PAUSED":
        advice = "Nothing is restarted automatically. `supervisor monitoring resume` ends that."
        notes = [f"{MARK}Monitoring is paused{cause}. {advice}"]
    elif status == "FAILED":
        notes = [f"{MARK}The supervisor has failed{cause}. Try `supervisor daemon restart`."]
    configuration = supervisor.get("configuration") or {}
    problem = (supervisor.get("ledger") or {}).get("problem")
    if not problem and supervisor["state"] == "running" and not configuration.get("problem"):
        problem = supervisor.get("problem")  # with one of the ledger or the configuration it repeats that
    if problem:
        notes.append(f"{MARK}{_one_line(problem)}")
    if lost := supervisor.get("lost_events"):
        notes.append(f"Events lost because a subscriber was slow: {lost}")
    if configuration.get("problem"):
        notes.append(f"{MARK}The configuration file isn't in use: {_one_line(configuration['problem'])}")
    if configuration.get("needs_restart"):
        keys = ", ".join(configuration["needs_restart"])
        notes.append(f"Changed, in force after `supervisor daemon restart`: {keys}")
    return notes


def _is_unhealthy(service: dict[str, Any]) -> bool:
    return service["state"] not in ("disabled", "starting") and service["health"] != "healthy"


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split())


SINGULAR = {"services": "service", "workers": "worker", "members": "member"}
"""The name of one entry of a list, in a line about it."""

NAME_KEYS = ("id", "name", "agent_id")
"""The keys that may have an entry's name."""


def plain_lines(document: dict[str, Any], prefix: str = "") -> list[str]:
    """`worker.OrionMX.health=healthy`; every value in one line, `none` where there is none."""
    lines = []
    for key, value in document.items():
        if isinstance(value, dict):
            lines += plain_lines(value, f"{prefix}{key}.")
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for entry in value:
                name_key = next(name for name in NAME_KEYS if name in entry)
                # The name ends at the first `=` of a line, whatever characters an agent's name has.
                name = _escape(str(entry[name_key])).replace("=", "\\x3d")
                values = {name: value for name, value in entry.items() if name != name_key}
                lines += plain_lines(values, f"{prefix}{SINGULAR.get(key, key)}.{name}.")
        elif not (key in SINGULAR and value == []):
            lines.append(f"{prefix}{key}={_plain_value(value)}")
    return lines


def _plain_value(value: Any) -> str:  # noqa: ANN401 (JSON of any shape)
    if value is None or value in ("", []):
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(_plain_value, value)) if isinstance(value, list) else _escape(str(value))


def _escape(text: str) -> str:
    r"""As in a string of Python's: `\n`, `\t`, `\x1b`, and `\\` for a backslash."""
    if text.isprintable() and "\\" not in text:
        return text
    return "".join(
        char if char.isprintable() and char != "\\" else char.encode("unicode_escape").decode() for char in text
    )
