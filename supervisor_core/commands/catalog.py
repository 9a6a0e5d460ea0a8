"""The catalog: every command once. Grammar, help, rights and the reference page follow from it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import Any

from supervisor_core.commands.definitions import (
    CODE,
    DEFINITION_KEY,
    KEEP_GOING,
    MAX_FAILURES,
    ROLLING,
    CommandDefinition,
    Right,
    Risk,
    Spread,
    TargetRule,
    Tier,
)
from supervisor_core.commands.parameters import (
    MAX_PERSON,
    MAX_SCHEDULED,
    Parameter,
    ParameterError,
    ParameterKind,
    check_all,
)
from supervisor_core.common.text import nearest
from supervisor_core.common.times import DAY, HOUR, MINUTE

MAX_REASON = 200  # characters
OVERVIEW = "overview"

_REASON = Parameter("reason", ParameterKind.TEXT, "reason…", "the reason, in any words", high=MAX_REASON)

_ROLLING_ID = Parameter("task_id", ParameterKind.TASK_ID, "task_id", "the command id of the change", required=True)

_for_workers = partial(CommandDefinition, target=TargetRule.WORKERS, schedulable=True)
_report = partial(_for_workers, takes_label=True, tier=Tier.REPORT)
_lifecycle = partial(_for_workers, takes_label=True, risk=Risk.CHANGES, tier=Tier.LIFECYCLE)
_rolling = partial(CommandDefinition, parameters=(_ROLLING_ID,), risk=Risk.CHANGES)

_SEEING = (
    CommandDefinition(
        OVERVIEW,
        "Show all workers at a glance, with buttons. The same as no command.",
        aliases=("home",),
        right=Right.VIEWER,
        examples=("", "overview"),
    ),
    CommandDefinition(
        "help",
        "List all commands, or describe one.",
        parameters=(Parameter("topic", ParameterKind.TOPIC, "command", "the name of a command", high=MAX_PERSON),),
        aliases=("?",),
        suggested_for=("usage", "commands", "man"),
        right=Right.VIEWER,
        examples=("help", "help rollback", "help schedule add"),
    ),
    _for_workers(
        "status",
        "Show whether workers are running and healthy.",
        suggested_for=("state", "health", "ps", "list", "show", "check", "info"),
        right=Right.VIEWER,
        examples=("status", "status OrionMX", "status all"),
    ),
    _for_workers(
        "why",
        "Explain a worker's condition: the cause, what to do, recent events and relevant log lines.",
        suggested_for=("explain",),
        right=Right.VIEWER,
        examples=("why", "why OrionMX", "why all"),
    ),
    _for_workers(
        "logs",
        "Show the newest lines of a worker's output.",
        parameters=(Parameter("lines", ParameterKind.NUMBER, "N", "lines", default=20, low=1, high=1000),),
        aliases=("log",),
        suggested_for=("tail", "output"),
        examples=("logs", "logs OrionMX 100"),
    ),
    _for_workers(
        "history",
        "Show a worker's uptime, its problems and the commands on it.",
        parameters=(
            Parameter("span", ParameterKind.CHOICE, "24h|7d", "time span", default="24h", choices=("24h", "7d")),
        ),
        suggested_for=("graph", "chart", "uptime"),
        examples=("history", "history OrionMX 7d"),
    ),
    CommandDefinition(
        "audit",
        "Show who did what, when, and with which outcome, newest first.",
        parameters=(
            Parameter("by", ParameterKind.PERSON, "@user", "only one person's actions", keyword="by", high=MAX_PERSON),
            Parameter(
                "since",
                ParameterKind.SINCE,
                "2d",
                "start: a duration back, or a date (in your time zone in Slack, else UTC)",
                keyword="since",
            ),
            Parameter("limit", ParameterKind.NUMBER, "N", "rows (ten a page in Slack)", default=20, low=1, high=50),
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
        "List pending approvals, with buttons to decide or cancel.",
        parameters=(Parameter("approval", ParameterKind.NAME, "id", "only this approval, by its id or command id"),),
        aliases=("approve", "deny"),
        suggested_for=("pending", "vote"),
        right=Right.VIEWER,
        examples=("approvals", "approve"),
    ),
    CommandDefinition(
        "alerts",
        "List open alerts.",
        suggested_for=("alarms", "incidents"),
        right=Right.VIEWER,
        examples=("alerts",),
    ),
    CommandDefinition(
        "teams",
        "List the teams with their objectives and workers.",
        suggested_for=("groups", "members"),
        right=Right.VIEWER,
        examples=("teams",),
    ),
    _report(
        "diagnostics",
        "Write a diagnostic report about a worker and its host, and summarize it.",
        handler="diagnostics",
        suggested_for=("diagnose", "doctor", "report"),
        examples=("diagnostics", "diagnostics OrionMX before the upgrade"),
    ),
    _report(
        "verify-db",
        "Verify that the database answers and its critical tables are readable.",
        handler="verify_db",
        once_per_host=True,
        suggested_for=("verify", "db", "database"),
        examples=("verify-db", "verify-db OrionMX after maintenance"),
    ),
)

_ACTING = (
    _lifecycle(
        "pause",
        "Stop a worker and keep it stopped until it's resumed.",
        handler="pause",
        aliases=("pause_watcher",),
        suggested_for=("stop", "halt", "hold"),
        examples=("pause", "pause OrionMX disk is full", "pause team:archive -- it's broken, see #4711"),
    ),
    _lifecycle(
        "resume",
        "Resume a paused worker.",
        handler="resume",
        aliases=("resume_watcher", "unpause"),
        suggested_for=("start", "continue"),
        examples=("resume", "resume OrionMX disk is cleared", "resume all"),
    ),
    _lifecycle(
        "restart",
        "Stop a worker, wait until it's gone, and start it again. A pause stays in place.",
        handler="restart_watcher",
        spread=Spread.LIMITED,
        aliases=("restart_watcher",),
        suggested_for=("reboot", "bounce", "kill", "reload"),
        examples=("restart", "restart OrionMX hangs on a scan", "restart Orion*", "restart all --keep-going"),
    ),
    _for_workers(
        "mute",
        "Silence a worker's alerts for a while. They are still recorded.",
        recorded_as="MUTED",
        parameters=(
            Parameter("seconds", ParameterKind.DURATION, "2h", "duration", default=HOUR, low=MINUTE, high=30 * DAY),
            _REASON,
        ),
        suggested_for=("silence", "snooze", "quiet"),
        risk=Risk.CHANGES,
        examples=("mute", "mute OrionMX 2h", "mute team:archive 1d12h it's being moved"),
    ),
    _for_workers(
        "unmute",
        "Turn a worker's alerts back on.",
        recorded_as="UNMUTED",
        parameters=(_REASON,),
        suggested_for=("unsilence", "unsnooze"),
        risk=Risk.CHANGES,
        examples=("unmute", "unmute OrionMX"),
    ),
    _rolling(
        "rolling status",
        "Show the progress of a rolling change.",
        risk=Risk.READS,
        examples=("rolling status task_20260205_001",),
    ),
    _rolling(
        "rolling pause",
        "Pause a rolling change: no further worker is started until it's continued.",
        recorded_as="ROLLING_PAUSED",
        examples=("rolling pause task_20260205_001",),
    ),
    _rolling(
        "rolling continue",
        "Continue a paused or halted rolling change with its remaining workers.",
        recorded_as="ROLLING_CONTINUED",
        examples=("rolling continue task_20260205_001",),
    ),
    _rolling(
        "rolling abort",
        "Abort a rolling change: its remaining workers aren't started.",
        recorded_as="ROLLING_ABORTED",
        examples=("rolling abort task_20260205_001",),
    ),
    _rolling(
        "rolling undo",
        "Undo a rolling change on the workers that it has changed.",
        examples=("rolling undo task_20260205_001",),
    ),
    CommandDefinition(
        "monitoring pause",
        "Pause automatic restarts and all alerts. Workers and commands keep running.",
        recorded_as="MUTED",
        risk=Risk.CHANGES,
        examples=("monitoring pause",),
    ),
    CommandDefinition(
        "monitoring resume",
        "Resume automatic restarts and alerts.",
        recorded_as="UNMUTED",
        risk=Risk.CHANGES,
        examples=("monitoring resume",),
    ),
    CommandDefinition(
        "schedule add",
        "Run a command on a schedule, in your time zone and with the rights that you have at each run.",
        recorded_as="SCHEDULE_ADDED",
        parameters=(
            Parameter("name", ParameterKind.NAME, "NAME", "the schedule's name", required=True),
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
                "the command to run, as you would type it",
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
        "List schedules and the next run of each.",
        examples=("schedule list",),
    ),
    CommandDefinition(
        "schedule remove",
        "Remove a schedule.",
        recorded_as="SCHEDULE_REMOVED",
        parameters=(Parameter("name", ParameterKind.NAME, "NAME", "the schedule's name", required=True),),
        risk=Risk.CHANGES,
        examples=("schedule remove nightly",),
    ),
)

BUILT_IN = (*_SEEING, *_ACTING, *CODE)
HANDLERS = tuple(definition.handler for definition in BUILT_IN if definition.handler)
"""The handlers of the built-in commands, as jobs, results and flags name them."""

_OTHER_HANDLERS = {"pause_watcher": "pause", "resume_watcher": "resume"}
FLAG_HANDLERS = (*HANDLERS, *_OTHER_HANDLERS)
"""The handler names that a flag can have: the handlers and their older names."""

FAMILIES: Mapping[str, tuple[CommandDefinition, ...]] = MappingProxyType(
    {
        first: tuple(definition for definition in BUILT_IN if definition.name.startswith(f"{first} "))
        for first in ("rolling", "monitoring", "schedule")
    }
)
"""The commands of two words, by their first."""


def _key(word: str) -> str:
    return " ".join(word.lower().replace("_", "-").split())


class Catalog(Mapping[str, CommandDefinition]):
    """The commands of this process, by their names: the built-in ones, and those that `extend` has added."""

    def __init__(self) -> None:
        self._added: Mapping[str, tuple[CommandDefinition, ...]] = {}
        self.extend("", ())

    def extend(self, source: str, definitions: Iterable[CommandDefinition]) -> None:
        """Replace the commands of this source. Their names have been checked."""
        self._added = {**self._added, source: tuple(definitions)}
        every = (*BUILT_IN, *chain.from_iterable(self._added.values()))
        # Replaced as wholes, because other threads read them.
        self.words = {_key(word): each for each in every for word in (each.name, *each.aliases)}
        self.handlers = {each.handler: each for each in every if each.handler}
        self._names = {each.name: each for each in every}

    def __getitem__(self, name: str) -> CommandDefinition:
        return self._names[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def on_record(self, name: str) -> CommandDefinition:
        """The command of this name, or of one that was removed: it can be shown, and never run."""
        return self.get(name) or CommandDefinition(name, "", takes_label=True, target=TargetRule.WORKERS)


CATALOG = Catalog()

_SUGGESTED = {word: definition.name for definition in BUILT_IN for word in definition.suggested_for}


def find(word: str) -> CommandDefinition | None:
    """The command of this name or alias, in whatever case it is typed."""
    return CATALOG.words.get(_key(word))


def by_handler(handler: str) -> CommandDefinition | None:
    """The command with this handler, by either of its names."""
    return CATALOG.handlers.get(_OTHER_HANDLERS.get(handler, handler))


def nearest_command(word: str) -> str | None:
    """The name of the command, or the first word of a family of commands, that a word most likely means."""
    key = _key(word)
    known = [each for each in CATALOG.words if " " not in each]
    found = key if key in _SUGGESTED else nearest(key, (*known, *FAMILIES, *_SUGGESTED))
    if found is None or found in FAMILIES:
        return found
    return _SUGGESTED.get(found) or CATALOG.words[found].name


def definition_objection(name: str, params: Mapping[str, Any]) -> str:
    """Why a command that was requested earlier, or on another host, isn't run by the definition of this process."""
    definition = CATALOG.get(name)
    if definition is None:
        return f"{name} isn't a command of this host."
    extension, meant = definition.extension, params.get(DEFINITION_KEY)
    if meant == (extension.digest if extension else None):
        return ""
    return f"The definition of {name} on this host isn't the one that was requested."


def check_params(definition: CommandDefinition, params: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The parameters of a command with their defaults; `ParameterError` names the key that is wrong."""
    further = (*definition.unseen, *definition.narrowing, *definition.spread_options, *definition.note_parameters)
    checked = check_all(definition.name, definition.parameters, params, further)
    if checked.get(KEEP_GOING.name) and any(each.name in checked for each in ROLLING):
        message = f"Use {MAX_FAILURES.option} instead of {KEEP_GOING.option} for a change in batches."
        raise ParameterError(message, key=KEEP_GOING.name)
    return {DEFINITION_KEY: definition.extension.digest, **checked} if definition.extension else checked
