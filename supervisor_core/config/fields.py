"""The types of settings. Each says what it expects, and never quotes a secret.

Addresses may hold passwords: they are secrets that show no more than where they lead.
"""

from __future__ import annotations

import hashlib
import re
import socket
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Self
from urllib.parse import parse_qs, urlsplit

from supervisor_core.commands.catalog import FAMILIES, HANDLERS, find, nearest_command
from supervisor_core.commands.targets import WORKER_ID
from supervisor_core.common.text import nearest
from supervisor_core.config.raw import SettingPath, absolute
from supervisor_core.config.sections import (
    Invalid,
    Reader,
    SecretStr,
    Section,
    checked,
    convert,
    free_text,
    kind_of,
    line,
    number,
    pattern,
    quotable,
    resolved,
)

WEEK = 7 * 24 * 3600  # seconds: longer than anything here may take
MONTH = 31 * 24 * 60  # minutes
TICK = 0.01  # seconds: a loop with a shorter pause would be a busy one
LAST_PORT = 65_535


def absolute_path(value: object, reader: Reader, _path: SettingPath = ()) -> Path:
    text = line(str(value) if isinstance(value, Path) else value)
    if not text:
        raise Invalid("must be a path, but is empty")
    return Path(absolute(reader.folder, text))


def optional_path(value: object, reader: Reader, _path: SettingPath) -> Path | None:
    return None if value in (None, "") else absolute_path(value, reader)


def _check_port(value: str) -> str:
    if value and int(value.rpartition(":")[2]) > LAST_PORT:
        raise Invalid("must have a port from 0 to 65535")
    return value


def _as_written(value: Any) -> SecretStr:  # noqa: ANN401
    """Text, or a number as it was written: an environment knows no numbers."""
    return SecretStr(free_text(getattr(value, "text", value)))


FreeText = Annotated[str, checked(free_text)]
Written = Annotated[SecretStr, checked(_as_written)]
Seconds = Annotated[float, number(0, WEEK, "seconds")]
Pause = Annotated[float, number(TICK, WEEK, "seconds")]
Minutes = Annotated[float, number(0, MONTH, "minutes")]
Span = Annotated[float, number(TICK, MONTH, "minutes")]
FilePath = Annotated[Path, resolved(absolute_path, "path")]
OptionalPath = Annotated[Path | None, resolved(optional_path, "path")]
_HOST_PORT = (
    r"(?:\[[0-9A-Fa-f:.]+\]|[^\s:/@\[\]]+):[0-9]{1,5}",  # the host of IPv6 in brackets
    "a host and a port such as 127.0.0.1:9464",
    "host:port",
)
HostPort = Annotated[str, pattern(*_HOST_PORT), checked(_check_port)]
Bind = Annotated[str, pattern(*_HOST_PORT, empty=True), checked(_check_port)]

DISTRIBUTION = "supervisor-chatops"
DIALECTS = {
    "sqlite": ("", ""),
    "mysql+pymysql": ("pymysql", "mysql"),
    "postgresql+psycopg": ("psycopg", "postgres"),
}
"""The part of a URL before `://`, the module that speaks it, and the extra that installs it."""

_USUAL = {"mysql": "mysql+pymysql", "mariadb": "mysql+pymysql", "postgres": "postgresql+psycopg"}
_USUAL |= {"postgresql": "postgresql+psycopg"}
_SQLITE = re.compile(r"sqlite:///([^?]+)(\?.*)?")
_SOCKET = {"mysql+pymysql": "unix_socket", "postgresql+psycopg": "host"}
"""The parameter of a URL that names a socket on this machine; then it needs no host."""


class SecretUrl(SecretStr):
    """An address. Shown without user, password, path and query: any of these may be a secret."""

    def __str__(self) -> str:
        return mask_url(self.get_secret_value())


NO_URL, NO_SECRET = SecretUrl(""), SecretStr("")


def mask_url(url: str) -> str:
    """An address that may be shown: its protocol and host, and nothing else."""
    if not url:
        return ""
    scheme, separator, remainder = url.partition("://")
    if not separator or not re.fullmatch(r"[a-z0-9+]+", scheme):
        return "…"
    host = re.split(r"[/?#]", remainder, maxsplit=1)[0].rpartition("@")[2]
    return f"{scheme}://{host}/…" if re.fullmatch(r"[A-Za-z0-9.:\[\]-]*", host) else f"{scheme}://…"


