"""`supervisor status` as tables that fit the terminal, and as plain lines for scripts. It imports nothing slow."""

from __future__ import annotations

from supervisor_core.cli.table import folded, folded_table, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

WELL, UNWELL, LEFT = "ok", "!!", "--"
NAMED = 5  # of those that are unwell, in the line above the tables
NOTHING = "-"
DEAD = ("stale", "unresponsive")
"""A daemon that should be there. One that is stopped is nobody's fault: a host may live on passes."""

_RED = "\x1b[1;31m!!\x1b[0m"
_STATUS_WORDS = {
    "SPAWNING": ("it is coming up", ""),
    "PAUSED": (
        f"{UNWELL} monitoring is paused",
        "nothing is started, stopped or restarted by itself; `supervisor monitoring resume` ends that",
    ),
    "FAILED": (f"{UNWELL} it has failed", "`supervisor restart` begins anew"),
}
"""By the status of its life: what that means, and what else to know. The reason goes between."""


class StatusText:
    """How wide the terminal is (None: there is none), which day it is in UTC, and whether colours are wanted."""

    __slots__ = ("_coloured", "_today", "_width")

    def __init__(self, width: int | None, today: str, *, coloured: bool = False) -> None:
        self._width, self._today, self._coloured = width, today, coloured

    def status(self, status: dict[str, Any], *, services: bool = True) -> str:
        """All of it; the services only where somebody asked for more than some workers."""
        blocks = [self._head(status)]
        if "team" in status:
            blocks.append(self._team(status))
        elif status["workers"]:
            blocks.append(self._workers(status["workers"]))
        if services and status["services"] and status["supervisor"]["state"] == "running":
            blocks += self._services(status["services"])
        text = "\n\n".join(blocks)
        if not self._coloured:
            return text
        # Everything else begins with a name or is indented, so this is always the mark.
        return "\n".join(_RED + line[2:] if line.startswith(UNWELL) else line for line in text.split("\n"))

    def _head(self, status: dict[str, Any]) -> str:
        supervisor = status["supervisor"]
        first = f"supervisor {supervisor['id']}: {supervisor['state']}"
        if supervisor["pid"]:
            first += f", pid {supervisor['pid']}"
        if supervisor["started_at"]:
            first += f", since {_in_full(supervisor['started_at'])} UTC"
        configuration = supervisor.get("configuration") or {}
        if configuration.get("version") is not None:
            first += f", configuration {configuration['version']}"
        notes = [*_notes(supervisor), *_notes_on(configuration), *_unwell(status)]
        lines = [first, *notes]
        if self._width:
            lines = [line for each in lines for line in folded(printable(each), self._width, 3)]
        return "\n".join(map(printable, lines))

    def _workers(self, workers: list[dict[str, Any]]) -> str:
        rows = [
            [WELL if worker["fine"] else UNWELL, worker["id"], *self._state(worker), _why(worker, self._clock)]
            for worker in workers
        ]
        return folded_table(("", "WORKER", "STATE", "HEALTH", "PID", "SEEN UTC", "WHY"), rows, self._width)

    def _team(self, status: dict[str, Any]) -> str:
        team, live = status["team"], {worker["id"]: worker for worker in status["workers"]}
        left = team["member_count"] - team["active_members"]
        head = f"team {team['team_name']}: {_words(team['objective']) or 'no objective is set'}"
        size = f"{team['active_members']} active, {left} left" if left else f"{team['active_members']} active"
        if team["ended_at"]:
            size += f"; the team ended at {_in_full(team['ended_at'])} UTC"
        if not team["recorded"]:
            size += "; as configured, for the ledger does not know it yet"
        lines = [line for each in (head, size) for line in folded(each, self._width or len(each), 3)]
        rows = [self._member(member, live.get(member["agent_id"])) for member in team["members"]]
        if rows:
            heads = ("", "MEMBER", "ROLE", "IN TEAM", "STATE", "HEALTH", "PID", "SEEN UTC", "WHY")
            lines += ["", folded_table(heads, rows, self._width)]
        return "\n".join([*map(printable, lines[:-1]), lines[-1]])

    def _member(self, member: dict[str, Any], worker: dict[str, Any] | None) -> list[str]:
        first = [member["agent_id"], member["role"], "active" if member["active"] else "left"]
        if not member["active"]:
            when = f"left at {_in_full(member['left_at'])} UTC" if member["left_at"] else ""
            return [LEFT, *first, *[NOTHING] * 4, when]
        if worker is None:
            return [LEFT, *first, *[NOTHING] * 4, "no worker of this supervisor"]
        return [WELL if worker["fine"] else UNWELL, *first, *self._state(worker), _why(worker, self._clock)]

    def _services(self, services: list[dict[str, Any]]) -> list[str]:
        heads = ("", "SERVICE", "STATE", "HEALTH", "SEEN UTC", "WHY")
        there = [service for service in services if service["state"] != "disabled"]
        rows = [
            [_mark(each), each["name"], each["state"], each["health"], self._clock(each["last_health_at"]), _why(each)]
            for each in there
        ]
        blocks = [folded_table(heads, rows, self._width)] if rows else []
        off = [f"{each['name']} ({_words(each['reason'])})" for each in services if each["state"] == "disabled"]
        if off:
            said = printable(f"disabled: {', '.join(off)}")
            blocks.append("\n".join(folded(said, self._width, 3) if self._width else [said]))
        return blocks

    def _state(self, worker: dict[str, Any]) -> list[str]:
        seen = self._clock(worker["last_health_at"])
        return [worker["state"], worker["health"], str(worker["pid"] or NOTHING), seen]

    def _clock(self, moment: str | None) -> str:
        """The time of day where it is today, else the day as well."""
        if not moment:
            return NOTHING
        return moment[11:19] if moment[:10] == self._today else _in_full(moment)


