"""The catalog: every command once. Grammar, help, rights and the reference page follow from it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from supervisor_core.commands.definitions import CODE, CommandDefinition, Right, Risk, Spread, TargetRule, Tier
from supervisor_core.commands.parameters import MAX_PERSON, MAX_SCHEDULED, Parameter, ParameterKind, check_all
from supervisor_core.common.text import nearest
from supervisor_core.common.times import DAY, HOUR, MINUTE

MAX_REASON = 200  # characters
OVERVIEW = "overview"

_REASON = Parameter("reason", ParameterKind.TEXT, "reason…", "why, in free words", high=MAX_REASON)

_for_workers = partial(CommandDefinition, target=TargetRule.WORKERS, schedulable=True)
_report = partial(_for_workers, takes_label=True, tier=Tier.REPORT)
_lifecycle = partial(_for_workers, takes_label=True, risk=Risk.CHANGES, tier=Tier.LIFECYCLE, spread=Spread.IN_TURN)

_SEEING = (
    CommandDefinition(
        OVERVIEW,
        "Shows all workers at a glance, with buttons; what you get for no command at all.",
        aliases=("home",),
        right=Right.VIEWER,
        examples=("", "overview"),
    ),
    CommandDefinition(
        "help",
        "Shows all commands, or all about one.",
        parameters=(Parameter("topic", ParameterKind.TOPIC, "command", "a command's name", high=MAX_PERSON),),
        aliases=("?",),
        suggested_for=("usage", "commands", "man"),
        right=Right.VIEWER,
        examples=("help", "help rollback", "help schedule add"),
    ),
    _for_workers(
        "status",
        "Shows whether workers run, and how they are.",
        suggested_for=("state", "health", "ps", "list", "show", "check", "info"),
        right=Right.VIEWER,
        examples=("status", "status OrionMX", "status all"),
    ),
    _for_workers(
        "why",
        "Explains why a worker is as it is: the cause, what to do, what happened before, and what its log says of it.",
        suggested_for=("explain",),
        right=Right.VIEWER,
        examples=("why", "why OrionMX", "why all"),
    ),
    _for_workers(
        "logs",
        "Shows the newest lines of what a worker wrote.",
        parameters=(Parameter("lines", ParameterKind.NUMBER, "N", "how many lines", default=20, low=1, high=1000),),
        aliases=("log",),
        suggested_for=("tail", "output"),
        examples=("logs", "logs OrionMX 100"),
    ),
    _for_workers(
        "history",
        "Draws how a worker was over time, how old its heartbeat was and what was done to it; and says it in words.",
        parameters=(
            Parameter("span", ParameterKind.CHOICE, "24h|7d", "how far back", default="24h", choices=("24h", "7d")),
        ),
        suggested_for=("graph", "chart", "uptime"),
        examples=("history", "history OrionMX 7d"),
    ),
    CommandDefinition(
        "audit",
        "Shows who did what, when, and what came of it, the newest first.",
        parameters=(
            Parameter("by", ParameterKind.PERSON, "@user", "only what one person did", keyword="by", high=MAX_PERSON),
            Parameter(
                "since",
                ParameterKind.SINCE,
                "2d",
                "from when on: a duration back, or a date, which begins in your own time zone in Slack, else in UTC",
                keyword="since",
            ),
            Parameter(
                "limit", ParameterKind.NUMBER, "N", "how many rows; in Slack, ten a page", default=20, low=1, high=50
            ),
        ),
        narrowing=(
            Parameter("command", ParameterKind.NAME, "NAME", "only this command, such as rollback", keyword="command"),
        ),
        target=TargetRule.FILTER,
        suggested_for=("trail", "who"),
        schedulable=True,
        examples=(
            "audit",
            "audit OrionMX",
            "audit by @ann since 2d",
            "audit command rollback",
            "audit since 2026-01-31 50",
        ),
    ),
    CommandDefinition(
        "approvals",
        "Shows what waits for an approval.",
        suggested_for=("approve", "deny", "pending"),
        right=Right.APPROVER,
        examples=("approvals",),
    ),
    CommandDefinition(
        "alerts",
        "Shows which alerts are open.",
        suggested_for=("alarms", "incidents"),
        right=Right.VIEWER,
        examples=("alerts",),
    ),
    CommandDefinition(
        "teams",
        "Shows the teams, their objectives and their workers.",
        suggested_for=("groups", "members"),
        right=Right.VIEWER,
        examples=("teams",),
    ),
    _report(
        "diagnostics",
        "Writes a report about a worker and its host, and sums it up.",
        handler="diagnostics",
        suggested_for=("diagnose", "doctor", "report"),
        examples=("diagnostics", "diagnostics OrionMX before the upgrade"),
    ),
    _report(
        "verify-db",
        "Verifies that the database answers and that its critical tables can be read.",
        handler="verify_db",
        suggested_for=("verify", "db", "database"),
        examples=("verify-db", "verify-db OrionMX after maintenance"),
    ),
)

_ACTING = (
    _lifecycle(
        "pause",
        "Pauses a worker: it stays paused, whatever else happens, until it is resumed.",
        handler="pause",
        aliases=("pause_watcher",),
        suggested_for=("stop", "halt", "hold"),
        examples=("pause", "pause OrionMX disk is full", "pause team:archive"),
    ),
    _lifecycle(
        "resume",
        "Resumes a paused worker.",
        handler="resume",
        aliases=("resume_watcher", "unpause"),
        suggested_for=("start", "continue"),
        examples=("resume", "resume OrionMX disk is cleared", "resume all"),
    ),
    _lifecycle(
        "restart",
        "Stops a worker, makes sure that it is gone, and starts it; a pause stays in place.",
        handler="restart_watcher",
        aliases=("restart_watcher",),
        suggested_for=("reboot", "bounce", "kill", "reload"),
        examples=("restart", "restart OrionMX hangs on a scan", "restart Orion*", "restart all --keep-going"),
    ),
    _for_workers(
        "mute",
        "Keeps alerts about a worker quiet for a while; they are still recorded.",
        recorded_as="MUTED",
        parameters=(
            Parameter("seconds", ParameterKind.DURATION, "2h", "for how long", default=HOUR, low=MINUTE, high=30 * DAY),
            _REASON,
        ),
        suggested_for=("silence", "snooze", "quiet"),
        risk=Risk.CHANGES,
        examples=("mute", "mute OrionMX 2h", "mute team:archive 1d12h it's being moved"),
    ),
    _for_workers(
        "unmute",
        "Lets alerts about a worker be heard again.",
        recorded_as="UNMUTED",
        parameters=(_REASON,),
        suggested_for=("unsilence", "unsnooze"),
        risk=Risk.CHANGES,
        examples=("unmute", "unmute OrionMX"),
    ),
    CommandDefinition(
        "monitoring pause",
        "Has the supervisor rest until monitoring is resumed: it starts, stops and restarts no worker by itself, and "
        "keeps all alerts quiet. Workers and commands go on.",
        recorded_as="MUTED",
        risk=Risk.CHANGES,
        examples=("monitoring pause",),
    ),
    CommandDefinition(
        "monitoring resume",
        "Has the supervisor look after its workers again, and lets all alerts be heard.",
        recorded_as="UNMUTED",
        risk=Risk.CHANGES,
        examples=("monitoring resume",),
    ),
    CommandDefinition(
        "schedule add",
        "Runs a command again and again, at the times that a cron expression or a few words name, by the clocks of "
        "whoever asks for it, and with their rights as they are each time.",
        recorded_as="SCHEDULE_ADDED",
        parameters=(
            Parameter("name", ParameterKind.NAME, "NAME", "what the schedule is called", required=True),
            Parameter(
                "cron",
                ParameterKind.CRON,
                '"CRON"',
                'minute, hour, day, month, weekday; or words such as "daily 03:00", "weekdays 08:30"',
                required=True,
            ),
            Parameter(
                "command",
                ParameterKind.COMMAND,
                "COMMAND…",
                "a command for workers, as it would be typed",
                required=True,
                high=MAX_SCHEDULED,
            ),
        ),
        risk=Risk.CHANGES,
        examples=(
            'schedule add nightly "0 3 * * *" restart OrionMX nightly',
            'schedule add look "*/5 * * * *" status all',
            'schedule add mornings "weekdays 08:30" diagnostics all',
        ),
    ),
    CommandDefinition(
        "schedule list",
        "Shows the schedules, and when each is due next.",
        examples=("schedule list",),
    ),
    CommandDefinition(
        "schedule remove",
        "Ends a schedule.",
        recorded_as="SCHEDULE_REMOVED",
        parameters=(Parameter("name", ParameterKind.NAME, "NAME", "what the schedule is called", required=True),),
        risk=Risk.CHANGES,
        examples=("schedule remove nightly",),
    ),
)

CATALOG: Mapping[str, CommandDefinition] = MappingProxyType(
    {definition.name: definition for definition in (*_SEEING, *_ACTING, *CODE)}
)

HANDLERS: tuple[str, ...] = (
    "pause",
    "resume",
    "restart_watcher",
    "update_code",
    "update_code_deps",
    "rollback_code",
    "undo_code",
    "diagnostics",
    "verify_db",
)
"""What an execution is called: in a job, a result, a flag."""

_OTHER_HANDLERS = {"pause_watcher": "pause", "resume_watcher": "resume"}
FLAG_HANDLERS: tuple[str, ...] = (*HANDLERS, *_OTHER_HANDLERS)
"""What a flag may be called after: the handlers, and other names for the same."""

_BY_HANDLER = {definition.handler: definition for definition in CATALOG.values() if definition.handler}


def _key(word: str) -> str:
    return " ".join(word.lower().replace("_", "-").split())


_BY_WORD = {
    _key(word): definition for definition in CATALOG.values() for word in (definition.name, *definition.aliases)
}

FAMILIES: Mapping[str, tuple[CommandDefinition, ...]] = MappingProxyType(
    {
        first: tuple(definition for definition in CATALOG.values() if definition.name.startswith(f"{first} "))
        for first in ("monitoring", "schedule")
    }
)
"""The commands of two words, by their first."""

_SUGGESTED = {word: definition.name for definition in CATALOG.values() for word in definition.suggested_for}
_FIRST_WORDS = (*(word for word in _BY_WORD if " " not in word), *FAMILIES, *_SUGGESTED)


def find(word: str) -> CommandDefinition | None:
    """The command of this name or alias, in whatever case it is typed."""
    return _BY_WORD.get(_key(word))


def by_handler(handler: str) -> CommandDefinition | None:
    """The command that a flag means with its handler's name."""
    return _BY_HANDLER.get(_OTHER_HANDLERS.get(handler, handler))


def nearest_command(word: str) -> str | None:
    """The name of the command, or the first word of several, that somebody most likely meant."""
    key = _key(word)
    found = key if key in _SUGGESTED else nearest(key, _FIRST_WORDS)
    if found is None or found in FAMILIES:
        return found
    return _SUGGESTED.get(found) or _BY_WORD[found].name


def check_params(definition: CommandDefinition, params: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The parameters of a command as they are carried out; `ParameterError` names the key that is wrong."""
    further = (*definition.untyped, *definition.narrowing, *definition.spread_options)
    return check_all(definition.name, definition.parameters, params, further)