def require_driver(module: str, extra: str, driver: str) -> None:
    """Refuse a setting whose driver isn't installed, without importing it."""
    try:
        installed = find_spec(module) is not None
    except ModuleNotFoundError:  # the package around it
        installed = False
    if not installed:
        raise Invalid(f"needs {driver}, which is not installed: pip install '{DISTRIBUTION}[{extra}]'")


def url_text(value: object) -> str:
    if isinstance(value, SecretUrl):
        value = value.get_secret_value()
    if not isinstance(value, str):
        raise Invalid(f"must be a URL in quotes, but is {kind_of(value)}")
    if not value.isprintable() or " " in value:
        raise Invalid("must be a URL without spaces")
    return str(value)


def check_url(text: str, schemes: tuple[str, ...], example: str) -> SecretUrl:
    try:
        parts = urlsplit(text)
        valid = parts.scheme in schemes and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        valid = False
    if not valid:
        raise Invalid(f"must be a URL such as {example}")
    return SecretUrl(text)


def web_url(value: object) -> SecretUrl:
    text = url_text(value)
    return check_url(text, ("http", "https"), "https://example.org/path") if text else NO_URL


def _probe_url(value: object) -> SecretUrl:
    return check_url(url_text(value), ("http", "https"), "http://127.0.0.1:8080/health")


def _fleet_url(value: object) -> SecretUrl:
    text = url_text(value)
    if text:
        for part in text.split(","):
            check_url(part, ("nats", "tls", "ws", "wss"), "nats://hub.example.org:4222, or several separated by commas")
        require_driver("nats", "fleet", "the driver for NATS")
    return SecretUrl(text)


def _database_url(value: object, reader: Reader, _path: SettingPath) -> SecretUrl:
    text = url_text(value)
    if not text:
        return NO_URL
    dialect, separator, _ = text.partition("://")
    if not separator or dialect not in DIALECTS:
        suggestion = _USUAL.get(dialect) or (nearest(dialect, DIALECTS) if separator else None)
        hint = f"; did you mean {suggestion}://?" if suggestion else ""
        raise Invalid(f"must begin with one of {', '.join(f'{name}://' for name in DIALECTS)}{hint}")
    if dialect == "sqlite":
        match = _SQLITE.fullmatch(text)
        if match is None or match[1] == ":memory:":
            raise Invalid("must name a file, such as sqlite:///var/fleet.db; an in-memory database isn't kept")
        path = match[1] if match[1].startswith("file:") else absolute(reader.folder, match[1])
        return SecretUrl(f"sqlite:///{path}{match[2] or ''}")
    try:
        parts = urlsplit(text)
        sockets = [] if parts.netloc.rpartition("@")[2] else parse_qs(parts.query).get(_SOCKET[dialect], [])
    except ValueError:
        sockets = []
    if not (len(sockets) == 1 and sockets[0].startswith("/")):
        check_url(text, (dialect,), f"{dialect}://user:password@host/database")
    module, extra = DIALECTS[dialect]
    require_driver(module, extra, f"the driver for {dialect}")
    return SecretUrl(text)


DatabaseUrl = Annotated[SecretUrl, resolved(_database_url, "URL")]
FleetUrl = Annotated[SecretUrl, checked(_fleet_url, "URL")]
WebUrl = Annotated[SecretUrl, checked(web_url, "URL")]
ProbeUrl = Annotated[SecretUrl, checked(_probe_url, "URL")]


MAX_NAME = 64  # characters, of a worker, a team or a host
FLAG_WORDS = frozenset({"deps", "watcher"})  # `supervisor_update_code_deps.flag` must mean one thing
FLEET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,62}")
"""A host's name in a fleet, where it's one word of a NATS subject."""

FLEET_NAME_WORDS = "a name of 1 to 63 letters, digits and hyphens, starting with a letter or digit"
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|nan|inf|infinity", re.IGNORECASE)


def worker_id_fault(name: str) -> str | None:
    """The reason why a worker can't have this name, in words that follow it; None for a valid one."""
    folded = name.casefold()
    if not WORKER_ID.fullmatch(name):
        return "isn't a worker id: use 1 to 64 letters, digits, dots and hyphens, starting with a letter or digit"
    if _NUMBER.fullmatch(name):
        return "isn't a worker id: a number would be read as an argument; add a letter in front"
    if folded == "all":
        return "isn't a worker id: it means every worker"
    if find(name) or folded in FAMILIES or folded in HANDLERS:
        return "isn't a worker id: it's the name of a command"
    if folded in FLAG_WORDS:
        return "isn't a worker id: in a flag's name it would be read as part of the command"
    return None