def _notes(supervisor: dict[str, Any]) -> list[str]:
    """What is to be known of the supervisor itself: its life, why it is so, what was lost."""
    reason = _words(supervisor.get("reason"))
    words, more = _STATUS_WORDS.get(supervisor.get("status") or "", ("", ""))
    said = [each for each in (words, reason, more) if each]
    notes = [": ".join(said[:2]) + "".join(f"; {each}" for each in said[2:])] if said else []
    if supervisor["state"] in DEAD:
        notes = [f"{UNWELL} {reason}"]
    if problem := (supervisor.get("ledger") or {}).get("problem"):
        notes.append(f"{UNWELL} {_words(problem)}")
    lost = supervisor.get("lost_events")
    if lost:
        notes.append(f"events that a slow subscriber lost: {lost}")
    return notes


def _notes_on(configuration: dict[str, Any]) -> list[str]:
    notes = []
    if configuration.get("problem"):
        notes.append(f"{UNWELL} the configuration on the disk is not in force: {_words(configuration['problem'])}")
    if configuration.get("needs_restart"):
        keys = ", ".join(configuration["needs_restart"])
        notes.append(f"changed, and in force after `supervisor restart`: {keys}")
    return notes


def _unwell(status: dict[str, Any]) -> list[str]:
    """Who is unwell, by name: among hundreds a mark is easily missed."""
    ill = [worker["id"] for worker in status["workers"] if not worker["fine"]]
    everybody = len(status["workers"])
    if not ill or everybody == 1:
        return []
    more = f" and {len(ill) - NAMED} more" if len(ill) > NAMED else ""
    are = "is" if len(ill) == 1 else "are"
    return [f"{UNWELL} {len(ill)} of {everybody} workers {are} unwell: {', '.join(ill[:NAMED])}{more}"]


def _mark(service: dict[str, Any]) -> str:
    return WELL if service["health"] == "healthy" else ".." if service["state"] == "starting" else UNWELL


def _why(entry: dict[str, Any], clock: Any = None) -> str:  # noqa: ANN401 (a function of a moment)
    """Why it is so, what is about to happen, and its last error."""
    parts = [_words(entry["reason"])]
    restarts = entry.get("restarts_last_hour")
    if restarts:
        parts.append(f"{restarts} restart{'s' if restarts > 1 else ''} in the last hour")
    if entry.get("due_at"):
        parts.append(f"next start at {clock(entry['due_at'])} UTC")
    if entry.get("muted_until"):
        how = "in maintenance" if entry.get("muted_for") == "maintenance" else "muted"
        parts.append(f"{how} until {clock(entry['muted_until'])} UTC")
    error = _words(entry["last_error"])
    if error and error not in parts[0]:
        parts.append(f"error: {error}")
    return "; ".join(filter(None, parts))


def _in_full(moment: str) -> str:
    return moment[:19].replace("T", " ")


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
