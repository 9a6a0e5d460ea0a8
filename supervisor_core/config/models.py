"""The whole configuration as frozen values; the longer sections have modules of their own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, SecretStr, model_validator

from supervisor_core.config.alert_settings import AlertSettings
from supervisor_core.config.fields import (
    Bind,
    DatabaseUrl,
    FilePath,
    FleetUrl,
    Frozen,
    Line,
    Pause,
    Seconds,
    Secret,
    SecretUrl,
    Section,
    Span,
    Thawed,
    invalid,
    matching,
    number,
    one_of,
)
from supervisor_core.config.names import HostId, TeamName, WorkerId
from supervisor_core.config.raw import DEFAULT_STATE_DIR
from supervisor_core.config.slack_settings import SlackSettings
from supervisor_core.config.worker_settings import TeamSettings, WorkerSettings

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
Environment = Annotated[Literal["development", "production"], BeforeValidator(one_of("development", "production"))]
_FOLDER = r"(?![/\\~]|[A-Za-z]:)(?!.*(?:^|[/\\])\.\.(?:[/\\]|$)).+"
Folder = Annotated[str, BeforeValidator(matching(_FOLDER, "a path inside nas.root, relative to it"))]
FileName = Annotated[str, BeforeValidator(matching(r"(?!\.{1,2}$)[^/\\:]+", "the name of a file, without a folder"))]
Table = Annotated[
    str,
    BeforeValidator(matching(r"[A-Za-z_][A-Za-z0-9_]{0,63}(?:\.[A-Za-z_][A-Za-z0-9_]{0,63})?", "a table's name")),
]
# What is written into the headers of a commit, where these characters have a meaning of their own.
GitName = Annotated[str, BeforeValidator(matching(r"[^<>]+", "a name without angle brackets"))]


def _mode(value: object) -> int:
    """File permissions in octal, in quotes or not; the owner always keeps reading and writing."""
    text = getattr(value, "text", value)
    if isinstance(value, int) and not isinstance(value, bool) and text is value:
        return value  # the default, already a mode
    digits = text.removeprefix("0o") if isinstance(text, str) else ""
    mode = int(digits, 8) if digits.isascii() and digits.isdigit() and set(digits) <= set("01234567") else -1
    if not 0 <= mode <= 0o777 or mode & 0o600 != 0o600:
        raise invalid('must be file permissions in octal that let the owner read and write, such as "0640"')
    return mode


class SupervisorSettings(Section):
    """The supervisor of this host."""

    id: HostId = ""
    state_dir: FilePath = Path(DEFAULT_STATE_DIR)
    heartbeat_seconds: Seconds = 30.0
    reconcile_seconds: Pause = 30.0
    inbox_poll_seconds: Pause = 2.0
    default_worker: Line = ""


class FolderSettings(Section):
    """The folders of the shared drive, relative to its root."""

    state: Folder = "00_STATE"
    raw: Folder = "01_RAW"
    work: Folder = "02_WORK"
    reference: Folder = "03_REFERENCE"
    publish: Folder = "04_PUBLISH"
    logs: Folder = "05_LOGS"
    inbox: Folder = "Worker_Inbox"
    outbox: Folder = "Worker_Outbox"


class DriveSettings(Section):
    """The shared drive."""

    root: FilePath = Path("var/nas")
    folders: FolderSettings = Field(default_factory=FolderSettings)
    file_mode: Annotated[int, BeforeValidator(_mode)] = 0o640


class InboxSettings(Section):
    """The secret and the age limit of signed flags."""

    secret: Secret = SecretStr("")
    max_age_minutes: Span = 60.0


class GitSettings(Section):
    """The author of the commits of rollbacks and undos."""

    author_name: GitName = "supervisor"
    author_email: GitName = "supervisor@localhost"


class DatabaseSettings(Section):
    """The database that the fleet shares; without one, the ledger is it."""

    url: DatabaseUrl = SecretUrl("")
    query_timeout_seconds: Pause = 10.0
    critical_tables: tuple[Table, ...] = ("jobs_t", "workers_t", "audit_log_t")


class LoggingSettings(Section):
    """The log's level, name and rotation."""

    level: Annotated[str, BeforeValidator(one_of(*LEVELS, fold=True))] = "INFO"
    file: FileName = "supervisor.log"
    max_bytes: Annotated[int, BeforeValidator(number(1024, 10**12, whole=True, unit="bytes"))] = 10_485_760
    backups: Annotated[int, BeforeValidator(number(0, 1000, whole=True))] = 5


class FleetSettings(Section):
    """The road to other hosts."""

    url: FleetUrl = SecretUrl("")
    credentials: Secret = SecretStr("")


class MetricsSettings(Section):
    """The address of the metrics and the health page."""

    bind: Bind = "127.0.0.1:9464"


def _none_as_empty(value: object) -> object:
    return {} if value is None else value


class Settings(Section):
    """Every section there is."""

    environment: Environment = "development"
    supervisor: SupervisorSettings = Field(default_factory=SupervisorSettings)
    nas: DriveSettings = Field(default_factory=DriveSettings)
    inbox: InboxSettings = Field(default_factory=InboxSettings)
    git: GitSettings = Field(default_factory=GitSettings)
    database: DatabaseSettings = Field(default_factory=DatabaseSettings)
    logging: LoggingSettings = Field(default_factory=LoggingSettings)
    workers: Annotated[Mapping[WorkerId, WorkerSettings], BeforeValidator(_none_as_empty), Frozen, Thawed] = Field(
        default_factory=dict
    )
    teams: Annotated[Mapping[TeamName, TeamSettings], BeforeValidator(_none_as_empty), Frozen, Thawed] = Field(
        default_factory=dict
    )
    slack: SlackSettings = Field(default_factory=SlackSettings)
    alerts: AlertSettings = Field(default_factory=AlertSettings)
    fleet: FleetSettings = Field(default_factory=FleetSettings)
    metrics: MetricsSettings = Field(default_factory=MetricsSettings)

    @model_validator(mode="after")
    def _knows_its_keys(self) -> Settings:
        """Workers and teams are told what they are called, so that each can be passed around alone."""
        for worker_id, worker in self.workers.items():
            worker._id = worker_id  # noqa: SLF001 (a key only its parent knows)
        for name, team in self.teams.items():
            team._name = name  # noqa: SLF001
        return self