def host_id() -> str:
    """The name of this host where the configuration has none."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", socket.gethostname()).strip("._-")[:MAX_NAME]
    return name or "supervisor"


def unless_fault(describe_fault: Callable[[str], str | None]) -> Callable[[object], str]:
    """A check for names in which this function finds no fault."""

    def check(value: object) -> str:
        if fault := describe_fault(str(value)):
            raise Invalid(fault)
        return str(value)

    return check


def _command_name(value: object, reader: Reader, _path: SettingPath) -> str:
    """A command by its name, or by an alias or its handler, which become its name."""
    if isinstance(value, str) and value in reader.commands:
        return value
    definition = find(value) if isinstance(value, str) else None
    if definition is not None:
        return definition.name
    suggestion = nearest_command(value) if isinstance(value, str) and quotable(value) else None
    hint = " or ".join(command.name for command in FAMILIES.get(suggestion or "", ())) or suggestion
    raise Invalid("must be a command name" + (f"; did you mean {hint}?" if hint else ""))


_NAME = (
    r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}",
    "a name of 1 to 64 letters A-Z, digits, dots, hyphens and underscores",
    "name",
)
_CHANNEL = (r"[CGD][A-Z0-9]+", "a channel id (C…, at the end of its About tab), not a name", "channel id")

WorkerId = Annotated[str, checked(unless_fault(worker_id_fault), "worker id")]
TeamName = Annotated[str, pattern(*_NAME)]
HostId = Annotated[str, pattern(*_NAME, empty=True), checked(lambda name: name or host_id())]
CommandName = Annotated[str, resolved(_command_name, "command")]
PersonId = Annotated[
    str,
    pattern(
        r"[UWSCG][A-Z0-9]+|\*", 'a user id (U…), a usergroup id (S…), a channel id (C…, for its members), or "*"', "id"
    ),
]
ChannelId = Annotated[str, pattern(*_CHANNEL)]
OptionalChannel = Annotated[str, pattern(*_CHANNEL, empty=True)]
UserName = Annotated[str, pattern(r"[^\s:/]+", "the login name of a user")]
UserId = Annotated[str, pattern(r"[UW][A-Z0-9]+", "a user id (U…)", "user id")]

ON_CALL_KEY = "oncall"
ON_CALL = f"{ON_CALL_KEY}:"
"""The beginning of the id of a source that says who is on call. Its members change, like those of a usergroup."""


class OnCallSettings(Section, frozen=True):
    """A source that says who is on call."""

    url: WebUrl = NO_URL
    secret: SecretStr = NO_SECRET
    command: tuple[str, ...] = ()
    cache_minutes: Span = 5.0
    timeout_seconds: Annotated[float, number(0.1, 10, "seconds")] = 3.0
    fallback: tuple[UserId, ...] = ()

    def check_values(self) -> None:
        if bool(self.url) is bool(self.command):
            raise Invalid("must have either url or command")
        if self.secret and not self.url:
            raise Invalid("is only for url", "secret")


class OnCallSource(str):
    """The id of a source in a list of people: `oncall:` and a digest of its settings, which it has along."""

    __slots__ = ("settings",)
    settings: OnCallSettings

    def __new__(cls, settings: OnCallSettings) -> Self:
        facts = [settings.url.get_secret_value(), settings.secret.get_secret_value(), *settings.command]
        facts += [str(settings.cache_minutes), str(settings.timeout_seconds), *settings.fallback]
        source = super().__new__(cls, f"{ON_CALL}{hashlib.sha256(repr(facts).encode()).hexdigest()[:12]}")
        source.settings = settings
        return source

    @property
    def shown(self) -> str:
        """The address or the program, without what may be secret."""
        url = self.settings.url.get_secret_value()
        return mask_url(url) if url else self.settings.command[0]


def _or_on_call(people: object) -> Callable[[object, Reader, SettingPath], str | None]:
    """The same, or `{oncall: {…}}`."""

    def resolve(value: object, reader: Reader, path: SettingPath) -> str | None:
        if not isinstance(value, Mapping):
            person: str = convert(people, value, reader, path)
            return person
        if set(value) != {ON_CALL_KEY}:
            raise Invalid("must be an id, or a section with the one key oncall")
        settings = reader.read_section(OnCallSettings, value[ON_CALL_KEY], (*path, ON_CALL_KEY))
        return OnCallSource(settings) if settings else None

    return resolve


_TARGET = pattern(r"[UWSCGD][A-Z0-9]+", "a user id (U…), a usergroup id (S…) or a channel id (C…)")
EscalationTarget = Annotated[str, resolved(_or_on_call(Annotated[str, _TARGET]), "id")]
ApproverId = Annotated[str, resolved(_or_on_call(PersonId), "id")]
